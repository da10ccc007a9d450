import { describe, expect, it } from 'vitest';
import { bannerText, sshTarget, type BannerFacts } from '../../../electron/headless/banner.ts';
import { hasPersonAtScreen } from '../../../electron/headless/open-browser.ts';

const FACTS: BannerFacts = {
  version: '1.2.3',
  loginUrl: 'http://127.0.0.1:7080/login?token=abc',
  proxyUrl: 'http://127.0.0.1:8000/v1',
  controlPort: 7080,
  proxyPort: 8000,
  isControlLocal: true,
  isProxyLocal: true,
  sshTarget: 'ann@gpu7',
  counts: { encode: 0, prefill: 2, decode: 3, both: 0 },
  isDemo: true,
};

describe('banner', () => {
  it('says what runs, where to go, and the exact tunnel', () => {
    expect(bannerText(FACTS)).toBe(`pdscope 1.2.3: demo, simulated: 2 prefill, 3 decode
  dashboard  http://127.0.0.1:7080/login?token=abc
  proxy      http://127.0.0.1:8000/v1
  remote     ssh -L 7080:127.0.0.1:7080 -L 8000:127.0.0.1:8000 ann@gpu7
  stop       Ctrl+C
`);
  });

  it('forwards no port that is reachable anyway, and says how to fill an empty fleet', () => {
    const text = bannerText({ ...FACTS, isProxyLocal: false, isDemo: false, counts: { encode: 0, prefill: 0, decode: 0, both: 0 } });
    expect(text).toContain('pdscope 1.2.3: no instances yet: add them in the dashboard\n');
    expect(text).toContain('ssh -L 7080:127.0.0.1:7080 ann@gpu7\n');
    expect(bannerText({ ...FACTS, isControlLocal: false })).not.toContain('ssh');
  });

  it('says where engines register, when the protocol has that', () => {
    const text = bannerText({ ...FACTS, isDemo: false, counts: { encode: 0, prefill: 0, decode: 0, both: 0 }, registration: 'tcp://0.0.0.0:36367' });
    expect(text).toContain('no instances yet: they register by themselves\n');
    expect(text).toContain('\n  register   tcp://0.0.0.0:36367\n');
  });

  it('names the address that the ssh session came in on', () => {
    expect(sshTarget('ann', 'gpu7', { SSH_CONNECTION: '10.9.9.9 51234 10.0.0.7 22' })).toBe('ann@10.0.0.7');
    expect(sshTarget('ann', 'gpu7', {})).toBe('ann@gpu7');
  });

  it('opens a browser only where somebody sits', () => {
    expect(hasPersonAtScreen({ DISPLAY: ':0' }, 'linux', true)).toBe(true);
    expect(hasPersonAtScreen({}, 'linux', true)).toBe(false);
    expect(hasPersonAtScreen({ DISPLAY: ':0', SSH_CONNECTION: 'x' }, 'linux', true)).toBe(false);
    expect(hasPersonAtScreen({ DISPLAY: ':0' }, 'linux', false)).toBe(false);
    expect(hasPersonAtScreen({}, 'darwin', true)).toBe(true);
  });
});

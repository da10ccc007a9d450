import { describe, expect, it } from 'vitest';
import { parseServeArgs } from '../../../electron/headless/commands/serve-command.ts';
import { serveArguments } from '../../../electron/main/arguments.ts';

describe('serveArguments', () => {
  it('starts the demo without arguments', () => {
    expect(serveArguments(['/opt/pdscope/pdscope'], true)).toEqual(['--demo']);
    expect(serveArguments(['/node_modules/electron/dist/electron', '/app'], false)).toEqual(['--demo']);
    expect(serveArguments(['/electron', '/app', '--', 'serve'], false)).toEqual(['--demo']);
  });

  it('takes what comes after the launcher\'s separator, and no switch before it', () => {
    const argv = ['/electron', '--inspect=0', '/app', '--user-data-dir=/tmp/x', '--', 'serve', '--prefill', '10.0.0.1:8100'];
    expect(serveArguments(argv, false)).toEqual(['--prefill', '10.0.0.1:8100']);
  });

  it('takes the arguments of a packaged app as they are', () => {
    expect(serveArguments(['/opt/pdscope/pdscope', '--decode', '10.0.0.2:8200'], true)).toEqual(['--decode', '10.0.0.2:8200']);
    expect(serveArguments(['/opt/pdscope/pdscope', 'serve', '--demo', '4P4D'], true)).toEqual(['--demo', '4P4D']);
  });

  it.each([
    [
      ['--prefill', 'http://p:8100', '8998', '--decode', 'http://d:8200'],
      { connector: 'mooncake', instances: [{ role: 'prefill', url: 'http://p:8100', bootstrapPort: 8998 }, { role: 'decode', url: 'http://d:8200' }] },
    ],
    [
      ['--prefiller-host', 'p', '--prefiller-port', '8100', '--decoder-host', 'd', '--decoder-port', '8200'],
      { connector: 'nixl-bidirectional', instances: [{ role: 'prefill', url: 'p:8100' }, { role: 'decode', url: 'd:8200' }] },
    ],
    [
      ['--encode-servers-urls', 'http://e:8000', '--prefill-servers-urls', 'disable', '--decode-servers-urls', 'http://d:8200'],
      { connector: 'aggregated', instances: [{ role: 'encode', url: 'http://e:8000' }, { role: 'both', url: 'http://d:8200' }] },
    ],
    [['--connector', 'moriio', '--moriio-host', '10.0.0.9', '--no-block-fatal'], { connector: 'moriio', instances: [], protocol: { moriioHost: '10.0.0.9', blockFatal: false } }],
  ])('are those of serve, example proxies included: %j', async (own, expected) => {
    const settings = await parseServeArgs(serveArguments(['/opt/pdscope/pdscope', ...own], true), {});
    expect(settings.engine).toMatchObject(expected);
  });
});

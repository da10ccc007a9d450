import { describe, expect, it } from 'vitest';
import { KV_DOUBT_CODES } from '#shared/kv.ts';
import { TrustMark } from '../../../renderer/src/blocks/trust-mark.tsx';
import { trustOfStreams } from '../../../renderer/src/blocks/trust.ts';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount } from '../fixtures/mount.tsx';
import { sampleInstance, sampleStream } from '../fixtures/sample-state.ts';

/** A stream in every doubt there is but those that need no stream. */
const codes = KV_DOUBT_CODES.filter((code) => code !== 'no-stream' && code !== 'never-connected' && code !== 'socket-failed');
const doubted = sampleStream(sampleInstance({ name: 'P0', role: 'prefill' }), { confidence: 0.123, reasons: codes.map((code) => ({ code, text: `Because of ${code}.`, weight: 0.1 })) });

describe('TrustMark', () => {
  it('names each reason why a stream is not trusted wholly, for eyes and for screen readers', async () => {
    await using page = await mount(<TrustMark trust={trustOfStreams([doubted])} />, new FakeTransport());
    const name = page.root.querySelector('button')?.getAttribute('aria-label') ?? '';
    expect(name).toMatch(/^confidence 12 %\. Why not 100 %/);
    for (const code of codes) expect(name).toContain(`P0/0: Because of ${code}.`);
    expect(page.text()).toContain('✕ 12 %');
  });

  it('says that nothing is missing where nothing is', async () => {
    await using page = await mount(<TrustMark trust={trustOfStreams([sampleStream(sampleInstance({ name: 'P0', role: 'prefill' }), { confidence: 1, reasons: [] })])} />, new FakeTransport());
    expect(page.root.querySelector('button')?.getAttribute('aria-label')).toBe('confidence 100 %. Every batch of these streams was seen since their engines started.');
  });
});

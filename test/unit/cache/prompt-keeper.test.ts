import { describe, expect, it } from 'vitest';
import { PromptKeeper, type PromptKeeperOptions } from '#engine/cache/prompt-keeper.ts';
import type { RequestRecord } from '#engine/telemetry/request-record.ts';

/** The keeper only tells records apart. */
const record = (): RequestRecord => ({}) as RequestRecord;

function setUp(options: Partial<PromptKeeperOptions> = {}): { readonly keeper: PromptKeeper; readonly clock: { ms: number } } {
  const clock = { ms: 0 };
  return { keeper: new PromptKeeper({ isOn: true, now: () => clock.ms, ...options }), clock };
}

describe('PromptKeeper', () => {
  it('hands the very buffer over, once, and counts its bytes only until then', () => {
    const { keeper } = setUp();
    const [a, body] = [record(), Buffer.from('{"prompt":1}')];
    expect(keeper.keep(a, body)).toBeUndefined();
    expect(keeper.bytes).toBe(body.length);
    expect(keeper.take(a)?.body).toBe(body);
    expect(keeper.take(a)).toBeUndefined();
    expect(keeper.bytes).toBe(0);
  });

  it('keeps the tokens that routing had with a body that is kept, within the same bytes, and lets them go with it', () => {
    const { keeper } = setUp({ maxBytes: 100 });
    const [a, b] = [record(), record()];
    const tokens = Uint32Array.of(1, 2, 3);
    keeper.learn(a, tokens, 'tokenize');
    expect(keeper.bytes).toBe(0);
    keeper.keep(a, Buffer.alloc(10));
    keeper.keep(b, Buffer.alloc(10));
    keeper.learn(a, tokens, 'tokenize');
    keeper.learn(b, new Uint32Array(20), 'render');
    expect(keeper.bytes).toBe(32);
    expect(keeper.take(a)).toMatchObject({ tokens, from: 'tokenize' });
    expect(keeper.take(b)).toMatchObject({ tokens: undefined, from: undefined });
    expect(keeper.bytes).toBe(0);
  });

  it('keeps nothing when it is off, and says why', () => {
    const { keeper } = setUp({ isOn: false });
    expect(keeper.keep(record(), Buffer.from('{}'))).toContain('switched off');
    expect(keeper).toMatchObject({ bytes: 0, dropped: 0 });
  });

  it('leaves out bodies too large, too many bytes, and too many a second; each counted', () => {
    const { keeper, clock } = setUp({ maxBodyBytes: 10, maxBytes: 12, perSecond: 2, burst: 3 });
    const first = record();
    expect(keeper.keep(record(), Buffer.alloc(11))).toContain('larger than 10 bytes');
    expect(keeper.keep(first, Buffer.alloc(10))).toBeUndefined();
    expect(keeper.keep(record(), Buffer.alloc(3))).toContain('more than 12 bytes');
    keeper.take(first);
    expect([keeper.keep(record(), Buffer.alloc(1)), keeper.keep(record(), Buffer.alloc(1))]).toEqual([undefined, undefined]);
    expect(keeper.keep(record(), Buffer.alloc(1))).toContain('more than 2 requests a second');
    clock.ms = 499;
    expect(keeper.keep(record(), Buffer.alloc(1))).toContain('more than 2 requests a second');
    clock.ms = 1000;
    expect(keeper.keep(record(), Buffer.alloc(1))).toBeUndefined();
    expect(keeper.dropped).toBe(4);
  });

  it('lets all go at once', () => {
    const { keeper } = setUp();
    const [a, b] = [record(), record()];
    keeper.keep(a, Buffer.alloc(1));
    keeper.keep(b, Buffer.alloc(1));
    expect(keeper.clear()).toEqual([a, b]);
    expect(keeper.bytes).toBe(0);
    expect(keeper.take(a)).toBeUndefined();
  });
});

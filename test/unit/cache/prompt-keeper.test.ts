import { describe, expect, it } from 'vitest';
import { PromptKeeper, type PromptKeeperOptions, type SpareFacts } from '#engine/cache/prompt-keeper.ts';
import type { RequestRecord } from '#engine/telemetry/request-record.ts';

/** The keeper only tells records apart. */
const record = (id = ''): RequestRecord => ({ id }) as RequestRecord;
const FACTS: SpareFacts = { init: { requestId: 'q', api: 'chat', connector: 'nixl', headers: {} }, model: 'm', leg: 0, sentAtUnixMs: 1000, blockSize: 16 };
const KIB = 1024;

function setUp(options: Partial<PromptKeeperOptions> = {}): PromptKeeper {
  return new PromptKeeper({ isOn: true, ...options });
}

describe('PromptKeeper', () => {
  it('hands the very buffer over, once, and counts its bytes only until then', () => {
    const keeper = setUp();
    const [a, body] = [record(), Buffer.alloc(100)];
    expect(keeper.keep(a, body)).toBeUndefined();
    expect(keeper.bytes).toBe(100);
    expect(keeper.waiting(a)?.body).toBe(body);
    expect(keeper.take(a)?.body).toBe(body);
    expect(keeper.take(a)).toBeUndefined();
    expect(keeper.bytes).toBe(0);
  });

  it('counts all of the memory that a part of it keeps', () => {
    const keeper = setUp();
    keeper.keep(record(), Buffer.alloc(10_000).subarray(0, 10));
    expect(keeper.bytes).toBe(10_000);
  });

  it('keeps the tokens that routing had with a body that is kept, within the same bytes, and lets them go with it', () => {
    const keeper = setUp({ maxBytes: 100 });
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
    const keeper = setUp({ isOn: false });
    expect(keeper.keep(record(), Buffer.from('{}'))).toContain('switched off');
    expect(keeper).toMatchObject({ bytes: 0, refused: 0, gaveWay: 0 });
  });

  it('leaves out bodies too large, and too many bytes that wait; each counted', () => {
    const keeper = setUp({ maxBodyBytes: 10, maxBytes: 12 });
    const first = record();
    expect(keeper.keep(record(), Buffer.alloc(11))).toContain('larger than 10 bytes');
    expect(keeper.keep(first, Buffer.alloc(10))).toBeUndefined();
    expect(keeper.keep(record(), Buffer.alloc(3))).toContain('more than 12 bytes');
    keeper.take(first);
    expect(keeper.keep(record(), Buffer.alloc(3))).toBeUndefined();
    expect(keeper.refused).toBe(2);
  });

  it('keeps spare prompts until they have to give way, the oldest first, and what waits gives way to nothing', () => {
    const keeper = setUp({ maxBytes: 10 * KIB });
    const [a, b, c, d] = [record('a'), record('b'), record('c'), record('d')];
    const body = Buffer.alloc(3 * KIB);
    keeper.keep(a, body);
    keeper.makeSpare(a, FACTS);
    keeper.keep(b, Buffer.alloc(3 * KIB));
    keeper.makeSpare(b, FACTS);
    expect(keeper.spare(a.id)).toMatchObject({ facts: FACTS });
    expect(keeper.spare(a.id)?.body).toBe(body);
    expect(keeper.bytes).toBe(8 * KIB);
    expect(keeper.keep(c, Buffer.alloc(3 * KIB))).toBeUndefined();
    expect([keeper.spare(a.id), keeper.spare(b.id) !== undefined, keeper.gaveWay, keeper.bytes]).toEqual([undefined, true, 1, 7 * KIB]);
    // Now both wait, and nothing is spare.
    expect(keeper.keep(d, Buffer.alloc(7 * KIB))).toBeUndefined();
    expect([keeper.spare(b.id), keeper.gaveWay]).toEqual([undefined, 2]);
    expect(keeper.keep(record('e'), Buffer.alloc(KIB))).toContain('were waiting');
    expect(keeper).toMatchObject({ gaveWay: 2, refused: 1, bytes: 10 * KIB });
  });

  it('keeps so many spare ones, and lets one go that was explained', () => {
    const keeper = setUp({ maxSpare: 2 });
    for (const id of ['a', 'b', 'c']) {
      const one = record(id);
      keeper.keep(one, Buffer.alloc(10));
      keeper.makeSpare(one, FACTS);
    }
    expect(keeper.gaveWay).toBe(1);
    keeper.dropSpare(record('b').id);
    expect([keeper.spare(record('b').id), keeper.spare(record('c').id) !== undefined, keeper.gaveWay]).toEqual([undefined, true, 1]);
    keeper.dropSpare(record('c').id);
    expect(keeper.bytes).toBe(0);
  });

  it('lets all go at once', () => {
    const keeper = setUp();
    const [a, b, c] = [record('a'), record('b'), record('c')];
    for (const one of [a, b, c]) keeper.keep(one, Buffer.alloc(1));
    keeper.makeSpare(c, FACTS);
    expect(keeper.clear()).toEqual([a, b]);
    expect(keeper.bytes).toBe(0);
    expect([keeper.take(a), keeper.spare(c.id)]).toEqual([undefined, undefined]);
  });
});

import { describe, expect, it } from 'vitest';
import { computedBlocks } from '#engine/cache/store-witness.ts';
import { UntoldStores } from '#engine/kv-events/untold-stores.ts';

describe('computedBlocks', () => {
  it.each([
    ['a prompt that was not cached', { promptTokens: 100, cachedTokens: 0 }, 6],
    ['one that was cached in part', { promptTokens: 100, cachedTokens: 48 }, 3],
    ['one that was received but for its last token', { promptTokens: 100, cachedTokens: 99 }, 0],
    ['one held whole, whose last block is computed again', { promptTokens: 96, cachedTokens: 80 }, 0],
    ['one shorter than a block', { promptTokens: 16, cachedTokens: 0 }, 0],
    ['an answer that tells no cached tokens', { promptTokens: 100 }, 0],
    ['an answer without usage', undefined, 0],
  ] as const)('counts what was surely stored of %s', (_, usage, expected) => {
    expect(computedBlocks({ usage }, 16)).toBe(expected);
  });

  it('knows nothing without the size of a block', () => {
    expect(computedBlocks({ usage: { promptTokens: 100, cachedTokens: 0 } }, 0)).toBe(0);
  });
});

describe('UntoldStores', () => {
  it('is evidence once batches can no longer be on their way, and none when one came', () => {
    const untold = new UntoldStores();
    expect(untold.facts(1e9)).toBeUndefined();
    untold.add({ sentAtUnixMs: 50, blocks: 3 }, 1000);
    untold.add({ sentAtUnixMs: 40, blocks: 2 }, 4000);
    expect([untold.facts(5999), untold.facts(6000), untold.lastSentAtUnixMs]).toEqual([undefined, { requests: 2, blocks: 5 }, 50]);
    untold.clear();
    expect(untold.facts(1e9)).toBeUndefined();
    untold.add({ sentAtUnixMs: 60, blocks: 1 }, 7000);
    expect([untold.facts(11_999), untold.facts(12_000)]).toEqual([undefined, { requests: 1, blocks: 1 }]);
  });
});

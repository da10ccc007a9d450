import { describe, expect, it } from 'vitest';
import type { StreamId } from '#shared/ids.ts';
import { IndexLookup } from '#engine/cache-hits/index-lookup.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { identity, stored, tokens } from '../kv-index/events.ts';

const PROMPT = tokens(100, 101, 102, 103, 104, 105, 9);
const at = { atUnixMs: 10 };
const requestId = 'r';

function world(confidence = 1): { readonly index: KvIndex; readonly lookup: IndexLookup; readonly streams: { value: number }; readonly later: () => void } {
  const index = new KvIndex({ capacity: 1000, historyCapacity: 1000 });
  const streams = { value: confidence };
  let now = 0;
  const lookup = new IndexLookup({
    index,
    fleet: { list: () => [{ models: ['base', 'tuned'] }] },
    kvEvents: {
      streams: () => [
        { ...identity('p0'), confidence: streams.value, reasons: [{ code: 'joined-late', weight: 0.5, text: 'joined late' }] },
        { ...identity('p1'), confidence: 1, reasons: [] },
        { ...identity('d0'), confidence: 1 },
        { ...identity('d0'), id: 'd0/1' as StreamId, rank: 1 },
      ],
    },
    now: () => now,
  });
  return { index, lookup, streams, later: () => void (now += 300) };
}

describe('the index as routing sees it', () => {
  it('has an entry for every watched stream, with its confidence, also for those that told no block yet', () => {
    const { index, lookup } = world(0.5);
    index.open(identity('p0')).apply(stored([1, 2]), at);
    index.open(identity('p1'));
    expect(lookup.prefix({ tokens: PROMPT, requestId })).toEqual([
      { instance: 'p0', matchedTokens: 4, matchedBlocks: 2, confidence: 0.5, doubt: 'joined late' },
      { instance: 'p1', matchedTokens: 0, matchedBlocks: 0, confidence: 1 },
      { instance: 'd0', rank: 0, matchedTokens: 0, matchedBlocks: 0, confidence: 1 },
      { instance: 'd0', rank: 1, matchedTokens: 0, matchedBlocks: 0, confidence: 0 },
    ]);
  });

  it('asks streams for their confidence a few times a second only', () => {
    const { lookup, streams, later } = world(0.5);
    const confidence = (): number | undefined => lookup.prefix({ tokens: PROMPT, requestId })[0]?.confidence;
    expect(confidence()).toBe(0.5);
    streams.value = 0.9;
    expect(confidence()).toBe(0.5);
    later();
    expect(confidence()).toBe(0.9);
  });

  it('tells blocks of another salt or adapter apart', () => {
    const { index, lookup } = world();
    index.open(identity('p0')).apply(stored([1, 2], { cacheSalt: 's' }), at);
    index.open(identity('p1')).apply(stored([1, 2, 3], { loraName: 'tuned' }), at);
    const held = (query: object): readonly number[] => lookup.prefix({ tokens: PROMPT, requestId, ...query }).slice(0, 2).map(({ matchedTokens }) => matchedTokens);
    expect(held({ model: 'tuned' })).toEqual([0, 6]);
    expect(held({ model: 'base' })).toEqual([0, 0]);
    expect(held({ model: 'base', salt: 'other' })).toEqual([0, 0]);
    expect(held({ model: 'base', salt: 's' })).toEqual([4, 0]);
  });
});

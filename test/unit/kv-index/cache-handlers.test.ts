import { describe, expect, it } from 'vitest';
import type { KvStreamView } from '#shared/kv.ts';
import { OPERATION_INPUTS } from '#shared/operations.ts';
import { createCacheHandlers, type CacheHandlerOptions } from '#engine/kv-index/cache-handlers.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { identity, stored } from './events.ts';

const [p0, d0, b0] = [identity('p0'), identity('d0'), identity('b0')];

function view(id: typeof p0, confidence: number, weights: readonly number[]): KvStreamView {
  const reasons = weights.map((weight) => ({ code: 'batches-lost', text: `lost ${weight}`, weight }));
  return { id: id.id, instance: id.instance, confidence, reasons } as unknown as KvStreamView;
}

function setUp(extra: Partial<CacheHandlerOptions> = {}): ReturnType<typeof createCacheHandlers> {
  const index = new KvIndex({ capacity: 100, historyCapacity: 100 });
  index.open(p0).apply(stored([1, 2]), { atUnixMs: 1000 });
  index.open(d0).apply(stored([1]), { atUnixMs: 1000 });
  index.open(b0).apply(stored([1, 2, 3]), { atUnixMs: 1000 });
  return createCacheHandlers({
    index,
    instances: () => [{ id: p0.instance, name: 'P0', role: 'prefill' }, { id: d0.instance, name: 'D0', role: 'decode' }, { id: b0.instance, name: 'B0', role: 'both' }],
    streams: () => [view(p0, 0.5, [0.4, 0.2]), view(d0, 1, []), view(b0, 0.9, [0.3])],
    now: () => 5000,
    ...extra,
  });
}

describe('createCacheHandlers', () => {
  it('compares prefill with decode instances unless told otherwise', async () => {
    const handlers = setUp();
    const answer = await handlers['cache.difference'](OPERATION_INPUTS['cache.difference'].parse({}));
    expect([answer.left, answer.right]).toEqual([['p0', 'b0'], ['d0']]);
    expect([answer.onlyLeft.blocks, answer.onlyRight.blocks, answer.both.blocks]).toEqual([2, 0, 1]);
    const asked = await handlers['cache.difference'](OPERATION_INPUTS['cache.difference'].parse({ left: ['p0'], right: ['b0'] }));
    expect([asked.onlyLeft.blocks, asked.onlyRight.blocks, asked.both.blocks]).toEqual([0, 1, 2]);
  });

  it('carries the trust in the streams it rests on: the lowest, and every doubt, those of the worst stream first', async () => {
    const handlers = setUp();
    const { confidence } = await handlers['cache.tree'](OPERATION_INPUTS['cache.tree'].parse({}));
    expect(confidence).toEqual({
      value: 0.5,
      reasons: [
        { code: 'batches-lost', text: 'lost 0.4', stream: 'p0/0' }, { code: 'batches-lost', text: 'lost 0.3', stream: 'b0/0' }, { code: 'batches-lost', text: 'lost 0.2', stream: 'p0/0' },
      ],
      over: [{ stream: 'p0/0', value: 0.5 }, { stream: 'b0/0', value: 0.9 }, { stream: 'd0/0', value: 1 }],
      streams: 3,
    });
    const ofOne = await handlers['cache.tree'](OPERATION_INPUTS['cache.tree'].parse({ instance: 'd0' }));
    expect(ofOne.confidence).toMatchObject({ value: 1, reasons: [] });
    const { rows } = await handlers['cache.residency']({ cells: 16 });
    expect(rows.map((row) => [row.instanceName, row.role, row.confidence.value, row.ageS[0]])).toEqual([['P0', 'prefill', 0.5, 4], ['D0', 'decode', 1, 4], ['B0', 'both', 0.9, 4]]);
  });

  it('shows one dead stream among many, and an instance without one', async () => {
    const handlers = setUp({ streams: () => [view(p0, 1, []), view(b0, 1, []), { ...view(d0, 0, [1]), confidence: 0 }] });
    const dead = await handlers['cache.difference'](OPERATION_INPUTS['cache.difference'].parse({}));
    expect(dead.confidence).toMatchObject({ value: 0, reasons: [{ stream: 'd0/0' }], over: [{ stream: 'd0/0', value: 0 }, { value: 1 }, { value: 1 }] });
    const without = setUp({ streams: () => [view(p0, 1, []), view(b0, 0.9, [0.1])] });
    const { confidence } = await without['cache.difference'](OPERATION_INPUTS['cache.difference'].parse({}));
    expect(confidence.value).toBe(0);
    expect(confidence.reasons.map(({ code, text }) => [code, text])).toEqual([['no-stream', 'D0 has no KV event stream: nothing that it holds is in these figures.'], ['batches-lost', 'lost 0.1']]);
  });

  it('knows nothing without streams', async () => {
    const handlers = setUp({ streams: () => [] });
    expect((await handlers['cache.tree'](OPERATION_INPUTS['cache.tree'].parse({}))).confidence).toMatchObject({ value: 0, reasons: [{ code: 'no-stream' }] });
  });

  it('searches by tokens, and by text where an instance can tell its tokens', async () => {
    expect(await setUp()['cache.search']({ tokens: [100, 101, 102], limit: 5 })).toMatchObject({ matchedTokens: 3, askedTokens: 3 });
    expect(await setUp({ tokenize: async (text) => Promise.resolve([100, text.length]) })['cache.search']({ text: 'x'.repeat(101), limit: 5 })).toMatchObject({ matchedTokens: 2 });
    await expect(setUp()['cache.search']({ text: 'hello', limit: 5 })).rejects.toMatchObject({ code: 'tokenizer_missing' });
    await expect(setUp()['cache.search']({ limit: 5 })).rejects.toMatchObject({ code: 'bad_input' });
  });

  it('finds what stands inside prompts, over the borders of blocks, where no prompt begins with it', async () => {
    const handlers = setUp();
    // Blocks are [100, 101], [102, 103], [104, 105], one after the other.
    const inside = await handlers['cache.search']({ tokens: [101, 102, 103, 104], limit: 5 });
    expect(inside).toMatchObject({ matchedTokens: 4, askedTokens: 4, isInside: true });
    expect(inside.matches.map(({ tokens }) => tokens.slice(0, 2))).toEqual([[100, 101]]);
    expect(await handlers['cache.search']({ tokens: [103], limit: 5 })).toMatchObject({ matchedTokens: 1, isInside: true });
    const longer = await handlers['cache.search']({ tokens: [101, 102, 103, 104, 999], limit: 5 });
    expect(longer).toMatchObject({ matchedTokens: 4, askedTokens: 5, isInside: true });
    // Fewer than four in a row are too little of a longer run to be worth showing.
    expect(await handlers['cache.search']({ tokens: [101, 102, 999, 998, 997], limit: 5 })).toMatchObject({ matches: [], matchedTokens: 0 });
    const atStart = await handlers['cache.search']({ tokens: [100, 101, 102], limit: 5 });
    expect(atStart.isInside).toBeUndefined();
  });

  it('reads a text as it stands behind a space, too', async () => {
    const handlers = setUp({ tokenize: async (text) => Promise.resolve(text.startsWith(' ') ? [103, 104] : [7, 104]) });
    expect(await handlers['cache.search']({ text: 'word', limit: 5 })).toMatchObject({ matchedTokens: 2, askedTokens: 2, isInside: true });
  });

  it('answers storms and blocks', async () => {
    const handlers = setUp();
    expect(await handlers['cache.storms']({ windowS: 60, withinS: 5 })).toEqual({ storms: [], fewBlocks: 0, least: { blocks: 16, share: 0.01 } });
    expect(await handlers['cache.block']({ stream: p0.id, hash: '0000000000000002' })).toMatchObject({ tokens: [102, 103], index: 1 });
  });
});

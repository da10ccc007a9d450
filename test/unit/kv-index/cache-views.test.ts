import { beforeEach, describe, expect, it } from 'vitest';
import type { TreeNode } from '#shared/cache.ts';
import { CacheViews } from '#engine/kv-index/cache-views.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import type { StreamBlocks } from '#engine/kv-index/stream-blocks.ts';
import { identity, removed, stored, tokens } from './events.ts';

const [p0, d0] = [identity('p0'), identity('d0')];
const CONFIDENCE = { value: 0.5, reasons: [{ code: 'gap', text: 'a gap' }] };
let index: KvIndex;
let views: CacheViews;
let prefill: StreamBlocks;
let decode: StreamBlocks;
/** Whose tokens have a known size. */
let sized = 'p0';
/** Of every stream's engine. */
let capacity: number | undefined;

beforeEach(() => {
  sized = 'p0';
  capacity = undefined;
  index = new KvIndex({ capacity: 1000, historyCapacity: 1000 });
  [prefill, decode] = [index.open(p0), index.open(d0)];
  views = new CacheViews(index, () => ({
    nowUnixMs: 100_000,
    roleOf: (instance) => (instance === 'p0' ? 'prefill' : 'decode'),
    confidenceOf: () => CONFIDENCE,
    confidenceIn: () => CONFIDENCE,
    gpuBlocksOf: () => capacity,
    kvBytesOf: (instance) => (instance === sized || sized === 'all' ? { bytesPerToken: 1000, from: 'setting', detail: 'given' } : undefined),
  }));
});

const at = (atUnixMs: number): { readonly atUnixMs: number } => ({ atUnixMs });
const shape = ({ runBlocks, blocksBelow, children, tokens: shown, holders }: TreeNode): unknown => ({ runBlocks, blocksBelow, children, tokens: shown, on: holders.map(({ instanceName }) => instanceName) });

/**
 *   100..103 (P0, D0) -+- 1 1 2 2 3 3 (P0)
 *                      +- 7 7         (D0)
 *   50 51             (P0, twice)
 */
function fill(): void {
  prefill.apply(stored([1, 2]), at(1000));
  prefill.apply(stored([3, 4, 5], { parent: 2, tokens: [1, 1, 2, 2, 3, 3] }), at(2000));
  decode.apply(stored([11, 12]), at(3000));
  decode.apply(stored([13], { parent: 12, tokens: [7, 7] }), at(4000));
  prefill.apply(stored([9], { tokens: [50, 51] }), at(500));
  prefill.apply(stored([9], { tokens: [50, 51] }), at(600));
}

describe('tree', () => {
  it('shows runs of blocks that the same streams hold, with what lies below', async () => {
    fill();
    const page = await views.tree({ orderBy: 'blocks', limit: 10 });
    expect(page.children.map(shape)).toEqual([
      { runBlocks: 2, blocksBelow: 4, children: 2, tokens: [100, 101, 102, 103], on: ['D0', 'P0'] },
      { runBlocks: 1, blocksBelow: 0, children: 0, tokens: [50, 51], on: ['P0'] },
    ]);
    expect(page).toMatchObject({ path: [], omitted: 0, totalNodes: 7, capacity: 1000, evicted: 0, confidence: CONFIDENCE });
    const below = await views.tree({ node: page.children[0]?.node, orderBy: 'blocks', limit: 10 });
    expect(below.path.map(shape)).toEqual(page.children.slice(0, 1).map(shape));
    expect(below.children.map(shape)).toEqual([
      { runBlocks: 3, blocksBelow: 0, children: 0, tokens: [1, 1, 2, 2, 3, 3], on: ['P0'] },
      { runBlocks: 1, blocksBelow: 0, children: 0, tokens: [7, 7], on: ['D0'] },
    ]);
  });

  it('orders by blocks, stores or time, and says how many it left out', async () => {
    fill();
    const first = async (orderBy: 'blocks' | 'reuse' | 'recent'): Promise<unknown> => {
      const page = await views.tree({ orderBy, limit: 1 });
      return [page.children[0]?.tokens.slice(0, 1), page.omitted];
    };
    expect(await first('blocks')).toEqual([[100], 1]);
    expect(await first('recent')).toEqual([[100], 1]);
    prefill.apply(stored([9], { tokens: [50, 51] }), at(700));
    expect(await first('reuse')).toEqual([[50], 1]);
  });

  it('shows one instance\'s blocks only, and none that are gone', async () => {
    fill();
    decode.apply(removed([13]), at(5000));
    const page = await views.tree({ instance: d0.instance, orderBy: 'blocks', limit: 10 });
    expect(page.children.map(shape)).toEqual([{ runBlocks: 2, blocksBelow: 0, children: 0, tokens: [100, 101, 102, 103], on: ['D0', 'P0'] }]);
  });

  it('names the key of a branch, and refuses a block that is forgotten', async () => {
    prefill.apply(stored([1], { loraName: 'chat', extraKeys: [['chat', 'tenant']] }), at(1000));
    const page = await views.tree({ orderBy: 'blocks', limit: 10 });
    expect(page.children[0]?.extraKeys).toBe('lora chat, salt tenant');
    await expect(views.tree({ node: 999, orderBy: 'blocks', limit: 10 })).rejects.toMatchObject({ code: 'kv_block_unknown' });
  });
});

describe('search', () => {
  it('finds the longest known beginning, to the token', async () => {
    fill();
    expect(await views.search([tokens(100, 101, 102, 103, 1, 1, 2, 9)], 10)).toMatchObject({ matchedTokens: 7, askedTokens: 8, matches: [{ tokens: [2, 2, 3, 3] }] });
    expect(await views.search([tokens(100, 101)], 10)).toMatchObject({ matchedTokens: 2, matches: [{ tokens: [100, 101, 102, 103] }] });
    expect(await views.search([tokens(50)], 10)).toMatchObject({ matchedTokens: 1, matches: [{ tokens: [50, 51] }] });
    expect(await views.search([tokens(9, 9)], 10)).toMatchObject({ matchedTokens: 0, askedTokens: 2, matches: [] });
  });

  it('finds it under every key', async () => {
    prefill.apply(stored([1], { extraKeys: [['a']] }), at(1000));
    prefill.apply(stored([2], { extraKeys: [['b']] }), at(1000));
    const { matches } = await views.search([tokens(100, 101)], 10);
    expect(new Set(matches.map(({ extraKeys }) => extraKeys))).toEqual(new Set(['salt a', 'salt b']));
  });
});

describe('difference', () => {
  it('counts what each side holds alone and what both do, with the largest parts', async () => {
    fill();
    const { onlyLeft, onlyRight, both, confidence, leftBytes, rightBytes } = await views.difference({ left: [p0.instance], right: [d0.instance] });
    // Block 9 is on P0 twice: five copies of four blocks.
    expect([onlyLeft, onlyRight, both].map(({ blocks, tokens: count, copies, bytes, copyBytes }) => ({ blocks, count, copies, bytes, copyBytes }))).toEqual([
      { blocks: 4, count: 8, copies: 5, bytes: 8000, copyBytes: 10_000 },
      { blocks: 1, count: 2, copies: 1, bytes: undefined, copyBytes: undefined },
      { blocks: 2, count: 4, copies: 4, bytes: undefined, copyBytes: undefined },
    ]);
    expect([leftBytes, rightBytes]).toEqual([{ bytesPerToken: 1000, from: 'setting', detail: 'given' }, undefined]);
    expect(onlyLeft.samples.map(shape)).toEqual([
      { runBlocks: 3, blocksBelow: 0, children: 0, tokens: [1, 1, 2, 2, 3, 3], on: ['P0'] },
      { runBlocks: 1, blocksBelow: 0, children: 0, tokens: [50, 51], on: ['P0'] },
    ]);
    expect(both.samples.map(shape)).toMatchObject([{ runBlocks: 2, tokens: [100, 101, 102, 103] }]);
    expect(confidence).toEqual(CONFIDENCE);
  });

  it('sizes what is held twice when both sides are sized; groups of one medium are one copy, media are several', async () => {
    sized = 'all';
    prefill.apply(stored([1, 2]), at(1000));
    decode.apply(stored([11, 12]), at(1000));
    decode.apply(stored([11], { groupIdx: 1 }), at(1000));
    decode.apply(stored([11], { medium: 'CPU' }), at(1000));
    const { both } = await views.difference({ left: [p0.instance], right: [d0.instance] });
    expect(both).toMatchObject({ blocks: 2, tokens: 4, copies: 5, bytes: 4000, copyBytes: 10_000 });
  });
});

describe('storms', () => {
  const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];

  it('finds blocks that were stored again soon after their eviction, in bursts', async () => {
    prefill.apply(stored(EIGHT), at(1000));
    for (const time of [50_000, 52_000, 90_000]) {
      for (const hash of EIGHT) prefill.apply(removed([hash]), at(time));
      prefill.apply(stored(EIGHT), at(time + 500));
    }
    for (const hash of EIGHT) prefill.apply(removed([hash]), at(91_000));
    prefill.apply(stored(EIGHT), at(92_000));
    // Slowly: no storm.
    prefill.apply(removed([1]), at(93_000));
    prefill.apply(stored([1]), at(99_000));
    const { storms: found, fewBlocks } = await views.storms({ windowMs: 60_000, withinMs: 5000 });
    expect(found.map(({ stream, fromUnixMs, toUnixMs, blocks, shortestMs, medianMs, samples }) => ({ stream, fromUnixMs, toUnixMs, blocks, shortestMs, medianMs, samples: samples.length }))).toEqual([
      { stream: 'p0/0', fromUnixMs: 90_500, toUnixMs: 92_000, blocks: 16, shortestMs: 500, medianMs: 500, samples: 8 },
      { stream: 'p0/0', fromUnixMs: 50_500, toUnixMs: 52_500, blocks: 16, shortestMs: 500, medianMs: 500, samples: 8 },
    ]);
    expect(fewBlocks).toBe(0);
    expect(await views.storms({ windowMs: 5000, withinMs: 5000 })).toEqual({ storms: [], fewBlocks: 0, least: { blocks: 16, share: 0.01 } });
  });

  it('takes a block that came back alone for none, and shows it in its history', async () => {
    prefill.apply(stored(EIGHT), at(1000));
    prefill.apply(removed([8]), at(90_000));
    prefill.apply(stored([8], { parent: 7, tokens: [114, 115] }), at(90_500));
    expect(await views.storms({ windowMs: 60_000, withinMs: 5000 })).toMatchObject({ storms: [], fewBlocks: 1 });
    const { history } = await views.block({ stream: p0.id, hash: '0000000000000008' });
    expect(history.map(({ storedAtUnixMs, removedAtUnixMs }) => [storedAtUnixMs, removedAtUnixMs])).toEqual([[90_500, undefined], [1000, 90_000]]);
  });

  it('takes a burst for one from a hundredth of what the stream holds', async () => {
    const many = Array.from({ length: 3000 }, (_, block) => block + 1);
    const large = new KvIndex({ capacity: 4000, historyCapacity: 4000 });
    const stream = large.open(p0);
    const found = new CacheViews(large, () => ({ nowUnixMs: 100_000, roleOf: () => 'prefill', confidenceOf: () => CONFIDENCE, confidenceIn: () => CONFIDENCE }));
    stream.apply(stored(many), at(1000));
    const comesBack = async (time: number, blocks: number): Promise<unknown> => {
      const end = many.slice(-blocks);
      for (const hash of end.toReversed()) stream.apply(removed([hash]), at(time));
      stream.apply(stored(end, { parent: 3000 - blocks, tokens: end.flatMap((hash) => [98 + 2 * hash, 99 + 2 * hash]) }), at(time + 100));
      const { storms, fewBlocks } = await found.storms({ windowMs: 60_000, withinMs: 1000 });
      return [storms.map((storm) => storm.blocks), fewBlocks];
    };
    expect(await comesBack(50_000, 29)).toEqual([[], 29]);
    expect(await comesBack(60_000, 30)).toEqual([[30], 29]);
  });
});

describe('block', () => {
  it('shows hashes, neighbours, holders and history, by number or by hash', async () => {
    fill();
    prefill.apply(removed([2]), at(6000));
    prefill.apply(stored([20], { parent: 1, tokens: [8, 8] }), at(6500));
    const byHash = await views.block({ stream: p0.id, hash: '0000000000000002' });
    expect(await views.block({ node: byHash.node })).toEqual(byHash);
    const displacer = await views.block({ stream: p0.id, hash: '0000000000000014' });
    expect(byHash).toMatchObject({ tokens: [102, 103], blockSize: 2, index: 1, historyOmitted: 0 });
    expect(byHash.hashes).toEqual([{ stream: 'd0/0', instanceName: 'D0', hash: '000000000000000c' }, { stream: 'p0/0', instanceName: 'P0', hash: '0000000000000002' }]);
    expect(byHash.parents.map(({ tokens: shown }) => shown)).toEqual([[100, 101]]);
    expect(byHash.children.map(({ tokens: shown }) => shown)).toEqual([[7, 7], [1, 1, 2, 2, 3, 3]]);
    expect(byHash.holders).toEqual([{ stream: 'd0/0', instance: 'd0', instanceName: 'D0', role: 'decode', medium: 'GPU' }]);
    expect(byHash.history).toEqual([
      { stream: 'd0/0', instanceName: 'D0', medium: 'GPU', epoch: 1, storedAtUnixMs: 3000, stores: 1 },
      { stream: 'p0/0', instanceName: 'P0', medium: 'GPU', epoch: 1, storedAtUnixMs: 1000, removedAtUnixMs: 6000, how: 'removed', stores: 1, displacedBy: displacer.node },
    ]);
  });

  it('refuses half a hash, and one that nobody has', async () => {
    await expect(views.block({ hash: 'ab' })).rejects.toMatchObject({ code: 'kv_block_query' });
    await expect(views.block({ hash: 'abababababababab' })).rejects.toMatchObject({ code: 'kv_block_unknown' });
  });
});

describe('residency', () => {
  it('shows placed blocks in the order of storing, binned, and counts the others', async () => {
    fill();
    decode.apply(stored([40], { parent: 39, tokens: [4, 4] }), at(7000));
    const { rows } = await views.residency(16);
    expect(rows.map(({ stream, role, blocks, blocksPerCell, unplaced }) => ({ stream, role, blocks, blocksPerCell, unplaced }))).toEqual([
      { stream: 'p0/0', role: 'prefill', blocks: 6, blocksPerCell: 1, unplaced: 0 },
      { stream: 'd0/0', role: 'decode', blocks: 4, blocksPerCell: 1, unplaced: 1 },
    ]);
    expect(rows[0]).toMatchObject({ ageS: [99, 99, 98, 98, 98, 99.5], reuse: [0, 0, 0, 0, 0, 1], holders: [2, 2, 1, 1, 1, 1] });
    expect(rows[1]?.node.slice(0, 2)).toEqual(rows[0]?.node.slice(0, 2));
    const binned = await views.residency(2);
    expect(binned.rows[0]).toMatchObject({ blocksPerCell: 3, ageS: [98.67, 98.5], reuse: [0, 0.33], holders: [2, 1] });
  });

  it('has a row for each medium, and compares the GPU alone with the room on it', async () => {
    capacity = 10;
    fill();
    const onCpu = Array.from({ length: 12 }, (_, block) => 20 + block);
    prefill.apply(stored(onCpu, { medium: 'cpu' }), at(7000));
    prefill.apply(stored([40], { medium: 'CPU', parent: 39, tokens: [4, 4] }), at(8000));
    prefill.apply(stored([50], { medium: 'STORAGE', tokens: [6, 6] }), at(8000));
    prefill.apply(removed([50], { medium: 'STORAGE' }), at(8500));
    const { rows } = await views.residency(16);
    expect(rows.map(({ stream, medium, blocks, capacityBlocks, unplaced, node, ageS }) => ({ stream, medium, blocks, capacityBlocks, unplaced, cells: node.length, newestS: Math.min(...ageS) }))).toEqual([
      { stream: 'p0/0', medium: 'GPU', blocks: 6, capacityBlocks: 10, unplaced: 0, cells: 6, newestS: 98 },
      { stream: 'p0/0', medium: 'CPU', blocks: 13, capacityBlocks: undefined, unplaced: 1, cells: 12, newestS: 93 },
      { stream: 'd0/0', medium: 'GPU', blocks: 3, capacityBlocks: 10, unplaced: 0, cells: 3, newestS: 96 },
    ]);
    prefill.apply({ kind: 'cleared' }, at(9000));
    expect((await views.residency(16)).rows.map(({ stream, medium, blocks }) => [stream, medium, blocks])).toEqual([['p0/0', 'GPU', 0], ['p0/0', 'CPU', 13], ['d0/0', 'GPU', 3]]);
  });

  it.each([
    ['all to one scale with the free room', 100, 7],
    ['the blocks alone where nearly all is free', 1000, 1],
    ['the blocks alone where the engine named no capacity', undefined, 1],
  ])('scales cells to %s', async (_, blocks, blocksPerCell) => {
    capacity = blocks;
    fill();
    const { rows } = await views.residency(16);
    expect(rows[0]).toMatchObject({ blocks: 6, blocksPerCell });
    expect(rows[0]?.node).toHaveLength(Math.ceil(6 / blocksPerCell));
    expect(rows[0]?.capacityBlocks).toBe(blocks);
  });
});

import { describe, expect, it } from 'vitest';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { cleared, gap, identity, removed, stored, tokens } from './events.ts';

const PROMPT = tokens(100, 101, 102, 103, 104, 105, 9);
const at = (atUnixMs: number): { readonly atUnixMs: number } => ({ atUnixMs });
const newIndex = (): KvIndex => new KvIndex({ capacity: 1000, historyCapacity: 1000 });

describe('prefix', () => {
  it('tells who holds how much, best first, whatever each engine calls the blocks', () => {
    const index = newIndex();
    const [p0, p1, p2] = [index.open(identity('p0')), index.open(identity('p1')), index.open(identity('p2'))];
    p0.apply(stored([1, 2]), at(10));
    p1.apply(stored([-5, Buffer.alloc(32, 7), 77]), at(10));
    p2.apply(stored([1], { tokens: [5, 5] }), at(10));
    const { paths, tokens: count } = index.prefix(PROMPT);
    expect([count, paths.length]).toEqual([7, 1]);
    expect(paths[0]).toMatchObject({ blockSize: 2, blocks: 3, known: 3 });
    expect(paths[0]?.matches).toEqual([
      { stream: 'p1/0', blocks: 3, gpuBlocks: 3, tokens: 6 }, { stream: 'p0/0', blocks: 2, gpuBlocks: 2, tokens: 4 }, { stream: 'p2/0', blocks: 0, gpuBlocks: 0, tokens: 0 },
    ]);
  });

  it('ends at the first block missing, and tells blocks on the GPU from those in slower media', () => {
    const index = newIndex();
    const p0 = index.open(identity('p0'));
    p0.apply(stored([1, 2, 3]), at(10));
    p0.apply(stored([2, 3], { medium: 'CPU', tokens: [], blockSize: 0 }), at(11));
    p0.apply(removed([2]), at(20));
    expect(index.prefix(PROMPT).paths[0]?.matches).toMatchObject([{ blocks: 3, gpuBlocks: 1 }]);
    p0.apply(removed([2], { medium: 'CPU' }), at(30));
    expect(index.prefix(PROMPT).paths[0]?.matches).toMatchObject([{ blocks: 1, gpuBlocks: 1 }]);
    expect(index.prefix(PROMPT, at(15)).paths[0]?.matches).toMatchObject([{ blocks: 3, gpuBlocks: 3 }]);
  });

  it('walks once for each block size in use, or for the one asked for', () => {
    const index = newIndex();
    index.open(identity('p0')).apply(stored([1, 2]), at(10));
    index.open(identity('d0')).apply(stored([1], { blockSize: 3, tokens: [100, 101, 102] }), at(10));
    expect(index.prefix(PROMPT).paths.map(({ blockSize, blocks, matches }) => [blockSize, blocks, matches.map(({ stream, tokens: held }) => [stream, held])])).toEqual([
      [2, 3, [['p0/0', 4]]], [3, 2, [['d0/0', 3]]],
    ]);
    expect(index.prefix(PROMPT, { blockSize: 3 }).paths.map(({ blockSize }) => blockSize)).toEqual([3]);
    expect(index.prefix(PROMPT, { streams: new Set([identity('d0').id]) }).paths.map(({ blockSize }) => blockSize)).toEqual([3]);
  });

  it('shows where the prompt leaves what is known, unless it is not asked to', () => {
    const index = newIndex();
    index.open(identity('p0')).apply(stored([1, 2], { tokens: [100, 101, 102, 999] }), at(10));
    expect(index.prefix(PROMPT).paths[0]).toMatchObject({ known: 1, divergence: { block: 1, token: 1, position: 3, found: [102, 999] } });
    expect(index.prefix(PROMPT, { withDivergence: false }).paths[0]).not.toHaveProperty('divergence');
    expect(index.prefix(tokens(1, 2)).paths[0]).not.toHaveProperty('divergence');
  });

  it('does not match under another salt or adapter', () => {
    const index = newIndex();
    index.open(identity('p0')).apply(stored([1, 2], { loraName: 'x', cacheSalt: 's' }), at(10));
    const blocks = (keys: object): number | undefined => index.prefix(PROMPT, keys).paths[0]?.matches[0]?.blocks;
    expect([blocks({ lora: 'x', salt: 's' }), blocks({ lora: 'x' }), blocks({ salt: 's' }), blocks({})]).toEqual([2, 0, 0, 0]);
  });

  it('keeps LoRA ids without a name to their own instance', () => {
    const index = newIndex();
    const [p0, p1] = [index.open(identity('p0')), index.open(identity('p1'))];
    p0.apply(stored([1], { loraId: 1 }), at(10));
    p1.apply(stored([1], { loraId: 1 }), at(10));
    expect(index.totals().nodes).toBe(2);
  });

  it('carries a gap since the cache was last known to be empty', () => {
    const index = newIndex();
    const p0 = index.open(identity('p0'));
    p0.apply(stored([1]), at(10));
    p0.lost(gap(4, 6, 20));
    expect(index.prefix(PROMPT).paths[0]?.matches).toMatchObject([{ blocks: 1, lost: { from: 4, to: 6 } }]);
    p0.apply(cleared, at(30));
    expect(index.prefix(PROMPT).paths[0]?.matches).toEqual([{ stream: 'p0/0', blocks: 0, gpuBlocks: 0, tokens: 0 }]);
  });

  it('keeps at most 64 gaps: beyond it the oldest become one', () => {
    const index = newIndex();
    const p0 = index.open(identity('p0'));
    for (let n = 0; n < 100; n += 1) p0.lost(gap(10 * n, 10 * n + 5, 100 + n));
    expect(p0.coverage.ranges).toHaveLength(64);
    expect(p0.coverage.ranges[0]).toEqual({ cause: 'gap', epoch: 1, from: 0, to: 365, sinceUnixMs: 99, untilUnixMs: 136 });
  });

  it('has no answer for no streams, and an empty one for no tokens', () => {
    expect(newIndex().prefix(PROMPT)).toEqual({ tokens: 7, paths: [] });
    const index = newIndex();
    index.open(identity('p0')).apply(stored([1]), at(10));
    expect(index.prefix(tokens()).paths).toEqual([{ blockSize: 2, blocks: 0, known: 0, matches: [{ stream: 'p0/0', blocks: 0, gpuBlocks: 0, tokens: 0 }] }]);
  });
});

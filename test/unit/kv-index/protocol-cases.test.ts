/** What vLLM and its like put on the wire that a plain reading gets wrong: block sizes, keys, groups and parents. */
import { describe, expect, it } from 'vitest';
import type { BlockVerdict } from '#engine/kv-index/answers.ts';
import type { ExplainOptions } from '#engine/kv-index/explain.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import type { StreamBlocks } from '#engine/kv-index/stream-blocks.ts';
import { cleared, identity, removed, stored, tokens } from './events.ts';
import { checkBooks } from './invariants.ts';

/** Four blocks of two tokens, and one token more. */
const PROMPT = tokens(100, 101, 102, 103, 104, 105, 106, 107, 1);
const at = (atUnixMs: number): { readonly atUnixMs: number } => ({ atUnixMs });

interface Rig {
  readonly index: KvIndex;
  readonly p0: StreamBlocks;
  /** First block, behind the last, and verdict of each range. */
  readonly ask: (options?: ExplainOptions) => (readonly [number, number, BlockVerdict])[];
  /** Blocks that routing counts, in any medium and on the GPU. */
  readonly matched: () => readonly (number | undefined)[];
}

function setUp(): Rig {
  const index = new KvIndex({ capacity: 1000, historyCapacity: 1000 });
  const p0 = index.open(identity('p0'));
  return {
    index, p0,
    ask: (options = {}) => {
      checkBooks(index);
      return index.explain(PROMPT, p0.identity.id, options).ranges.map(({ fromBlock, toBlock, verdict }) => [fromBlock, toBlock, verdict]);
    },
    matched: () => {
      const match = index.prefix(PROMPT).paths[0]?.matches[0];
      return [match?.blocks, match?.gpuBlocks];
    },
  };
}

describe('sizes of blocks', () => {
  it('does not take the size of a partial block for that of the group', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2, 3], { tokens: [100, 101, 102, 103, 104, 105] }), at(10));
    // Half a block that hybrid models store until it is full, then remove for the whole one.
    p0.apply(stored([40], { parent: 3, tokens: [106], blockSize: 1 }), at(11));
    expect(ask()).toMatchObject([[0, 3, { kind: 'hit' }], [3, 4, { kind: 'never_stored' }], [4, 5, { kind: 'partial_block' }]]);
    p0.apply(removed([40]), at(12));
    p0.apply(stored([4], { parent: 3, tokens: [106, 107] }), at(12));
    expect(ask()).toMatchObject([[0, 4, { kind: 'hit' }], [4, 5, { kind: 'partial_block' }]]);
  });

  it('takes a smaller size from an engine that started anew', () => {
    const { index, p0 } = setUp();
    p0.apply(stored([1], { tokens: [100, 101, 102, 103], blockSize: 4 }), at(10));
    p0.restart(20);
    p0.apply(stored([5, 6], { tokens: [100, 101, 102, 103] }), at(30));
    expect(index.explain(PROMPT, p0.identity.id)).toMatchObject({ blockSize: 2, hitTokens: 4 });
  });

  it('follows groups of two sizes, whose larger blocks end with the hash of the smaller block they end with', () => {
    const { index, p0, ask } = setUp();
    const full = { groupIdx: 0, specKind: 'full_attention' } as const;
    const larger = { groupIdx: 1, specKind: 'mla_attention', blockSize: 4 } as const;
    p0.apply(stored([1, 2], { ...full, tokens: [100, 101, 102, 103] }), at(10));
    p0.apply(stored([2], { ...larger, tokens: [100, 101, 102, 103] }), at(10));
    p0.apply(stored([3, 4], { ...full, parent: 2, tokens: [104, 105, 106, 107] }), at(11));
    p0.apply(stored([4], { ...larger, parent: 2, tokens: [104, 105, 106, 107] }), at(11));
    expect(ask({ blockSize: 2 })).toMatchObject([[0, 4, { kind: 'hit' }], [4, 5, { kind: 'partial_block' }]]);
    expect(ask({ blockSize: 4 })).toMatchObject([[0, 2, { kind: 'hit' }], [2, 3, { kind: 'partial_block' }]]);
    expect(index.totals()).toMatchObject({ conflicts: 0, unplacedNodes: 0 });
  });
});

describe('keys of blocks', () => {
  const salted = [['s'], null];

  it('moves blocks that an offload event told without their keys to where the GPU says they belong', () => {
    const { index, p0, ask } = setUp();
    // Offload events carry no extra keys; the store on the GPU was before pdscope came.
    p0.apply(stored([1, 2], { medium: 'CPU' }), at(10));
    p0.apply(stored([1, 2, 3], { extraKeys: [['s'], null, null] }), at(20));
    expect(ask({ salt: 's' })).toMatchObject([[0, 2, { kind: 'hit', media: ['GPU', 'CPU'] }], [2, 3, { kind: 'hit', media: ['GPU'] }], [3, 4, {}], [4, 5, {}]]);
    expect(ask()[0]).toMatchObject([0, 4, { kind: 'other_key', parts: ['salt'] }]);
    expect(index.totals().nodes).toBe(3);
  });

  it('keeps the keys of blocks that an offload event tells without them', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2], { extraKeys: salted }), at(10));
    p0.apply(stored([1, 2], { medium: 'CPU' }), at(20));
    expect(ask({ salt: 's' })[0]).toMatchObject([0, 2, { kind: 'hit', media: ['CPU', 'GPU'] }]);
    expect(ask()[0]).toMatchObject([0, 4, { kind: 'other_key' }]);
  });

  it('puts what follows on a moved block behind it, too', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([1, 2], { medium: 'CPU' }), at(10));
    p0.apply(stored([3], { medium: 'CPU', parent: 2, tokens: [104, 105] }), at(11));
    for (const [hash, parent] of [[1, undefined], [2, 1], [3, 2]] as const) {
      const from = 98 + 2 * hash;
      p0.apply(stored([hash], { parent, tokens: [from, from + 1], extraKeys: [hash === 1 ? ['s'] : null] }), at(20 + hash));
    }
    expect(ask({ salt: 's' })[0]).toMatchObject([0, 3, { kind: 'hit', media: ['GPU', 'CPU'] }]);
    p0.apply(removed([1, 2, 3]), at(30));
    expect(ask({ salt: 's' })[0]).toMatchObject([0, 3, { kind: 'hit', media: ['CPU'] }]);
  });
});

describe('groups', () => {
  const kind = { specKind: 'full_attention' } as const;

  it('finds a block in the cache only where every group that serves prefixes has it', () => {
    const { p0, ask, matched } = setUp();
    for (const groupIdx of [0, 1]) p0.apply(stored([1, 2, 3, 4], { ...kind, groupIdx }), at(10));
    expect(ask()[0]).toMatchObject([0, 4, { kind: 'hit' }]);
    expect(matched()).toEqual([4, 4]);
    // vLLM evicts the blocks of its groups one by one.
    p0.apply(removed([2], { groupIdx: 1 }), at(20));
    expect(ask()).toMatchObject([[0, 1, { kind: 'hit' }], [1, 2, { kind: 'evicted', fromUnixMs: 20 }], [2, 4, { kind: 'unreachable' }], [4, 5, {}]]);
    expect(matched()).toEqual([1, 1]);
    expect(ask(at(15))[0]).toMatchObject([0, 4, { kind: 'hit' }]);
    p0.apply(stored([2], { ...kind, groupIdx: 1, parent: 1, tokens: [102, 103] }), at(30));
    expect(matched()).toEqual([4, 4]);
  });

  it('counts a group once, whatever hashes it has for the same content', () => {
    const { p0, ask, matched } = setUp();
    for (const groupIdx of [0, 1]) p0.apply(stored([1, 2], { ...kind, groupIdx }), at(10));
    // Two pictures, of which events without keys tell the same placeholder tokens.
    p0.apply(stored([11, 12], { ...kind, groupIdx: 0 }), at(11));
    p0.apply(removed([2], { groupIdx: 1 }), at(20));
    expect(matched()).toEqual([1, 1]);
    expect(ask()).toMatchObject([[0, 1, { kind: 'hit' }], [1, 2, { kind: 'evicted', fromUnixMs: 20 }], [2, 4, {}], [4, 5, {}]]);
    expect(ask(at(15))[0]).toMatchObject([0, 2, { kind: 'hit' }]);
  });

  it('finds it in a slower tier all the same, whatever a group of the GPU lacks', () => {
    const { p0, ask, matched } = setUp();
    for (const groupIdx of [0, 1]) p0.apply(stored([1, 2], { ...kind, groupIdx }), at(10));
    p0.apply(stored([1, 2], { medium: 'CPU', groupIdx: undefined }), at(11));
    p0.apply(removed([1], { groupIdx: 0 }), at(20));
    expect(ask().slice(0, 2)).toMatchObject([[0, 1, { kind: 'hit', media: ['CPU'] }], [1, 2, { kind: 'hit' }]]);
    expect(matched()).toEqual([2, 0]);
  });

  it('does not count groups that skip blocks, told by their kind or by fewer hashes than tokens', () => {
    const { p0, ask, matched } = setUp();
    p0.apply(stored([1, 2, 3, 4], { ...kind, groupIdx: 0 }), at(10));
    p0.apply(stored([3, 4], { specKind: 'sliding_window', groupIdx: 1, tokens: [100, 101, 102, 103, 104, 105, 106, 107] }), at(10));
    // Of before kinds were told (2026-04 to 2026-05).
    p0.apply(stored([4], { groupIdx: 2, tokens: [100, 101, 102, 103, 104, 105, 106, 107] }), at(10));
    expect(matched()).toEqual([4, 4]);
    p0.apply(removed([4], { groupIdx: 0 }), at(20));
    expect(ask()).toMatchObject([[0, 3, { kind: 'hit' }], [3, 4, { kind: 'evicted' }], [4, 5, {}]]);
    expect(matched()).toEqual([3, 3]);
  });

  it('answers from a group that tells content, though one of placeholders came first', () => {
    const { p0, ask } = setUp();
    p0.apply(stored([7], { groupIdx: 0, tokens: [], blockSize: 0 }), at(10));
    p0.apply(stored([1, 2], { ...kind, groupIdx: 1 }), at(11));
    expect(ask()).toMatchObject([[0, 2, { kind: 'hit' }], [2, 4, { kind: 'never_stored' }], [4, 5, {}]]);
  });

  it('expects of an engine that started anew only the groups that it has now', () => {
    const { p0, matched } = setUp();
    for (const groupIdx of [0, 1]) p0.apply(stored([1, 2], { ...kind, groupIdx }), at(10));
    p0.restart(20);
    p0.apply(stored([1, 2], { ...kind, groupIdx: 0 }), at(30));
    expect(matched()).toEqual([2, 2]);
    p0.apply(cleared, at(40));
    p0.apply(stored([1], { ...kind, groupIdx: 0 }), at(50));
    expect(matched()).toEqual([1, 1]);
  });
});

describe('copies', () => {
  it('believes counts of copies that the engine tells over its own', () => {
    const { p0 } = setUp();
    for (let copy = 0; copy < 3; copy += 1) p0.apply(stored([1, 2]), at(10));
    p0.apply(removed([1, 2], { remainingCopies: [0, 2] }), at(20));
    expect(p0.counts()).toEqual([{ medium: 'GPU', blocks: 1 }]);
    p0.apply(removed([2]), at(30));
    p0.apply(removed([2]), at(31));
    expect([p0.counts(), p0.unknownRemovals]).toEqual([[{ medium: 'GPU', blocks: 0 }], 0]);
  });

  it('removes part of what one event stored, whatever form its hashes have', () => {
    const { p0, ask } = setUp();
    const digest = (low: bigint): Uint8Array => {
      const bytes = new Uint8Array(32).fill(9);
      new DataView(bytes.buffer).setBigInt64(24, low);
      return bytes;
    };
    p0.apply(stored([-2n, 2, digest(3n), 0xffff_ffff_ffff_fff0n], { medium: undefined }), at(10));
    p0.apply(removed([-16n, digest(-2n)], { medium: 'gpu' }), at(20));
    expect(ask()).toMatchObject([[0, 1, { kind: 'evicted' }], [1, 3, { kind: 'unreachable' }], [3, 4, { kind: 'evicted' }], [4, 5, {}]]);
    expect(p0.unknownRemovals).toBe(0);
  });
});

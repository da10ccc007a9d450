/**
 * Answers of the block index about prefixes and misses. A block is known by its tokens, its extra key and its parent
 * chain, since hashes differ between engines; a hash names a block within one stream only. What pages get is put
 * together from these (shared/cache.ts).
 */
import type { BlockHashHex } from '#shared/kv.ts';
import type { StreamId } from '#shared/ids.ts';

/** A block in the index: a number that means nothing after the block is forgotten, and is never given to another. */
export type NodeId = number;

/** What besides tokens tells blocks apart (vLLM's extra keys). All absent: nothing. */
export interface BlockKey {
  /** Adapter name; `id 3 of p0` where an old engine told a process-local number only. */
  readonly lora?: string;
  /** On the block at token 0 only; its descendants inherit it. */
  readonly salt?: string;
  /** Identifier of a media item, and its offset relative to the block's first token where the engine tells. */
  readonly media?: readonly (readonly [string, number?])[];
  /** Digest of prompt embeddings, hex. */
  readonly embeds?: string;
  /** Parts of no known meaning. */
  readonly other?: readonly string[];
}

/** Batches of a stream that pdscope never got: what they stored and removed is not known. */
export interface LostRange {
  readonly cause: 'gap' | 'late_attach';
  readonly epoch: number;
  /** First and last sequence number. */
  readonly from: number;
  readonly to: number;
  /** Time of the last batch before; absent when there was none. */
  readonly sinceUnixMs?: number;
  /** Time of the first batch after; absent until there is one. */
  readonly untilUnixMs?: number;
}

export interface PrefixMatch {
  readonly stream: StreamId;
  /** Blocks from the first on that the stream holds, in whatever medium. */
  readonly blocks: number;
  /** Those of them that are on its GPU, from the first on. */
  readonly gpuBlocks: number;
  readonly tokens: number;
  /** Why this may be less than the truth, or more. */
  readonly lost?: LostRange;
}

/** Where a prompt leaves what is known, beside what is known there. */
export interface Divergence {
  /** Block of the prompt, from 0. */
  readonly block: number;
  /** Token inside the block that differs first, from 0. */
  readonly token: number;
  /** Position of that token in the prompt. */
  readonly position: number;
  /** Tokens of the prompt from the block's first on, at most 64. */
  readonly expected: readonly number[];
  /** Tokens of the nearest known block at that place, and of what follows it, at most 64. */
  readonly found: readonly number[];
  readonly node: NodeId;
  /** Blocks after this one that would have matched, had this one. */
  readonly sameAfter: number;
  /** False when there were too many known blocks at that place to look at all. */
  readonly isNearest: boolean;
}

/** A prompt against the blocks of one size. */
export interface PrefixPath {
  readonly blockSize: number;
  /** Whole blocks of the prompt. */
  readonly blocks: number;
  /** Blocks from the first on that are in the index, held by anybody or remembered. */
  readonly known: number;
  /** The last of them. */
  readonly node?: NodeId;
  /** Streams of this block size, best first. */
  readonly matches: readonly PrefixMatch[];
  readonly divergence?: Divergence;
}

export interface PrefixAnswer {
  readonly tokens: number;
  readonly paths: readonly PrefixPath[];
}

/** What was stored first in the same medium after a block went: vLLM evicts to make room for it. */
export interface Displacer {
  readonly hash: BlockHashHex;
  /** Absent when the index has forgotten it. */
  readonly node?: NodeId;
}

export type KeyPart = 'lora' | 'salt' | 'media' | 'embeds' | 'other';

export type BlockVerdict =
  /** Resident, and all blocks before it too. `lost`: its removal may have been missed. */
  | { readonly kind: 'hit'; readonly media: readonly string[]; readonly lost?: LostRange }
  /** Resident, but of no use: a block before it was missing. */
  | { readonly kind: 'unreachable'; readonly media: readonly string[] }
  /** No store of it was seen; what was before `sinceUnixMs` may have been forgotten. */
  | { readonly kind: 'never_stored'; readonly sinceUnixMs?: number; readonly nearest?: Divergence }
  /** Evicted between the two times. `alsoOn`: streams that held it at that time. */
  | {
    readonly kind: 'evicted'; readonly fromUnixMs: number; readonly toUnixMs: number; readonly displacedBy?: Displacer;
    /** The one evicted first. */
    readonly node: NodeId;
    readonly alsoOn: readonly StreamId[]; readonly lost?: LostRange;
  }
  | { readonly kind: 'elsewhere'; readonly streams: readonly StreamId[]; readonly node: NodeId }
  /** The stream had another block at that place. */
  | { readonly kind: 'diverges'; readonly divergence: Divergence }
  /** The same tokens are known there under another key; `blocks` of them in a row. */
  | { readonly kind: 'other_key'; readonly parts: readonly KeyPart[]; readonly expected: BlockKey; readonly found: BlockKey; readonly node: NodeId; readonly blocks: number }
  /** Never a hit: an incomplete block, or the last one of a prompt that ends with it (vLLM computes at least one token). */
  | { readonly kind: 'partial_block' }
  /** Was resident until the whole cache went. */
  | { readonly kind: 'reset'; readonly atUnixMs: number; readonly reason: 'restart' | 'cleared' | 'detached'; readonly alsoOn: readonly StreamId[] }
  /**
   * `lost`: batches are missing. `unplaced`: the stream holds blocks of unknown content. `forgotten`: the index had no room.
   * `detached`: the stream is not watched. `no_blocks`: no store with tokens was ever seen. `past`: asked for a time after
   * which blocks went that are forgotten.
   */
  | { readonly kind: 'unknown'; readonly reason: 'lost' | 'unplaced' | 'forgotten' | 'past' | 'detached' | 'no_blocks'; readonly lost?: LostRange; readonly alsoOn: readonly StreamId[]; readonly nearest?: Divergence };

export interface ExplainRange {
  /** Blocks `from` (included) to `to` (excluded). */
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly fromToken: number;
  readonly toToken: number;
  readonly verdict: BlockVerdict;
}

export interface Explanation {
  readonly stream: StreamId;
  /** Absent: now. */
  readonly atUnixMs?: number;
  readonly blockSize: number;
  readonly tokens: number;
  readonly hitTokens: number;
  /** In order, without holes. */
  readonly ranges: readonly ExplainRange[];
  /** Ranges left out at the end for their number. */
  readonly cutRanges: number;
}

export interface IndexTotals {
  /** Blocks held, each residency by itself. */
  readonly held: number;
  /** Distinct contents, history included. */
  readonly nodes: number;
  /** Of them, those whose chain from token 0 on is not known. */
  readonly unplacedNodes: number;
  /** Blocks held, and history, that were given up for lack of room. */
  readonly evicted: number;
  readonly forgotten: number;
  /** Hashes that named other content before. */
  readonly conflicts: number;
  readonly tokenBytes: number;
}

/**
 * Answers of the block index: blocks of all instances by content. A block is known by its tokens, its extra key and its
 * parent chain, since hashes differ between engines; a hash names a block within one stream only.
 */
import type { StreamId } from './ids.ts';
import type { BlockHashHex } from './kv.ts';

/** A block in the index; means nothing after the block is forgotten, and is never given to another. */
export type BlockNodeId = string & { readonly __brand: 'BlockNodeId' };

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
  /** Time of the first batch after. */
  readonly untilUnixMs: number;
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
  readonly node: BlockNodeId;
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
  readonly node?: BlockNodeId;
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
  readonly node?: BlockNodeId;
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
    readonly alsoOn: readonly StreamId[]; readonly lost?: LostRange;
  }
  | { readonly kind: 'elsewhere'; readonly streams: readonly StreamId[] }
  /** The stream had another block at that place. */
  | { readonly kind: 'diverges'; readonly divergence: Divergence }
  /** The same tokens are known there under another key; `blocks` of them in a row. */
  | { readonly kind: 'other_key'; readonly parts: readonly KeyPart[]; readonly expected: BlockKey; readonly found: BlockKey; readonly node: BlockNodeId; readonly blocks: number }
  /** Never a hit: an incomplete block, or the last one of a prompt that ends with it (vLLM computes at least one token). */
  | { readonly kind: 'partial_block' }
  /** Was resident until the whole cache went. */
  | { readonly kind: 'reset'; readonly atUnixMs: number; readonly reason: 'restart' | 'cleared' | 'detached'; readonly alsoOn: readonly StreamId[] }
  | { readonly kind: 'unknown'; readonly reason: 'lost' | 'forgotten' | 'detached' | 'no_blocks'; readonly lost?: LostRange; readonly alsoOn: readonly StreamId[]; readonly nearest?: Divergence };

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

export interface DifferenceSide {
  readonly blocks: number;
  readonly tokens: number;
}

export interface BlockSummary {
  readonly node: BlockNodeId;
  readonly blockSize?: number;
  /** Absent when the content is not known. */
  readonly tokens?: readonly number[];
  readonly key: BlockKey;
  /** The chain from token 0 on is known. */
  readonly isPlaced: boolean;
  readonly children: number;
  /** Streams that hold it now. */
  readonly streams: readonly StreamId[];
  /** Stores by any instance, copies and repetitions included. */
  readonly stores: number;
}

/** Blocks of two sets of streams. Blocks whose place is not known are counted apart: they cannot be compared. */
export interface Difference {
  readonly onlyA: DifferenceSide;
  readonly onlyB: DifferenceSide;
  readonly both: DifferenceSide;
  /** Stores of `both` beyond the first: what is kept more than once. */
  readonly duplicated: DifferenceSide;
  readonly unplacedA: number;
  readonly unplacedB: number;
  /** Block sizes on each side; where they have none in common, nothing can be on both. */
  readonly blockSizesA: readonly number[];
  readonly blockSizesB: readonly number[];
  /** Of the part asked for, in no order that means anything; `nextCursor` where there are more. */
  readonly samples: readonly BlockSummary[];
  readonly nextCursor?: number;
}

export interface StreamStorms {
  readonly stream: StreamId;
  /** Blocks stored again within the window after their eviction. */
  readonly blocks: number;
  readonly tokens: number;
  /** Median time between eviction and store, ms. */
  readonly medianGapMs: number;
  readonly firstUnixMs: number;
  readonly lastUnixMs: number;
  /** The blocks with most of them, at most 10. */
  readonly worst: readonly { readonly node: BlockNodeId; readonly returns: number }[];
}

export interface Storms {
  readonly windowMs: number;
  readonly streams: readonly StreamStorms[];
  /** Returns since start, and how many of them are too old to be looked at. */
  readonly total: number;
  readonly dropped: number;
}

/** A branch of the prefix tree: blocks in a row without a fork count as one. */
export interface TreeBranch {
  /** First block of the run. */
  readonly node: BlockNodeId;
  /** Last block of the run; its children are the next branches. */
  readonly end: BlockNodeId;
  readonly runBlocks: number;
  /** First tokens of the run, at most 64. */
  readonly tokens: readonly number[];
  readonly key: BlockKey;
  readonly branches: number;
  /** Blocks in the index from here on, the run included, and those held now, by any stream; absent until they were counted. */
  readonly subtreeBlocks?: number;
  readonly subtreeHeld?: number;
  readonly stores: number;
  /** Streams that hold the first block now. */
  readonly streams: readonly StreamId[];
}

export type TreeOrder = 'blocks' | 'stores' | 'recent';

export interface TreePage {
  readonly parent?: BlockNodeId;
  /** Depth of the branches' first block, from 0. */
  readonly depth: number;
  readonly branches: readonly TreeBranch[];
  readonly total: number;
  /** False when there were too many children to order all; those looked at are the newest. */
  readonly isOrdered: boolean;
  /** When subtree sizes were counted; absent while they are being counted: ask again. */
  readonly sizesAtUnixMs?: number;
}

export interface TokenSearchHit {
  readonly block: BlockSummary;
  /** Token inside the block where the match begins. */
  readonly token: number;
}

export interface TokenSearchPage {
  readonly hits: readonly TokenSearchHit[];
  /** Where to go on; absent at the end. */
  readonly nextCursor?: number;
  /** Blocks in the index. */
  readonly total: number;
}

export interface BlockInterval {
  readonly fromUnixMs: number;
  /** Absent while resident. */
  readonly toUnixMs?: number;
  readonly endReason?: 'removed' | 'restart' | 'cleared' | 'detached';
}

export interface BlockHolding {
  readonly stream: StreamId;
  readonly instanceName: string;
  readonly hash: BlockHashHex;
  readonly medium: string;
  readonly groupIdx?: number;
  readonly locality?: string;
  readonly ownership?: string;
  /** 0: history. */
  readonly copies: number;
  readonly stores: number;
  /** Times it was stored after having been gone. */
  readonly returns: number;
  /** Announcements of reuse while resident, where the engine sends them. */
  readonly hits: number;
  /** The engine's life in which it was stored last. */
  readonly epoch: number;
  /** The last two, the latest first; `returns` tells whether there were more. */
  readonly intervals: readonly BlockInterval[];
  /** Time between the last eviction and the store after it, ms; absent when it never came back. */
  readonly reuseGapMs?: number;
  readonly displacedBy?: Displacer;
}

export interface BlockDetail extends BlockSummary {
  /** Blocks between it and token 0; absent when not placed. */
  readonly depth?: number;
  /** Nearest first, at most 32. */
  readonly parents: readonly BlockNodeId[];
  /** Newest first, at most 64; `children` counts all. */
  readonly childNodes: readonly BlockSummary[];
  /** At most 256. */
  readonly holdings: readonly BlockHolding[];
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

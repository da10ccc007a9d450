/**
 * Answers of the Cache view: hit rates kept apart by source, what is resident where, the prefix tree over all instances,
 * the difference between prefill and decode, eviction storms, one block's life, and why a request missed.
 *
 * Every answer that rests on KV events carries the confidence of the streams it rests on. Token ids are u32; hashes are
 * hex strings; `node` is the index's own number of a block known by its content, valid until the index forgets it.
 */
import type { InstanceId, RecordId, StreamId } from './ids.ts';
import type { BlockHashHex } from './kv.ts';
import type { ConnectorName, Role } from './vocabulary.ts';

/** How far an answer can be trusted, and why it is not 1. */
export interface Confidence {
  /** 0..1. Of several streams the lowest: whatever a dead stream held is missing from the answer. */
  readonly value: number;
  readonly reasons: readonly { readonly code: string; readonly text: string; readonly stream?: StreamId }[];
  /** Of each stream that it rests on, the lowest first, at most 64. */
  readonly over?: readonly { readonly stream: StreamId; readonly value: number }[];
  /** How many these are in all; absent: as many as are listed. */
  readonly streams?: number;
}

export const HIT_SOURCES = [
  'engine-local', 'engine-external', 'by-source', 'prefill-cached-tokens', 'decode-cached-tokens', 'index',
] as const;
/**
 * Where a hit rate comes from: the engine's prefix_cache counters, its external_prefix_cache counters, its
 * prompt_tokens_by_source counters, `cached_tokens` of prefill and of decode answers, and pdscope's own index.
 */
export type HitSource = (typeof HIT_SOURCES)[number];

export interface HitPoint {
  readonly atUnixMs: number;
  readonly hitTokens: number;
  readonly queryTokens: number;
}

/** One source's hits over time. A step in which nothing was asked is absent. */
export interface HitSeries {
  readonly source: HitSource;
  /** Absent: of the whole fleet. */
  readonly instance?: InstanceId;
  readonly instanceName?: string;
  readonly points: readonly HitPoint[];
  /** Of pdscope's index: requests of the window that it was asked about, of all whose prompt was computed. */
  readonly sample?: { readonly requests: number; readonly of: number };
  /** Over the window; absent when the source said nothing. */
  readonly whole?: { readonly hitTokens: number; readonly queryTokens: number };
  readonly confidence?: Confidence;
}

/** Two sources that should agree and do not. */
export interface HitDisagreement {
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly left: HitSource;
  readonly right: HitSource;
  /** Shares 0..1 over the window. */
  readonly leftRate: number;
  readonly rightRate: number;
  /** Set when it is not the rates that disagree, but how many prompt tokens they are of. */
  readonly promptTokens?: { readonly left: number; readonly right: number };
  /** What that usually means. */
  readonly meaning: string;
}

export interface CacheHits {
  readonly nowUnixMs: number;
  readonly windowS: number;
  readonly stepS: number;
  readonly series: readonly HitSeries[];
  readonly disagreements: readonly HitDisagreement[];
}

/** One row of the residency map: a medium of an instance's stream. Cells are blocks in order of storing, binned when there are too many. */
export interface ResidencyRow {
  readonly stream: StreamId;
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly role: Role;
  /** Upper case. Every stream has a row for the GPU; for other media when it holds blocks there. */
  readonly medium: string;
  /** All that are resident on the medium, unplaced ones included. */
  readonly blocks: number;
  /** Of the medium, when the engine said; vLLM says it of the GPU alone. */
  readonly capacityBlocks?: number;
  readonly blocksPerCell: number;
  /** Per cell: seconds since the block was stored (mean over the bin). */
  readonly ageS: readonly number[];
  /** Per cell: stores and announcements beyond the first (mean). */
  readonly reuse: readonly number[];
  /** Per cell: streams that hold the same content, this one included (largest of the bin). */
  readonly holders: readonly number[];
  /** Per cell: a node of it, for the click; absent for unplaced blocks. */
  readonly node: readonly (number | null)[];
  /** Blocks whose content is not known (late attach, placeholder, lost parent): counted, not in the cells. */
  readonly unplaced: number;
  readonly confidence: Confidence;
}

export interface ResidencyMap {
  readonly nowUnixMs: number;
  readonly rows: readonly ResidencyRow[];
}

export interface NodeHolder {
  readonly stream: StreamId;
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly role: Role;
  readonly medium: string;
}

/** A run of blocks without a branch, as one line of the tree. */
export interface TreeNode {
  readonly node: number;
  /** Blocks of the run, and of everything below it. */
  readonly runBlocks: number;
  readonly blocksBelow: number;
  readonly blockSize: number;
  /** First tokens of the run, at most 64. */
  readonly tokens: readonly number[];
  /** Decoded text of these, when an instance could be asked. */
  readonly text?: string;
  readonly reuse: number;
  readonly lastStoredAtUnixMs: number;
  readonly holders: readonly NodeHolder[];
  readonly children: number;
  readonly extraKeys?: string;
}

export interface TreePage {
  /** Path from the root to the node asked for, root first. Empty at the top. */
  readonly path: readonly TreeNode[];
  readonly children: readonly TreeNode[];
  readonly omitted: number;
  readonly totalNodes: number;
  readonly capacity: number;
  readonly evicted: number;
  readonly confidence: Confidence;
}

/**
 * Where the longest known beginning of a token sequence ends; several places when keys (LoRA, salt, media) differ. What no
 * prompt wholly begins with is looked for inside prompts, too: then matches are the blocks in which it begins.
 */
export interface TreeSearch {
  readonly matches: readonly TreeNode[];
  /** The tokens stand inside prompts, not at their start. */
  readonly isInside?: boolean;
  readonly matchedTokens: number;
  readonly askedTokens: number;
  readonly confidence: Confidence;
}

export const KV_BYTES_SOURCES = ['setting', 'server-info', 'transfers'] as const;

/** Bytes of KV cache per token, and where the figure comes from. */
export interface KvBytes {
  readonly bytesPerToken: number;
  /** `setting`: given with the instance. `server-info`: worked out from the engine's configuration. `transfers`: bytes that NIXL moved over tokens received. */
  readonly from: (typeof KV_BYTES_SOURCES)[number];
  /** In words, with values. */
  readonly detail: string;
}

export interface DifferencePart {
  /** Different contents, and their tokens. */
  readonly blocks: number;
  readonly tokens: number;
  /** Copies of them in the caches compared: an instance may hold a block in several media, and twice in one. */
  readonly copies: number;
  /** One copy of everything; absent when the size of a token is not known. */
  readonly bytes?: number;
  /** All copies; what is beyond `bytes` is held more than once. */
  readonly copyBytes?: number;
  /** Largest runs, at most 20. */
  readonly samples: readonly TreeNode[];
}

/** What the handoff moved to the right side in a window, by three witnesses that are kept apart. */
export interface HandoffMeasure {
  readonly windowS: number;
  /** P/D protocols of the legs in the window. */
  readonly connectors: readonly ConnectorName[];
  /** What these send: only blocks that the decode engine lacks, or all of the prompt. `unknown`: not known, or not the same. */
  readonly resends: 'missing' | 'all' | 'unknown';
  /** Tokens from elsewhere by the engines' counters; absent when none exposes one. */
  readonly received?: {
    readonly tokens: number;
    readonly from: 'prompt_tokens_by_source' | 'external_prefix_cache_hits';
    /** Instances whose counters are in it. */
    readonly instances: number;
    /** `nixl`: counted by NIXL. `tokens`: tokens times the bytes of one. */
    readonly bytes?: number;
    readonly bytesFrom?: 'nixl' | 'tokens';
  };
  /** Decode legs that were told where to fetch KV; of those known: tokens of their prompts, and what the instance held of them when they were sent. */
  readonly legs: { readonly fetching: number; readonly known: number; readonly promptTokens: number; readonly heldTokens: number; readonly confidence?: Confidence };
  /**
   * Blocks stored while they were held, by KV events; absent without a stream. `announced`: further blocks, of engines that
   * requests asked to announce reuse (`kv_cache_report_mode`), be it by pdscope's setting or a client's wish; a copy from
   * token 0 on looks the same.
   */
  readonly again?: { readonly blocks: number; readonly tokens: number; readonly announced: number; readonly confidence: Confidence };
}

/** What two groups of instances hold of the same content. */
export interface CacheDifference {
  readonly left: readonly InstanceId[];
  readonly right: readonly InstanceId[];
  readonly onlyLeft: DifferencePart;
  readonly onlyRight: DifferencePart;
  readonly both: DifferencePart;
  /** What sizes of the left and of the right side rest on; absent when its instances say nothing, or do not agree. */
  readonly leftBytes?: KvBytes;
  readonly rightBytes?: KvBytes;
  /**
   * Tokens sent to the right side that it held already, at most, of those sent. Where the protocol sends only what is missing:
   * second copies by KV events, of what the engines received. Where it sends whole prompts: what was held of them, of the
   * prompts that are known. Absent when it cannot be told.
   */
  readonly redundantTokens?: number;
  readonly transferredTokens?: number;
  readonly handoff?: HandoffMeasure;
  readonly confidence: Confidence;
}

export interface EvictionStorms {
  readonly storms: readonly EvictionStorm[];
  /** What a storm is, at least: so many blocks, and this share of what its stream holds now. */
  readonly least: { readonly blocks: number; readonly share: number };
  /** Blocks that came back too few at a time for a storm; their history has them. */
  readonly fewBlocks: number;
  /** Set when evictions followed by a store were too many to keep: the storms before this time are incomplete. */
  readonly completeSinceUnixMs?: number;
}

export interface EvictionStorm {
  readonly stream: StreamId;
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly fromUnixMs: number;
  readonly toUnixMs: number;
  /** Blocks evicted and stored again within the limit, and their tokens: computed or fetched a second time. */
  readonly blocks: number;
  readonly tokens: number;
  /** Shortest and median time between the two, ms. */
  readonly shortestMs: number;
  readonly medianMs: number;
  readonly samples: readonly TreeNode[];
}

/** A block by the hash that one stream knows it by: enough to ask for its detail for as long as the index remembers it. */
export interface BlockName {
  readonly stream: StreamId;
  readonly instanceName: string;
  readonly hash: BlockHashHex;
}

export interface BlockInterval {
  readonly stream: StreamId;
  readonly instanceName: string;
  readonly medium: string;
  readonly epoch: number;
  readonly storedAtUnixMs: number;
  /** Absent: still there. */
  readonly removedAtUnixMs?: number;
  readonly how?: 'removed' | 'cleared' | 'restart' | 'detached';
  readonly stores: number;
  /** The first block stored in that stream at or after the removal. */
  readonly displacedBy?: number;
}

export interface BlockDetail {
  readonly node: number;
  readonly tokens: readonly number[];
  readonly text?: string;
  readonly blockSize: number;
  /** Position in its chain, 0 = starts at token 0. */
  readonly index: number;
  readonly extraKeys?: string;
  readonly hashes: readonly BlockName[];
  readonly parents: readonly TreeNode[];
  readonly children: readonly TreeNode[];
  readonly holders: readonly NodeHolder[];
  readonly history: readonly BlockInterval[];
  readonly historyOmitted: number;
}

export const MISS_KINDS = [
  'hit', 'never-stored', 'evicted', 'elsewhere', 'diverges', 'other-key', 'partial-block', 'reset', 'unknown',
] as const;
export type MissKind = (typeof MISS_KINDS)[number];

/** Blocks `fromBlock` to `toBlock` (both included) of the prompt, with one verdict and its evidence. */
export interface MissRange {
  readonly kind: MissKind;
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly tokens: number;
  /** In words, with values. */
  readonly message: string;
  readonly evictedAtUnixMs?: number;
  readonly displacedBy?: number;
  /** Where the blocks were instead. */
  readonly elsewhere?: readonly NodeHolder[];
  /**
   * The known block that the verdict is about, to look at: held by another instance, gone (of several the one that went
   * first), held under another key, or what is held where the prompt diverges.
   */
  readonly block?: BlockName;
  /** First token that differs, counted from the prompt's start, and both sides from a little before it. */
  readonly diverges?: {
    readonly block: number;
    readonly token: number;
    readonly asked: { readonly tokens: readonly number[]; readonly text?: string };
    readonly held: { readonly tokens: readonly number[]; readonly text?: string };
  };
  readonly key?: { readonly what: 'salt' | 'lora' | 'media' | 'other'; readonly asked?: string; readonly held?: string };
  readonly gap?: { readonly stream: StreamId; readonly fromSeq: number; readonly toSeq: number };
}

/** Why a request missed, on the instance that ran its prefill, and what the others would have had. */
export interface MissReport {
  readonly request: RecordId;
  /** `unavailable`: the prompt's tokens could not be had; `reason` says why. */
  readonly state: 'ready' | 'unavailable';
  readonly reason?: string;
  /** It is being found out: the answer will be another one in a moment, or when the request ends. */
  readonly isPending?: true;
  /** It was explained because somebody opened it, and not by itself: it counts in no sum over requests. */
  readonly isOpened?: true;
  /** How the tokens were had. */
  readonly tokensFrom?: 'render' | 'tokenize' | 'events' | 'request';
  /** From `events`: which part of the prompt is known. */
  readonly tokensNote?: string;
  readonly atUnixMs?: number;
  readonly stream?: StreamId;
  readonly instanceName?: string;
  readonly promptTokens?: number;
  readonly blockSize?: number;
  readonly ranges: readonly MissRange[];
  /** Matched tokens on every stream at that time, best first. `isLeast`: it may have been more; blocks that went since then are forgotten. */
  readonly matches: readonly { readonly stream: StreamId; readonly instanceName: string; readonly role: Role; readonly tokens: number; readonly wasChosen: boolean; readonly isLeast?: true }[];
  /** What the engine said it found, for comparison. */
  readonly reportedCachedTokens?: number;
  readonly confidence: Confidence;
}

/** Missed tokens of many requests under one cause. */
export interface MissCause {
  readonly id: string;
  readonly kind: MissKind;
  /** E.g. `diverges after 96 tokens: "Current time: 2026-"`. */
  readonly title: string;
  readonly tokens: number;
  /** Of all missed tokens, 0..1. */
  readonly share: number;
  readonly requests: readonly { readonly id: RecordId; readonly n: number }[];
  readonly requestCount: number;
  /** Of divergences, the latest: what was asked where something else is held. */
  readonly examples?: readonly MissExample[];
}

export interface MissExample {
  readonly id: RecordId;
  readonly n: number;
  /** First token that differs, counted from the prompt's start. */
  readonly token: number;
  /** Decoded text from there on. */
  readonly asked: string;
  readonly held: string;
}

/** Sums rest on requests that were explained by themselves: which these are does not hang on who looks. */
export interface MissSummary {
  readonly windowS: number;
  /** How far back the kept records reach, where that is less than the window: older ones were evicted. */
  readonly reachesS?: number;
  readonly requests: number;
  /** Requests of the window, explained or not; those that are being explained are in neither. */
  readonly of: number;
  /** Of them, those that were explained only since somebody opened them: in no sum, as people open what is slow or odd. */
  readonly opened: number;
  /** Of `unexplained`, those that are explained when they are opened. */
  readonly openable: number;
  readonly promptTokens: number;
  readonly missedTokens: number;
  /** Requests that were not explained, and why, e.g. no tokenizer. */
  readonly unexplained: readonly { readonly reason: string; readonly requests: number }[];
  readonly causes: readonly MissCause[];
}

/** One message of a stream as it came. */
export interface RawFrames {
  readonly n: number;
  readonly stream: StreamId;
  readonly seq?: number;
  readonly receivedAtUnixMs: number;
  /** Hex of each frame, cut to 16 KB; `bytes` is the whole length. */
  readonly frames: readonly { readonly name: 'topic' | 'sequence' | 'payload' | 'other'; readonly bytes: number; readonly hex: string; readonly isCut: boolean }[];
  /** The payload as JSON text, bytes as hex, cut to 64 KB; absent when it could not be decoded. */
  readonly decoded?: string;
  readonly problem?: string;
}

import type { InstanceId, StreamId } from './ids.ts';
import type { KvRowKind } from './vocabulary.ts';

/**
 * Block hashes cross every border as lower-case hex: 16 digits for vLLM's u64 form (signed values as two's
 * complement), the full digest for the bytes form. Never a JS number.
 */
export type BlockHashHex = string;

/** One line of the KV events view: an event of an engine, or what pdscope noticed about the stream. */
export interface KvRow {
  /** Running number over all streams since engine start, 1-based. */
  readonly n: number;
  readonly stream: StreamId;
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly rank: number;
  readonly epoch: number;
  readonly seq?: number;
  /** The publisher's clock at publishing; absent on rows pdscope made. */
  readonly engineTsUnixMs?: number;
  readonly receivedAtUnixMs: number;
  readonly kind: KvRowKind;
  /** First hashes of the event, at most 16. */
  readonly hashes: readonly BlockHashHex[];
  readonly hashCount: number;
  readonly parent?: BlockHashHex;
  readonly blockSize?: number;
  readonly tokenCount?: number;
  /** First token ids, at most 32. */
  readonly tokens?: readonly number[];
  readonly medium?: string;
  readonly loraName?: string;
  readonly loraId?: number;
  readonly groupIdx?: number;
  readonly specKind?: string;
  readonly slidingWindow?: number;
  readonly locality?: string;
  readonly ownership?: string;
  readonly sessionId?: string;
  /** extra_keys as JSON text (bytes as hex), cut to 400 characters. */
  readonly extraKeys?: string;
  /** Words: what a gap missed, why a restart was concluded, what could not be decoded, fields that are not known. */
  readonly note?: string;
}

export const KV_STREAM_STATES = ['connecting', 'live', 'silent', 'lost', 'failed'] as const;
/**
 * `connecting`: no TCP connection yet. `silent`: connected, nothing ever received (normal for an idle engine).
 * `live`: batches were received. `lost`: the connection broke and is being re-tried. `failed`: the socket could not be made.
 */
export type KvStreamState = (typeof KV_STREAM_STATES)[number];

export interface ResidentCount {
  /** Normalised to upper case; `GPU` when the engine did not say (events before 2025-09). */
  readonly medium: string;
  readonly blocks: number;
}

export const KV_REPLAY_STATES = ['none', 'idle', 'asking', 'failed'] as const;
/**
 * `none`: no replay socket is configured. `idle`: nothing to ask for. `asking`: a replay runs, live batches wait.
 * `failed`: the last question got no whole answer; `reason` says why.
 */
export type KvReplayState = (typeof KV_REPLAY_STATES)[number];

/** The engine's replay socket, as a stream used it so far. */
export interface KvReplayView {
  readonly state: KvReplayState;
  readonly endpoint?: string;
  readonly reason?: string;
  /** When a gap will be asked for again; until then gaps are lost at once. */
  readonly retryAtUnixMs?: number;
  /** Questions. */
  readonly asked: number;
  /** Of these, without a whole answer. */
  readonly failed: number;
  /** Batches applied from it. */
  readonly batches: number;
  /** `topic`: replies with a topic frame (vLLM since 2026-07-07); `bare`: without. Absent before the first answer. */
  readonly layout?: 'topic' | 'bare';
}

/** How much was seen of what the engine published in its current life. */
export interface KvCoverage {
  /** Batches applied, live or by replay. */
  readonly applied: number;
  /** Batches that went by before the stream was joined. */
  readonly unseen: number;
  /** Batches lost in gaps, for good. */
  readonly lost: number;
  /** Batches that came and could not be read. */
  readonly unreadable: number;
  /** applied / (applied + unseen + lost + unreadable), 0..1. Absent before the first batch. */
  readonly share?: number;
}

export const KV_DOUBT_CODES = [
  'never-connected', 'socket-failed', 'nothing-received', 'connection-lost', 'stores-untold', 'replaying', 'joined-late', 'batches-lost', 'life-uncertain', 'batches-waiting', 'messages-unreadable',
  'events-unreadable', 'events-unknown', 'removals-unknown', 'lagging', 'shared-stream', 'other-rank', 'blocks-untracked', 'blocks-displaced', 'no-stream',
] as const;
export type KvDoubtCode = (typeof KV_DOUBT_CODES)[number];

/** One reason why a stream's picture of its cache is not certain. */
export interface KvDoubt {
  readonly code: KvDoubtCode;
  /** A sentence: what happened, and what it means for cache numbers. */
  readonly text: string;
  /** What it takes off, 0..1: confidence is the product of all (1 - weight). */
  readonly weight: number;
}

/** How far cache numbers can be trusted, 0..1, and why not wholly. */
export interface KvConfidence {
  readonly confidence: number;
  /** The heaviest first. Empty when confidence is 1. */
  readonly reasons: readonly KvDoubt[];
}

export interface KvStreamView {
  readonly id: StreamId;
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly rank: number;
  readonly endpoint: string;
  readonly topic: string;
  readonly state: KvStreamState;
  readonly stateReason?: string;
  readonly encoding?: 'array' | 'map' | 'mixed';
  readonly hashForm?: 'int' | 'bytes' | 'mixed';
  readonly lastSeq?: number;
  readonly lastReceivedAtUnixMs?: number;
  /** Receipt time minus the last batch's timestamp; two clocks, so only as good as their agreement. Absent when that batch told no time. */
  readonly lagMs?: number;
  readonly batches: number;
  readonly events: number;
  readonly bytes: number;
  readonly eventsPerSecond: number;
  readonly gaps: number;
  readonly missedBatches: number;
  readonly duplicateBatches: number;
  /** Batches left out whose numbers were there before, and which were not: of another life of the engine, or another publisher. */
  readonly strayBatches?: number;
  readonly epochs: number;
  readonly badMessages: number;
  /** Events that could not be read, in batches that could. */
  readonly badEvents?: number;
  /** Fields and slots that no known layout has, or of an unexpected type; kept as text with their row. */
  readonly unknownFields?: number;
  /** Batches whose timestamp was no time (no number, not finite, beyond any date): read, and taken to be published when they came. */
  readonly badTimestamps?: number;
  /** Removals of hashes not held here: normal after a late attach or a gap. */
  readonly unknownRemovals?: number;
  /** Blocks stored while they were held: vLLM does not deduplicate physical blocks, so copies are normal. */
  readonly duplicateStores?: number;
  /** Blocks that requests found in the cache, announced because they asked for it (`kv_cache_report_mode`): counted apart from copies. */
  readonly announcedBlocks?: number;
  /** Stores that continue a block never seen stored: normal after a late attach or a gap. */
  readonly unknownParents?: number;
  /** Batches whose hashes came in another form (integers, bytes) than those of the batch before, or in both. */
  readonly hashFormChanges?: number;
  /** Messages dropped by pdscope's own bounded queue. */
  readonly droppedMessages: number;
  /** Gaps of which a replay brought every batch. */
  readonly gapsFilled?: number;
  /** Of the missed batches: brought by replay, and lost for good. The rest is being asked for. */
  readonly missedFilled?: number;
  readonly missedLost?: number;
  readonly replay?: KvReplayView;
  /** Of the engine's current life. */
  readonly coverage?: KvCoverage;
  /** How far cache numbers of this stream can be trusted, 0..1. */
  readonly confidence?: number;
  /** Why not wholly, the heaviest first. */
  readonly reasons?: readonly KvDoubt[];
  /** Events of kinds that pdscope does not know; kept and shown raw. */
  readonly unknownEvents?: number;
  /** False when batches of the engine's current life, from its first on, were never seen: blocks stored in them are unknown. */
  readonly sawStart: boolean;
  readonly resident: readonly ResidentCount[];
}

/** One resident block of an instance's stream. */
export interface KvBlockView {
  readonly hash: BlockHashHex;
  readonly stream: StreamId;
  readonly instanceName: string;
  readonly medium: string;
  readonly groupIdx?: number;
  readonly parent?: BlockHashHex;
  readonly blockSize?: number;
  readonly tokens?: readonly number[];
  /** Stores minus removals; vLLM does not deduplicate physical blocks. */
  readonly copies: number;
  readonly storedAtUnixMs: number;
  readonly stores: number;
}

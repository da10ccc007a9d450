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
  /** Words: what a gap missed, why a restart was concluded, what could not be decoded. */
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
  /** Receipt time minus the last batch's timestamp; two clocks, so only as good as their agreement. */
  readonly lagMs?: number;
  readonly batches: number;
  readonly events: number;
  readonly bytes: number;
  readonly eventsPerSecond: number;
  readonly gaps: number;
  readonly missedBatches: number;
  readonly duplicateBatches: number;
  readonly epochs: number;
  readonly badMessages: number;
  /** Events that could not be read, in batches that could. */
  readonly badEvents?: number;
  /** Fields and slots that no known layout has, or of an unexpected type; ignored. */
  readonly unknownFields?: number;
  /** Removals of hashes not held here: normal after a late attach or a gap. */
  readonly unknownRemovals?: number;
  /** Messages dropped by pdscope's own bounded queue. */
  readonly droppedMessages: number;
  /** False when the first batch seen was not seq 0: blocks stored before are unknown. */
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

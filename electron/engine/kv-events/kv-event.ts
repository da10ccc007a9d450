/**
 * KV-cache events as decoded: every field that vLLM or SGLang sends, exact and named, `undefined` for nil and absent
 * alike (no consumer can tell them apart across encodings). Objects of one kind always have all fields, which keeps
 * the code that walks millions of them fast. Nothing here refers to the frame it came from. Hashes and tokens of a batch are
 * there until it was applied, when the words they lie in are used again (word-run.ts).
 */
import type { BlockHashes } from './block-hashes.ts';
import type { WordRun } from './word-run.ts';

/** One part of a block's extra key: LoRA name, `[multimodal id, offset]`, cache salt, or a digest of prompt embeddings. */
export type ExtraKey = string | number | bigint | boolean | null | Uint8Array | readonly ExtraKey[];

/** Of events with fields that pdscope does not know, or of an unexpected type; others do not have it. */
export interface UnreadFields {
  /** JSON text of those fields, bytes as hex, cut to 400 characters. */
  readonly unread?: string;
}

/** Where blocks live, besides the stream: part of the key of residency (vLLM's fields of the same names). */
export interface ResidencyFields {
  /** As sent; compare upper-cased. Absent before 2025-09 and from connectors that do not say: the GPU. */
  readonly medium: string | undefined;
  readonly groupIdx: number | undefined;
  readonly locality: string | undefined;
  readonly ownership: string | undefined;
}

export interface StoredEvent extends ResidencyFields, UnreadFields {
  readonly kind: 'stored';
  readonly hashes: BlockHashes;
  /** One hash; absent when the first block starts at token 0. */
  readonly parent: BlockHashes | undefined;
  /** Tokens of all blocks; may be empty (placeholder), or more than the hashes cover (sliding window). */
  readonly tokens: WordRun;
  /** Tokens per block; 0 in placeholders. */
  readonly blockSize: number;
  readonly loraId: number | undefined;
  readonly loraName: string | undefined;
  readonly specKind: string | undefined;
  readonly slidingWindow: number | undefined;
  readonly sessionId: string | undefined;
  /** SGLang's; vLLM puts the salt among the extra keys. */
  readonly cacheSalt: string | undefined;
  /** One entry per hash. */
  readonly extraKeys: readonly ExtraKey[] | undefined;
  /** SGLang's EAGLE pages: the tokens came as pairs `[t, t+1]`, of which the first of each is kept. */
  readonly isBigram: boolean;
}

export interface RemovedEvent extends ResidencyFields, UnreadFields {
  readonly kind: 'removed';
  readonly hashes: BlockHashes;
  /** Copies left of each hash, where the engine says so (vLLM pull request 48933). */
  readonly remainingCopies: readonly number[] | undefined;
}

export interface ClearedEvent {
  readonly kind: 'cleared';
}

/** An event of a kind that pdscope does not know: kept as it came. */
export interface UnknownEvent {
  readonly kind: 'unknown';
  readonly tag: string;
  readonly hashes: BlockHashes;
  readonly medium: string | undefined;
  readonly groupIdx: number | undefined;
  /** JSON text of the raw event, bytes as hex, cut to 400 characters. */
  readonly raw: string;
}

/** An event that could not be read; the rest of its batch could. */
export interface BadEvent {
  readonly kind: 'bad';
  readonly reason: string;
  readonly raw: string;
}

export type KvEvent = StoredEvent | RemovedEvent | ClearedEvent | UnknownEvent | BadEvent;

export type Encoding = 'array' | 'map' | 'mixed';
export type HashForm = 'int' | 'bytes' | 'mixed';

export interface KvBatch {
  /** The publisher's clock, ms; absent when it was not a time (`timeOf`). */
  readonly tsUnixMs: number | undefined;
  /** Data-parallel rank as stamped by the engine; absent before 2025-06 and from SGLang without it. */
  readonly rank: number | undefined;
  /** In the order of the batch, which matters: remove and store of one hash occur in one batch. */
  readonly events: readonly KvEvent[];
  /** Layout of the events; absent when the batch has none. */
  readonly encoding: Encoding | undefined;
  readonly hashForm: HashForm | undefined;
  /** Fields and slots that no known layout has, or with an unexpected type; they were ignored. */
  readonly unknownFields: number;
}

/** The most that dates can tell, ms either way of 1970 (ECMAScript, time values). */
const LAST_TIME_MS = 8.64e15;

/** Unix seconds as ms; undefined for what is no number, not finite, or beyond what dates can tell. */
export function timeOf(seconds: unknown): number | undefined {
  const ms = typeof seconds === 'bigint' ? Number(seconds) * 1000 : typeof seconds === 'number' ? seconds * 1000 : Number.NaN;
  return Math.abs(ms) <= LAST_TIME_MS ? ms : undefined;
}

/** Widens a form seen so far by the next one. */
export function mergeForm<Form extends Encoding | HashForm>(seen: Form | undefined, next: Form | undefined): Form | 'mixed' | undefined {
  if (seen === undefined || next === undefined) return seen ?? next;
  return seen === next ? seen : 'mixed';
}

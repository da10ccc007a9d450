/** Where blocks live: one medium, group, locality and ownership of one stream, the key by which engines count copies. */
import type { StreamIdentity } from '../kv-events/kv-row.ts';
import type { Era } from './holding-table.ts';

/** One medium of one stream: what removals make room in, whatever the group. */
export interface Tier {
  /** Slots removed since the last store. */
  readonly pending: number[];
}

export interface Residency {
  readonly number: number;
  readonly stream: StreamIdentity;
  /** Of the stream, in the index. */
  readonly streamNumber: number;
  /** Upper case; `GPU` when the engine did not say. */
  readonly medium: string;
  readonly groupIdx: number | undefined;
  readonly locality: string | undefined;
  readonly ownership: string | undefined;
  readonly tier: Tier;
  era: Era;
  /** When the era began: everything before it is gone. Minus infinity for the first. */
  eraSinceUnixMs: number;
  /** Why the one before ended. */
  resetReason: 'restart' | 'cleared' | 'detached' | undefined;
  /** Holdings, history included. */
  slots: number;
  /** Its hashes pair with tokens, so that it serves prefixes: full attention, or a kind not told. */
  isPrefix: boolean;
  /** Of the last store whose tokens pair with hashes; 0 before. */
  blockSize: number;
  /** Blocks held that the index gave up for lack of room, over all eras: those of eras that are over went with them. */
  evicted: number;
  /** History up to here may have been forgotten. */
  forgottenUntilUnixMs: number;
  /** Its stream is detached. */
  isClosed: boolean;
}

/** Kinds of KV-cache groups whose tokens and hashes pair (vllm/v1/kv_cache_interface.py); others skip masked blocks. */
const PAIRED_KINDS: ReadonlySet<string> = new Set(['full_attention', 'mla_attention', 'sink_full_attention', 'unknown']);

/** Whether a group's blocks may be told from tokens; exact arithmetic must agree. */
export function isPairedKind(specKind: string | undefined): boolean {
  // Most of all, told apart without hashing; asked with every event.
  return specKind === undefined || specKind === 'full_attention' || PAIRED_KINDS.has(specKind);
}

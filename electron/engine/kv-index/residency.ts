/** Where blocks live: one medium, group, locality and ownership of one stream, the key by which engines count copies. */
import type { ResidencyFields, StoredEvent } from '../kv-events/kv-event.ts';
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
  /**
   * Of stores whose tokens pair with hashes, 0 before: the largest of the engine's life, as hybrid models store parts of
   * blocks too, until these are full (vllm/v1/core/block_pool.py).
   */
  blockSize: number;
  /** The engine's life that the size is of. */
  sizeEpoch: number;
  /** The engine's life in which it was last told to be full attention: the prefix cache finds a block only where all such groups have it. */
  neededEpoch: number;
  /** Blocks held that the index gave up for lack of room, over all eras: those of eras that are over went with them. */
  evicted: number;
  /** History up to here may have been forgotten. */
  forgottenUntilUnixMs: number;
  /** When the last era ended that held blocks whose place in the tree was not known. Minus infinity without one. */
  unplacedUntilUnixMs: number;
  /** Its stream is detached. */
  isClosed: boolean;
}

/** Kinds of KV-cache groups whose tokens and hashes pair (vllm/v1/kv_cache_interface.py); others skip masked blocks. */
const PAIRED_KINDS: ReadonlySet<string> = new Set(['full_attention', 'mla_attention', 'sink_full_attention', 'unknown']);

/** Whether the engine's prefix cache needs this group for a hit, as its events told; `epoch`: the engine's current life. */
export function isNeeded({ medium, isPrefix, neededEpoch }: Residency, epoch: number): boolean {
  return neededEpoch === epoch && isPrefix && medium === 'GPU';
}

/** Whether a group's blocks may be told from tokens; exact arithmetic must agree. */
export function isPairedKind(specKind: string | undefined): boolean {
  // Most of all, told apart without hashing; asked with every event.
  return specKind === undefined || specKind === 'full_attention' || PAIRED_KINDS.has(specKind);
}

/** Whether an event speaks of a residency; `medium`: the event's, normalised. */
export function isOf(residency: Residency, event: ResidencyFields, medium: string): boolean {
  return residency.medium === medium && residency.groupIdx === event.groupIdx
    && residency.locality === event.locality && residency.ownership === event.ownership;
}

/** Fewer hashes than blocks of tokens: a group that leaves out masked blocks, of before kinds were told (vLLM 2026-04 to 2026-05). */
export function skipsBlocks({ specKind, blockSize, tokens, medium }: StoredEvent, count: number): boolean {
  return specKind === undefined && blockSize > 0 && tokens.length > count * blockSize && tokens.length % blockSize === 0 && normaliseMedium(medium) === 'GPU';
}

const upperCased = new Map<string, string>();

/** Media are compared case-insensitively (Mooncake's store says `cpu`), and nil means the engine's own GPU pool. */
export function normaliseMedium(medium: string | undefined): string {
  if (medium === undefined || medium === 'GPU') return 'GPU';
  let upper = upperCased.get(medium);
  if (upper === undefined) {
    upper = medium.toUpperCase();
    if (upperCased.size < 256) upperCased.set(medium, upper);
  }
  return upper;
}

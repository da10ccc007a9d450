/**
 * For whoever builds on the streams (the index by content, cache analytics): everything applied, in the engine's order
 * per stream, each event once, and every change that makes earlier events void. Called from within decoding: an observer
 * must not throw, and what it keeps is its own to bound and to copy: hashes and tokens of events are gone after their batch.
 */
import type { BatchContext, EpochChange } from './batch-applier.ts';
import type { KvEvent } from './kv-event.ts';
import type { StreamIdentity } from './kv-row.ts';
import type { GapRange } from './stream-tracker.ts';

export interface KvObserver {
  /** Before anything else of the stream. */
  onOpen?(stream: StreamIdentity): void;
  /** The events of a batch, before each of them is told by `onEvent`: whoever waits for memory can ask for all of it at once. */
  onBatch?(stream: StreamIdentity, events: readonly KvEvent[]): void;
  /** One event. `context.tsUnixMs` is when the engine published it, which for replayed batches is long before they came. */
  onEvent?(stream: StreamIdentity, context: BatchContext, event: KvEvent): void;
  /** All events of `change.ended` and before are void: the engine started anew, and its blocks are stale. */
  onEpoch?(stream: StreamIdentity, change: EpochChange): void;
  /** Batches that will never come, or that came and cannot be read: stores and removals in them are unknown from here on. */
  onLost?(stream: StreamIdentity, gap: GapRange): void;
  /** The stream is detached; its blocks are no longer followed. */
  onClose?(stream: StreamIdentity): void;
}

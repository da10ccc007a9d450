/**
 * Between the KV event streams and whoever joins them with requests: events with the engines' times put on our clock
 * (publisher-clock.ts), and batches that could not be read told as lost. Engines publish no empty batches
 * (vllm/v1/core/sched/scheduler.py), so a number that no event came for is a message that was not understood; so is an
 * event that was not. What such a one stored or removed is as unknown as if it never came.
 *
 * Called from within decoding: does not throw, and costs one object per batch.
 */
import type { StreamId } from '#shared/ids.ts';
import type { BatchContext, EpochChange } from '../kv-events/batch-applier.ts';
import type { KvEvent } from '../kv-events/kv-event.ts';
import type { KvObserver } from '../kv-events/kv-observer.ts';
import type { StreamIdentity } from '../kv-events/kv-row.ts';
import type { GapRange } from '../kv-events/stream-tracker.ts';
import { PublisherClock } from './publisher-clock.ts';

interface Followed {
  readonly clock: PublisherClock;
  /** Number of the batch that should come next; undefined before the first of an engine's life. */
  nextSeq: number | undefined;
  /** The batch that came last, as it came and on our clock. */
  context: BatchContext | undefined;
  local: BatchContext | undefined;
  /** The batch that was told as lost for an event that could not be read; it may have thousands. */
  unread: BatchContext | undefined;
}

export class LocalTimeObserver implements KvObserver {
  readonly #to: KvObserver;
  readonly #streams = new Map<StreamId, Followed>();

  constructor(to: KvObserver) {
    this.#to = to;
  }

  onOpen(stream: StreamIdentity): void {
    this.#streams.set(stream.id, { clock: new PublisherClock(), nextSeq: undefined, context: undefined, local: undefined, unread: undefined });
    this.#to.onOpen?.(stream);
  }

  onBatch(stream: StreamIdentity, events: readonly KvEvent[]): void {
    this.#to.onBatch?.(stream, events);
  }

  onEvent(stream: StreamIdentity, context: BatchContext, event: KvEvent): void {
    const followed = this.#streams.get(stream.id);
    if (followed === undefined) return;
    let { local } = followed;
    if (followed.context !== context || local === undefined) {
      local = this.#begin(stream, followed, context);
      followed.context = context;
      followed.local = local;
    }
    if (event.kind === 'bad' && context.seq !== undefined && followed.unread !== context) {
      followed.unread = context;
      this.#to.onLost?.(stream, { from: context.seq, to: context.seq, epoch: context.epoch });
    }
    this.#to.onEvent?.(stream, local, event);
  }

  onEpoch(stream: StreamIdentity, change: EpochChange): void {
    const followed = this.#streams.get(stream.id);
    if (followed === undefined) return;
    followed.nextSeq = undefined;
    // Another process, perhaps with its clock set right.
    followed.clock.reset();
    this.#to.onEpoch?.(stream, change);
  }

  onLost(stream: StreamIdentity, gap: GapRange): void {
    const followed = this.#streams.get(stream.id);
    if (followed === undefined) return;
    followed.nextSeq = gap.to + 1;
    this.#to.onLost?.(stream, gap);
  }

  onClose(stream: StreamIdentity): void {
    this.#streams.delete(stream.id);
    this.#to.onClose?.(stream);
  }

  #begin(stream: StreamIdentity, followed: Followed, context: BatchContext): BatchContext {
    const { seq, tsUnixMs, receivedAtUnixMs, epoch, isReplayed } = context;
    if (seq !== undefined) {
      const { nextSeq } = followed;
      if (nextSeq !== undefined && seq > nextSeq) this.#to.onLost?.(stream, { from: nextSeq, to: seq - 1, epoch });
      followed.nextSeq = seq + 1;
    }
    if (tsUnixMs === undefined) return context;
    if (!isReplayed) followed.clock.see(tsUnixMs, receivedAtUnixMs);
    const { aheadMs } = followed.clock;
    return aheadMs === 0 ? context : { ...context, tsUnixMs: tsUnixMs + aheadMs };
  }
}

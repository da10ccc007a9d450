/**
 * Feeds the index from the KV event streams. Times are those of the publishers' clocks, as far as batches have them, so
 * that what a replay brings late is indexed for when it happened.
 */
import type { BatchContext, EpochChange } from '../kv-events/batch-applier.ts';
import type { KvEvent } from '../kv-events/kv-event.ts';
import type { KvObserver } from '../kv-events/kv-observer.ts';
import type { StreamIdentity } from '../kv-events/kv-row.ts';
import type { GapRange } from '../kv-events/stream-tracker.ts';
import type { KvIndex } from './kv-index.ts';
import type { StreamBlocks } from './stream-blocks.ts';

export interface IndexObserverOptions {
  /** Whether requests asked this stream's engine for `kv_cache_report_mode: "full"` about the time of an event (see `EventContext`). Default: never. */
  readonly isReporting?: (stream: StreamIdentity, atUnixMs: number) => boolean;
  /** Unix ms. Default: the system's clock. */
  readonly now?: () => number;
}

interface Feed {
  readonly blocks: StreamBlocks;
  /** Time of the last event; absent before the first. */
  lastUnixMs: number | undefined;
  /** Nothing was told of the engine's current life yet. */
  isFresh: boolean;
  /** Of the event at hand; one object for all of them. */
  readonly context: { atUnixMs: number; isReporting: boolean };
}

export class IndexObserver implements KvObserver {
  readonly #index: KvIndex;
  readonly #options: IndexObserverOptions;
  readonly #feeds = new Map<StreamIdentity, Feed>();

  constructor(index: KvIndex, options: IndexObserverOptions = {}) {
    this.#index = index;
    this.#options = options;
  }

  onOpen(stream: StreamIdentity): void {
    this.#feeds.set(stream, { blocks: this.#index.open(stream), lastUnixMs: undefined, isFresh: true, context: { atUnixMs: 0, isReporting: false } });
  }

  onBatch(stream: StreamIdentity, events: readonly KvEvent[]): void {
    this.#feeds.get(stream)?.blocks.expect(events);
  }

  onEvent(stream: StreamIdentity, context: BatchContext, event: KvEvent): void {
    const feed = this.#feeds.get(stream);
    if (feed === undefined) return;
    const atUnixMs = context.tsUnixMs ?? context.receivedAtUnixMs;
    this.#join(feed, context.epoch, context.seq);
    if (feed.lastUnixMs !== atUnixMs) {
      // Once a batch: events come by the hundred thousand a second.
      feed.lastUnixMs = atUnixMs;
      feed.context.isReporting = this.#options.isReporting?.(stream, atUnixMs) === true;
    }
    feed.context.atUnixMs = atUnixMs;
    feed.blocks.apply(event, feed.context);
  }

  onEpoch(stream: StreamIdentity, { ended }: EpochChange): void {
    const feed = this.#feeds.get(stream);
    // The first epoch ends nothing. A later one began after the last that was heard of the one before; when exactly, nobody said.
    if (feed === undefined || ended === 0) return;
    feed.isFresh = true;
    feed.blocks.restart(feed.lastUnixMs ?? this.#now());
  }

  onLost(stream: StreamIdentity, { from, to, epoch }: GapRange): void {
    const feed = this.#feeds.get(stream);
    if (feed === undefined) return;
    this.#join(feed, epoch, from);
    feed.blocks.lost({ cause: 'gap', epoch, from, to, ...(feed.lastUnixMs !== undefined && { sinceUnixMs: feed.lastUnixMs }) });
  }

  onClose(stream: StreamIdentity): void {
    const feed = this.#feeds.get(stream);
    if (feed === undefined) return;
    this.#feeds.delete(stream);
    feed.blocks.detach(Math.max(feed.lastUnixMs ?? 0, this.#now()));
  }

  /** The first that is told of a life of the engine: what it stored before is not known. */
  #join(feed: Feed, epoch: number, seq: number | undefined): void {
    if (!feed.isFresh) return;
    feed.isFresh = false;
    if (seq === undefined || seq === 0) return;
    feed.blocks.lost({ cause: 'late_attach', epoch, from: 0, to: seq - 1, ...(feed.lastUnixMs !== undefined && { sinceUnixMs: feed.lastUnixMs }) });
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now();
  }
}

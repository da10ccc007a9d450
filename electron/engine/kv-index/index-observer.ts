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
  /** Whether requests ask this stream's engine for `kv_cache_report_mode: "full"` (see `EventContext`). Default: never. */
  readonly isReporting?: (stream: StreamIdentity) => boolean;
  /** Unix ms. Default: the system's clock. */
  readonly now?: () => number;
}

interface Feed {
  readonly blocks: StreamBlocks;
  /** Time of the last event; absent before the first. */
  lastUnixMs: number | undefined;
  /** Batches before the first event are known to be lost. */
  hasLost: boolean;
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
    this.#feeds.set(stream, { blocks: this.#index.open(stream), lastUnixMs: undefined, hasLost: false });
  }

  onEvent(stream: StreamIdentity, context: BatchContext, event: KvEvent): void {
    const feed = this.#feeds.get(stream);
    if (feed === undefined) return;
    const atUnixMs = context.tsUnixMs ?? context.receivedAtUnixMs;
    if (feed.lastUnixMs === undefined && context.seq !== undefined && context.seq > 0 && !feed.hasLost) {
      // The engine was there before: what it stored until now is not known.
      feed.blocks.lost({ cause: 'late_attach', epoch: context.epoch, from: 0, to: context.seq - 1 });
    }
    feed.lastUnixMs = atUnixMs;
    feed.blocks.apply(event, { atUnixMs, isReporting: this.#options.isReporting?.(stream) === true });
  }

  onEpoch(stream: StreamIdentity, { ended }: EpochChange): void {
    const feed = this.#feeds.get(stream);
    // The first epoch ends nothing. A later one began after the last that was heard of the one before; when exactly, nobody said.
    if (feed !== undefined && ended > 0) feed.blocks.restart(feed.lastUnixMs ?? this.#now());
  }

  onLost(stream: StreamIdentity, { from, to, epoch }: GapRange): void {
    const feed = this.#feeds.get(stream);
    if (feed === undefined) return;
    feed.hasLost = true;
    feed.blocks.lost({ cause: 'gap', epoch, from, to, ...(feed.lastUnixMs !== undefined && { sinceUnixMs: feed.lastUnixMs }) });
  }

  onClose(stream: StreamIdentity): void {
    const feed = this.#feeds.get(stream);
    if (feed === undefined) return;
    this.#feeds.delete(stream);
    feed.blocks.detach(Math.max(feed.lastUnixMs ?? 0, this.#now()));
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now();
  }
}

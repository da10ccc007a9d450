/**
 * The rows of one subscription: requests or KV events, filtered by the engine.
 *
 * Invariants: rows and counters of a view are of the same instant; pausing freezes what is shown while the bounded
 * buffer goes on recording, and says how much it took; a filter change keeps the old rows until the new snapshot is here,
 * so that the table never flashes empty.
 */
import type { PdscopeError } from '#shared/errors.ts';
import type { ChannelData, RowCounters } from '#shared/wire.ts';
import type { Subscription, Transport } from '../transport/transport.ts';
import { FlushScheduler } from './flush-scheduler.ts';
import { RowBuffer } from './row-buffer.ts';

export type RowChannel = 'requests' | 'kv';
export type RowOf<C extends RowChannel> = ChannelData[C]['rows'][number];

export type RowsStatus =
  /** Subscribed, the first snapshot is on its way. */
  | 'loading'
  | 'live'
  /** Recording, not showing. */
  | 'paused'
  /** No connection; the rows are what was known when it broke. */
  | 'disconnected'
  /** The engine would not serve this filter; see `error`. */
  | 'rejected';

export interface RowsView<Row> {
  /** Oldest first. The array is a new one whenever anything in it changed. */
  readonly rows: readonly Row[];
  /** The filter that `rows` answer, which may still be the one before; absent before the first snapshot. */
  readonly filter: string | undefined;
  /** The engine's counters at the moment of `rows`; absent before the first snapshot. */
  readonly counters: RowCounters | undefined;
  /** Matching rows that the engine recorded but did not send, because they came too fast. */
  readonly omitted: number;
  /** Deltas left out by the host because this page was slow. */
  readonly skippedSnapshots: number;
  /** Times a hole in the sequence made the page start again. */
  readonly resyncs: number;
  readonly status: RowsStatus;
  readonly error: PdscopeError | undefined;
  /** While paused: what arrived since, and the room there is. Beyond `capacity` the oldest go. */
  readonly paused: { readonly arrived: number; readonly held: number; readonly capacity: number } | undefined;
}

/** Rows that fill a screen: when so many come at once, every line is another one, and nobody reads them ten times a second. */
const SCREENFUL = 60;
/** Between two drawings then. */
const FLOOD_PAUSE_MS = 200;

export class RowStore<C extends RowChannel> {
  readonly #transport: Transport;
  readonly #channel: C;
  readonly #limit: number;
  readonly #buffer: RowBuffer<RowOf<C>>;
  readonly #listeners = new Set<() => void>();
  readonly #scheduler = new FlushScheduler(() => this.#publish());
  #subscription: Subscription | undefined;
  #filter: string | undefined;
  #counters: RowCounters | undefined;
  #omitted = 0;
  /** Skips of earlier subscriptions plus those of the present one. */
  #skippedBefore = 0;
  #skippedNow = 0;
  #resyncs = 0;
  #status: Exclude<RowsStatus, 'paused'> = 'loading';
  #error: PdscopeError | undefined;
  #pause: { arrived: number; readonly frozen: RowsView<RowOf<C>> } | undefined;
  #view: RowsView<RowOf<C>>;
  #shownAtMs = 0;

  constructor(transport: Transport, channel: C, limit: number) {
    this.#transport = transport;
    this.#channel = channel;
    this.#limit = limit;
    this.#buffer = new RowBuffer<RowOf<C>>(limit);
    this.#view = this.#liveView();
  }

  readonly get = (): RowsView<RowOf<C>> => this.#view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  /** Subscribes with this filter, replacing an earlier subscription. */
  open(filter: string): void {
    this.#subscription?.close();
    this.#status = 'loading';
    this.#error = undefined;
    this.#skippedBefore += this.#skippedNow;
    this.#skippedNow = 0;
    // Who changes the filter while paused wants to see its answer; what is frozen then is that answer.
    let isFirst = true;
    this.#subscription = this.#transport.subscribe(
      this.#channel,
      { filter, limit: this.#limit },
      {
        onSnapshot: (data, { skipped }) => {
          this.#buffer.clear();
          this.#filter = filter;
          this.#status = 'live';
          this.#skippedNow = skipped;
          this.#apply(data);
          if (isFirst && this.#pause !== undefined) this.#pause = { arrived: 0, frozen: this.#liveView() };
          isFirst = false;
        },
        onDelta: (data) => this.#apply(data),
        onRejected: (error) => {
          this.#status = 'rejected';
          this.#error = error;
          this.#scheduler.request();
        },
        onStale: (why) => {
          if (why === 'resync') this.#resyncs += 1;
          else this.#status = 'disconnected';
          this.#skippedBefore += this.#skippedNow;
          this.#skippedNow = 0;
          this.#scheduler.request();
        },
      },
    );
    this.#scheduler.request();
  }

  close(): void {
    this.#subscription?.close();
    this.#subscription = undefined;
    this.#scheduler.cancel();
  }

  setPaused(isPaused: boolean): void {
    if (isPaused === (this.#pause !== undefined)) return;
    this.#pause = isPaused ? { arrived: 0, frozen: this.#liveView() } : undefined;
    this.#publish();
  }

  #apply(data: ChannelData[C]): void {
    if (data.cleared === true) this.#buffer.clear();
    const rows = data.rows as readonly RowOf<C>[];
    const added = this.#buffer.upsert(rows);
    // Rows that were shown and ceased to match, e.g. under `state:running`. Only the requests channel has such.
    if ('unmatched' in data && data.unmatched !== undefined) this.#buffer.remove(data.unmatched);
    if (this.#pause !== undefined) this.#pause.arrived += added;
    this.#scheduler.notBefore(added >= SCREENFUL ? this.#shownAtMs + FLOOD_PAUSE_MS : 0);
    this.#counters = data.counters;
    this.#omitted += data.omitted;
    this.#scheduler.request();
  }

  #liveView(): RowsView<RowOf<C>> {
    return {
      rows: this.#buffer.toArray(),
      filter: this.#filter,
      counters: this.#counters,
      omitted: this.#omitted,
      skippedSnapshots: this.#skippedBefore + this.#skippedNow,
      resyncs: this.#resyncs,
      status: this.#status,
      error: this.#error,
      paused: undefined,
    };
  }

  #publish(): void {
    this.#shownAtMs = performance.now();
    this.#view = this.#pause === undefined ? this.#liveView() : this.#pausedView(this.#pause);
    for (const listener of this.#listeners) listener();
  }

  #pausedView(pause: { readonly arrived: number; readonly frozen: RowsView<RowOf<C>> }): RowsView<RowOf<C>> {
    return {
      ...pause.frozen,
      resyncs: this.#resyncs,
      skippedSnapshots: this.#skippedBefore + this.#skippedNow,
      status: this.#status === 'live' ? 'paused' : this.#status,
      error: this.#error,
      paused: { arrived: pause.arrived, held: Math.min(pause.arrived, this.#buffer.size), capacity: this.#buffer.capacity },
    };
  }
}

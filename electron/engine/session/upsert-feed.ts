/**
 * Feed of a log whose rows change (requests).
 *
 * Invariants: a row that the subscriber has is always brought up to date, if need be in a later delta; only rows that it
 * never got are left out when too many come at once. A row that it has and that no longer matches is named in
 * `unmatched`, so that a filter like `state:running` never shows what has ended.
 */
import type { RowCounters } from '#shared/wire.ts';
import { rowCounters, sameCounters, sliced, type RowFeed, type RowFeedOptions, type RowFrame } from './row-feed.ts';

const PRUNE_INTERVAL_MS = 1000;

interface NumberedRow {
  /** Running number, ascending in order of appending. */
  readonly n: number;
}

export class UpsertFeed<Row extends NumberedRow> implements RowFeed<Row> {
  readonly #options: RowFeedOptions<Row>;
  #cursor = 0;
  #generation = 0;
  #lastCounters: RowCounters | undefined;
  /** Evictions that `#matching` already knows of. */
  #prunedAtEvicted = 0;
  #prunedAtMs = Number.NEGATIVE_INFINITY;
  /** Numbers of the kept rows that match; unused with the empty filter. */
  #matching = new Set<number>();
  /** Numbers of the rows that the subscriber has. */
  #sent = new Set<number>();
  /** Newest form of rows that the subscriber has in an older one. */
  #owed = new Map<number, Row>();

  constructor(options: RowFeedOptions<Row>) {
    this.#options = options;
  }

  *snapshot(): Generator<undefined, RowFrame<Row>, undefined> {
    const { log, limit, matches } = this.#options;
    this.#restart();
    // Taken before the scan: what changes during it comes again as a delta.
    this.#cursor = log.lastChange();
    let tail: Row[] = [];
    yield* sliced(log.rows(), (row) => {
      if (matches !== undefined) {
        if (!matches(row)) return;
        this.#matching.add(row.n);
      }
      tail.push(row);
      if (tail.length > 2 * limit) tail = tail.slice(-limit);
    });
    const rows = tail.slice(-limit);
    for (const row of rows) this.#sent.add(row.n);
    return this.#frame(rows, 0, []);
  }

  delta(): RowFrame<Row> | undefined {
    if (!this.hasNews()) return undefined;
    const { log, maxRows } = this.#options;
    const isCleared = log.generation() !== this.#generation;
    // After a clear, changedSince(0) is what survived it.
    if (isCleared) this.#restart();
    const last = log.lastChange();
    const fresh: Row[] = [];
    const unmatched: number[] = [];
    for (const row of log.changedSince(this.#cursor)) this.#take(row, fresh, unmatched);
    this.#cursor = last;

    const updates = Array.from(this.#owed.values()).slice(0, maxRows);
    for (const row of updates) this.#owed.delete(row.n);
    const room = maxRows - updates.length;
    const added = room === 0 ? [] : fresh.slice(-room);
    for (const row of added) this.#sent.add(row.n);
    this.#forgetOldSent();
    return this.#frame([...updates, ...added], fresh.length - added.length, unmatched, isCleared);
  }

  hasNews(): boolean {
    const { log } = this.#options;
    return (
      log.generation() !== this.#generation ||
      log.lastChange() !== this.#cursor ||
      this.#owed.size > 0 ||
      !sameCounters(this.#lastCounters, this.#counters())
    );
  }

  #take(row: Row, fresh: Row[], unmatched: number[]): void {
    const { matches } = this.#options;
    if (matches === undefined || matches(row)) {
      if (matches !== undefined) this.#matching.add(row.n);
      if (this.#sent.has(row.n)) this.#owed.set(row.n, row);
      else fresh.push(row);
      return;
    }
    this.#matching.delete(row.n);
    this.#owed.delete(row.n);
    if (this.#sent.delete(row.n)) unmatched.push(row.n);
  }

  #restart(): void {
    this.#cursor = 0;
    this.#generation = this.#options.log.generation();
    this.#matching = new Set();
    this.#sent = new Set();
    this.#owed = new Map();
  }

  /** The subscriber keeps its newest `limit` rows; what it has let go needs no updates. */
  #forgetOldSent(): void {
    const { limit } = this.#options;
    if (this.#sent.size <= limit) return;
    for (const n of this.#sent) {
      if (this.#sent.size <= limit) return;
      this.#sent.delete(n);
      this.#owed.delete(n);
    }
  }

  #counters(): RowCounters {
    const { log, matches } = this.#options;
    if (matches === undefined) return rowCounters(log, undefined);
    this.#forgetEvicted();
    return rowCounters(log, this.#matching.size);
  }

  /**
   * Rows leave the log in the order in which they finished, which their numbers do not tell; so what is left is looked
   * through, but at most once a second: in between, `matching` may still count rows evicted within that second.
   */
  #forgetEvicted(): void {
    const { log } = this.#options;
    const { evicted } = log.counters();
    const nowMs = performance.now();
    if (evicted === this.#prunedAtEvicted || nowMs < this.#prunedAtMs + PRUNE_INTERVAL_MS) return;
    this.#prunedAtEvicted = evicted;
    this.#prunedAtMs = nowMs;
    const left = new Set<number>();
    for (const n of log.numbers()) if (this.#matching.has(n)) left.add(n);
    this.#matching = left;
  }

  #frame(rows: readonly Row[], omitted: number, unmatched: readonly number[], isCleared = false): RowFrame<Row> {
    const counters = this.#counters();
    this.#lastCounters = counters;
    return { rows, counters, omitted, ...(unmatched.length > 0 && { unmatched }), ...(isCleared && { cleared: true }) };
  }
}

/**
 * Feed of a log whose rows never change (KV events): every change is one appended row, so change numbers alone tell
 * which rows are kept, `lastChange - kept` being the last one gone.
 */
import type { RowCounters } from '#shared/wire.ts';
import { rowCounters, sameCounters, SLICE_MS, type RowFeed, type RowFeedOptions, type RowFrame } from './row-feed.ts';

export class AppendFeed<Row> implements RowFeed<Row> {
  readonly #options: RowFeedOptions<Row>;
  /** Change number of the last row read. */
  #cursor = 0;
  #generation = 0;
  #lastCounters: RowCounters | undefined;
  /** Change numbers of the matching rows, ascending; those before `#matchedHead` are evicted. */
  #matched: number[] = [];
  #matchedHead = 0;

  constructor(options: RowFeedOptions<Row>) {
    this.#options = options;
  }

  *snapshot(): Generator<undefined, RowFrame<Row>, undefined> {
    const { log, matches, limit } = this.#options;
    this.#restart();
    if (matches === undefined) {
      this.#cursor = log.lastChange();
      const { kept } = log.counters();
      return this.#frame(Array.from(log.changedSince(this.#cursor - Math.min(limit, kept))), 0);
    }
    let tail: Row[] = [];
    while (this.#cursor < log.lastChange()) {
      if (log.generation() !== this.#generation) {
        this.#restart();
        tail = [];
      }
      this.#skipEvicted();
      this.#read(matches, tail);
      // Twice the limit before cutting, so that the cut is paid once per `limit` rows.
      if (tail.length > 2 * limit) tail = tail.slice(-limit);
      if (this.#cursor < log.lastChange()) yield undefined;
    }
    return this.#frame(tail.slice(-limit), 0);
  }

  delta(): RowFrame<Row> | undefined {
    if (!this.hasNews()) return undefined;
    const { log, matches, maxRows } = this.#options;
    const isCleared = log.generation() !== this.#generation;
    if (isCleared) {
      this.#restart();
      this.#skipEvicted();
    }
    const last = log.lastChange();
    if (matches === undefined) {
      const arrived = last - this.#cursor;
      const { kept } = log.counters();
      const rows = Array.from(log.changedSince(last - Math.min(arrived, kept, maxRows)));
      this.#cursor = last;
      return this.#frame(rows, arrived - rows.length, isCleared);
    }
    // Rows that were gone before anybody looked may have matched; they are owned up to, never passed over.
    const unread = this.#skipEvicted();
    const found: Row[] = [];
    this.#read(matches, found);
    const rows = found.slice(-maxRows);
    return this.#frame(rows, unread + found.length - rows.length, isCleared);
  }

  hasNews(): boolean {
    const { log } = this.#options;
    return log.generation() !== this.#generation || log.lastChange() !== this.#cursor || !sameCounters(this.#lastCounters, this.#counters());
  }

  #restart(): void {
    this.#cursor = 0;
    this.#generation = this.#options.log.generation();
    this.#matched = [];
    this.#matchedHead = 0;
  }

  /** Moves the cursor to the oldest kept row. Answers how many rows it passed. */
  #skipEvicted(): number {
    const { log } = this.#options;
    const oldest = Math.max(this.#cursor, log.lastChange() - log.counters().kept);
    const passed = oldest - this.#cursor;
    this.#cursor = oldest;
    return passed;
  }

  /** Reads on from the cursor for one slice of time, adding what matches. */
  #read(matches: (row: Row) => boolean, into: Row[]): void {
    const sliceEnd = performance.now() + SLICE_MS;
    for (const row of this.#options.log.changedSince(this.#cursor)) {
      this.#cursor += 1;
      if (matches(row)) {
        this.#matched.push(this.#cursor);
        into.push(row);
      }
      if (performance.now() > sliceEnd) return;
    }
  }

  #counters(): RowCounters {
    const { log, matches } = this.#options;
    if (matches === undefined) return rowCounters(log, undefined);
    const lastGone = log.lastChange() - log.counters().kept;
    while ((this.#matched[this.#matchedHead] ?? Number.POSITIVE_INFINITY) <= lastGone) this.#matchedHead += 1;
    if (this.#matchedHead > 4096 && this.#matchedHead * 2 > this.#matched.length) {
      this.#matched = this.#matched.slice(this.#matchedHead);
      this.#matchedHead = 0;
    }
    return rowCounters(log, this.#matched.length - this.#matchedHead);
  }

  #frame(rows: readonly Row[], omitted: number, isCleared = false): RowFrame<Row> {
    const counters = this.#counters();
    this.#lastCounters = counters;
    return { rows, counters, omitted, ...(isCleared && { cleared: true }) };
  }
}

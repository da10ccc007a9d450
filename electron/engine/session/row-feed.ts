/**
 * What one row subscription sends next. `snapshot` starts over; `delta` answers what happened since, or undefined when
 * nothing did. Both pull from the RowLog, so a subscriber that is not asked costs nothing but its filter.
 */
import type { RowCounters } from '#shared/wire.ts';
import type { RowLog } from '../row-log.ts';

export interface RowFrame<Row> {
  readonly rows: readonly Row[];
  readonly counters: RowCounters;
  readonly omitted: number;
  readonly cleared?: boolean;
  readonly unmatched?: readonly number[];
}

export interface RowFeed<Row> {
  /**
   * Reads history, a slice per `next()` so that a long filtered scan never holds the event loop, and returns the
   * snapshot. Starting another one abandons the first.
   */
  snapshot(): Generator<undefined, RowFrame<Row>, undefined>;
  delta(): RowFrame<Row> | undefined;
  /** Whether `delta` would answer a frame. */
  hasNews(): boolean;
}

export interface RowFeedOptions<Row> {
  readonly log: RowLog<Row>;
  /** Absent for the empty filter, which needs no look at the rows. */
  readonly matches?: (row: Row) => boolean;
  /** Rows the subscriber keeps. */
  readonly limit: number;
  /** Rows of one delta at most. */
  readonly maxRows: number;
}

/** How long one slice of a scan may hold the event loop, ms: below what anybody sees in a token's arrival. */
export const SLICE_MS = 4;

/** The ring's counters with the subscription's own. */
export function rowCounters<Row>(log: RowLog<Row>, matching: number | undefined): RowCounters {
  const { total, kept, evicted, dropped } = log.counters();
  return { total, kept, evicted, dropped, matching: Math.min(matching ?? kept, kept) };
}

export function sameCounters(a: RowCounters | undefined, b: RowCounters): boolean {
  return (
    a !== undefined &&
    a.total === b.total &&
    a.kept === b.kept &&
    a.evicted === b.evicted &&
    a.dropped === b.dropped &&
    a.matching === b.matching
  );
}

/** Yields whenever a slice of time is used up. Looks at the clock after each row: a filter may look through thousands of hashes of one. */
export function* sliced<Row>(rows: Iterable<Row>, each: (row: Row) => void): Generator<undefined, void, undefined> {
  let sliceEnd = performance.now() + SLICE_MS;
  for (const row of rows) {
    each(row);
    if (performance.now() > sliceEnd) {
      yield undefined;
      sliceEnd = performance.now() + SLICE_MS;
    }
  }
}

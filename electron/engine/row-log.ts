import type { RingCounters } from '#shared/state.ts';

/**
 * A bounded history that sessions read by pulling: writers on the hot path only advance numbers, and whoever shows the
 * rows asks at its own pace. Change numbers grow by one with every append and every change of a row, and never reset.
 */
export interface RowLog<Row> {
  counters(): RingCounters;
  /** The newest change number; 0 before the first row. */
  lastChange(): number;
  /** Rows appended or changed after change number `change` and still kept, in order of change, each at most once. */
  changedSince(change: number): Iterable<Row>;
  /** All kept rows, oldest first. */
  rows(): Iterable<Row>;
  /** Running numbers of all kept rows, oldest first, without making the rows. */
  numbers(): Iterable<number>;
  /** Grows by one with every `clear()`. */
  generation(): number;
  /** Forgets the rows (running requests stay). Answers how many. */
  clear(): number;
}

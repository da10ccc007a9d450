/** A RowLog in a few lines, obviously right and slow: what the feeds are tested against. */
import type { RowLog } from '#engine/row-log.ts';
import type { RingCounters } from '#shared/state.ts';

interface Entry<Row> {
  row: Row;
  change: number;
}

export class MemoryRowLog<Row extends { readonly n: number }> implements RowLog<Row> {
  readonly #capacity: number;
  #entries: Entry<Row>[] = [];
  #change = 0;
  #total = 0;
  #evicted = 0;
  #generation = 0;
  /** Rows handed out so far: what reading cost. */
  reads = 0;
  dropped = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  append(row: Row): void {
    this.#total += 1;
    this.#entries.push({ row, change: (this.#change += 1) });
    if (this.#entries.length > this.#capacity) {
      this.#entries.shift();
      this.#evicted += 1;
    }
  }

  change(row: Row): void {
    const entry = this.#entries.find((each) => each.row.n === row.n);
    if (entry === undefined) return;
    entry.row = row;
    entry.change = this.#change += 1;
  }

  counters(): RingCounters {
    return { kept: this.#entries.length, capacity: this.#capacity, total: this.#total, evicted: this.#evicted, dropped: this.dropped };
  }

  lastChange(): number {
    return this.#change;
  }

  *changedSince(change: number): Iterable<Row> {
    const changed = this.#entries.filter((entry) => entry.change > change).sort((a, b) => a.change - b.change);
    for (const { row } of changed) {
      this.reads += 1;
      yield row;
    }
  }

  *rows(): Iterable<Row> {
    for (const { row } of this.#entries) {
      this.reads += 1;
      yield row;
    }
  }

  *numbers(): Iterable<number> {
    for (const { row } of this.#entries) yield row.n;
  }

  generation(): number {
    return this.#generation;
  }

  clear(): number {
    const cleared = this.#entries.length;
    this.#entries = [];
    this.#generation += 1;
    return cleared;
  }
}

/** Runs a snapshot to its end. */
export function finish<T>(steps: Generator<undefined, T, undefined>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

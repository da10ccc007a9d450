/**
 * The history behind the KV events view: a ring of references to decoded events, capped in rows and in bytes. Rows are
 * made only when somebody reads them, so that recording an event costs a few writes. Rows never change after they were
 * appended, so the number of a row is its change number.
 */
import type { KvRow } from '#shared/kv.ts';
import type { RingCounters } from '#shared/state.ts';
import type { RowLog } from '../row-log.ts';
import { eventBytes, toRow, type RowEvent, type RowSource } from './kv-row.ts';

export interface KvRowLogOptions {
  readonly capacity: number;
  /** Decoded events kept, about, bytes. */
  readonly maxBytes: number;
  /** Messages lost to overload so far, for the counters. */
  readonly dropped: () => number;
}

export class KvRowLog implements RowLog<KvRow> {
  readonly #options: KvRowLogOptions;
  readonly #events: (RowEvent | undefined)[];
  readonly #sources: (RowSource | undefined)[];
  #bytes = 0;
  /** Number of the newest row. */
  #last = 0;
  #kept = 0;
  #evicted = 0;
  #generation = 0;

  constructor(options: KvRowLogOptions) {
    this.#options = options;
    this.#events = Array.from({ length: options.capacity });
    this.#sources = Array.from({ length: options.capacity });
  }

  append(source: RowSource, event: RowEvent): void {
    const bytes = eventBytes(event);
    while (this.#kept > 0 && (this.#kept >= this.#options.capacity || this.#bytes + bytes > this.#options.maxBytes)) {
      this.#dropOldest();
      this.#evicted += 1;
    }
    this.#last += 1;
    this.#kept += 1;
    this.#bytes += bytes;
    const index = this.#last % this.#options.capacity;
    this.#events[index] = event;
    this.#sources[index] = source;
  }

  counters(): RingCounters {
    return {
      kept: this.#kept,
      capacity: this.#options.capacity,
      total: this.#last,
      evicted: this.#evicted,
      dropped: this.#options.dropped(),
    };
  }

  lastChange(): number {
    return this.#last;
  }

  *changedSince(change: number): Generator<KvRow> {
    const last = this.#last;
    for (let n = Math.max(change, last - this.#kept) + 1; n <= last; n += 1) {
      const index = n % this.#options.capacity;
      const event = this.#events[index];
      const source = this.#sources[index];
      if (event !== undefined && source !== undefined) yield toRow(n, source, event);
    }
  }

  rows(): Iterable<KvRow> {
    return this.changedSince(0);
  }

  generation(): number {
    return this.#generation;
  }

  clear(): number {
    const cleared = this.#kept;
    while (this.#kept > 0) this.#dropOldest();
    this.#generation += 1;
    return cleared;
  }

  #dropOldest(): void {
    const index = (this.#last - this.#kept + 1) % this.#options.capacity;
    const event = this.#events[index];
    if (event !== undefined) this.#bytes -= eventBytes(event);
    this.#events[index] = undefined;
    this.#sources[index] = undefined;
    this.#kept -= 1;
  }
}

/** Seals the records that are due, a slice of time at once and the next in between what else there is to do. */
import type { Clock } from './clock.ts';
import type { RecordStore } from './record-store.ts';

/** Longest time that sealing holds the event loop, ms, and how often it may after one call. */
const SLICE_MS = 0.5;
const SLICES = 8;

export class RecordSealer {
  readonly #store: RecordStore;
  readonly #clock: Clock;
  #next: NodeJS.Immediate | undefined;

  constructor(store: RecordStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  run(slices = SLICES): void {
    if (!this.#store.seal(this.#clock.now() + SLICE_MS) || slices <= 1 || this.#next !== undefined) return;
    this.#next = setImmediate(() => {
      this.#next = undefined;
      this.run(slices - 1);
    });
  }

  close(): void {
    clearImmediate(this.#next);
  }
}

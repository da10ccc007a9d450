/**
 * When each write to the client happened, how large it was and how many SSE events it completed. Grows in typed arrays
 * to a cap; beyond it the oldest entries are overwritten and counted. One push costs three stores.
 */

const FIRST_CAPACITY = 16;
/** Writes kept per request; 48 KB. A power of two. */
export const MAX_CHUNKS = 4096;
const MASK = MAX_CHUNKS - 1;
/** Microseconds in 32 bits: 71 minutes from `received`. Later writes are counted as dropped. */
const MAX_US = 2 ** 32 - 1;
const STRIDE = 3;

export class ChunkLog {
  /** Microseconds, bytes and events of each write. One array: a typed array costs more than what is in a short one. */
  #entries = new Uint32Array(FIRST_CAPACITY * STRIDE);
  /** Writes ever stored. Entry i is at `i & MASK`. */
  #total = 0;
  #tooLate = 0;

  /** Writes stored, the overwritten ones included. */
  get total(): number {
    return this.#total;
  }

  /** Writes that are not kept. */
  get dropped(): number {
    return this.#tooLate + Math.max(0, this.#total - MAX_CHUNKS);
  }

  /** Index of the oldest entry kept. */
  get first(): number {
    return Math.max(0, this.#total - MAX_CHUNKS);
  }

  get byteLength(): number {
    return this.#entries.byteLength;
  }

  push(atMs: number, bytes: number, events: number): void {
    const us = Math.round(atMs * 1000);
    if (us > MAX_US) {
      this.#tooLate += 1;
      return;
    }
    if (this.#total * STRIDE === this.#entries.length && this.#total < MAX_CHUNKS) this.#grow();
    const entries = this.#entries;
    const at = (this.#total & MASK) * STRIDE;
    entries[at] = us;
    entries[at + 1] = bytes;
    entries[at + 2] = events;
    this.#total += 1;
  }

  /** Milliseconds from `received` of entry `index` (first..total-1). */
  timeMs(index: number): number {
    return (this.#entries[(index & MASK) * STRIDE] ?? 0) / 1000;
  }

  bytes(index: number): number {
    return this.#entries[(index & MASK) * STRIDE + 1] ?? 0;
  }

  events(index: number): number {
    return this.#entries[(index & MASK) * STRIDE + 2] ?? 0;
  }

  /** Gives back the room that a finished request will not use. */
  trim(): void {
    const used = this.#total * STRIDE;
    if (used < this.#entries.length) this.#entries = this.#entries.slice(0, used);
  }

  #grow(): void {
    const grown = new Uint32Array(Math.min(MAX_CHUNKS * STRIDE, this.#entries.length * 2));
    grown.set(this.#entries);
    this.#entries = grown;
  }
}

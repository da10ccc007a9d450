/**
 * When each write to the client happened, how large it was and how many SSE events it completed. Grows in typed arrays
 * to a cap; beyond it the oldest entries are overwritten and counted. One push costs three stores.
 */

const FIRST_CAPACITY = 16;
/** Writes kept per request; 40 KB. A power of two. */
export const MAX_CHUNKS = 4096;
const MASK = MAX_CHUNKS - 1;
/** Microseconds in 32 bits: 71 minutes from `received`. Later writes are counted as dropped. */
const MAX_US = 2 ** 32 - 1;
const MAX_EVENTS = 2 ** 16 - 1;

export class ChunkLog {
  #timesUs = new Uint32Array(FIRST_CAPACITY);
  #bytes = new Uint32Array(FIRST_CAPACITY);
  #events = new Uint16Array(FIRST_CAPACITY);
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
    return this.#timesUs.byteLength + this.#bytes.byteLength + this.#events.byteLength;
  }

  push(atMs: number, bytes: number, events: number): void {
    const us = Math.round(atMs * 1000);
    if (us > MAX_US) {
      this.#tooLate += 1;
      return;
    }
    if (this.#total === this.#timesUs.length && this.#total < MAX_CHUNKS) this.#grow();
    const slot = this.#total & MASK;
    this.#timesUs[slot] = us;
    this.#bytes[slot] = bytes;
    this.#events[slot] = Math.min(events, MAX_EVENTS);
    this.#total += 1;
  }

  /** Milliseconds from `received` of entry `index` (first..total-1). */
  timeMs(index: number): number {
    return (this.#timesUs[index & MASK] ?? 0) / 1000;
  }

  bytes(index: number): number {
    return this.#bytes[index & MASK] ?? 0;
  }

  events(index: number): number {
    return this.#events[index & MASK] ?? 0;
  }

  /** Gives back the room that a finished request will not use. */
  trim(): void {
    if (this.#total >= this.#timesUs.length) return;
    this.#timesUs = this.#timesUs.slice(0, this.#total);
    this.#bytes = this.#bytes.slice(0, this.#total);
    this.#events = this.#events.slice(0, this.#total);
  }

  #grow(): void {
    const capacity = Math.min(MAX_CHUNKS, this.#timesUs.length * 2);
    this.#timesUs = grown(this.#timesUs, new Uint32Array(capacity));
    this.#bytes = grown(this.#bytes, new Uint32Array(capacity));
    this.#events = grown(this.#events, new Uint16Array(capacity));
  }
}

function grown<T extends Uint32Array | Uint16Array>(from: T, into: T): T {
  into.set(from);
  return into;
}

/**
 * Token ids of recent events beyond those that their rows show, for filters: one block of words, written round and round.
 * A place is a running number, so that it tells by itself when it was written over. Reserved at the first use, touched as it fills.
 */
import type { WordRun } from './word-run.ts';

export class TokenTails {
  readonly #capacity: number;
  #words: Uint32Array | undefined;
  /** Words ever written, and those skipped at the end of a round. */
  #written = 0;

  /** @param capacity words. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Copies `tokens` from `from` on. Answers their place; -1 when there are none, or more than all the room. */
  add(tokens: WordRun, from: number): number {
    const length = tokens.length - from;
    if (length <= 0 || length > this.#capacity) return -1;
    const words = (this.#words ??= new Uint32Array(this.#capacity));
    const left = this.#capacity - (this.#written % this.#capacity);
    if (left < length) this.#written += left;
    const place = this.#written;
    words.set(tokens.words.subarray(tokens.start + from, tokens.start + tokens.length), place % this.#capacity);
    this.#written += length;
    return place;
  }

  /** A view, valid until the next `add`; undefined when they were written over. */
  read(place: number, length: number): Uint32Array | undefined {
    if (place < 0 || place < this.#written - this.#capacity || this.#words === undefined) return undefined;
    const start = place % this.#capacity;
    return this.#words.subarray(start, start + length);
  }

  /** Gives the memory back; every place is void from now on. */
  clear(): void {
    this.#words = undefined;
    this.#written += this.#capacity;
  }
}

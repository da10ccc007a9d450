/**
 * Words of events: runs of arrays that many runs share. An array of its own for every list of hashes and tokens costs an
 * event of one block more than reading it, and most of its garbage.
 *
 * What is in a run does not change until its slab is told to begin anew, which whoever applies events does after each batch:
 * who wants to keep words copies them. Without that, every few batches would leave a slab to the garbage collector, to which
 * memory outside of the heap is a reason to collect all of it.
 */
export interface WordRun {
  readonly words: Uint32Array;
  /** Where in `words` the run begins. */
  readonly start: number;
  /** Words in it. */
  readonly length: number;
}

const SLAB_WORDS = 16_384;
/** Longer runs get an array of their own, so that little of a slab is wasted. */
const MAX_CUT_WORDS = SLAB_WORDS / 4;

export const NO_WORDS: WordRun = runOf(new Uint32Array(0));

/** All of an array. */
export function runOf(words: Uint32Array): WordRun {
  return { words, start: 0, length: words.length };
}

/** A copy of the first `count` words. */
export function copyOfRun({ words, start, length }: WordRun, count = length): Uint32Array {
  return words.slice(start, start + Math.min(count, length));
}

/** Where runs are cut from. */
export class WordSlab {
  #words = new Uint32Array(SLAB_WORDS);
  #used = 0;

  /** A run for whoever takes it to fill; what is in it is of before. */
  take(length: number): WordRun {
    if (length > MAX_CUT_WORDS) return runOf(new Uint32Array(length));
    if (this.#used + length > SLAB_WORDS) {
      this.#words = new Uint32Array(SLAB_WORDS);
      this.#used = 0;
    }
    const start = this.#used;
    this.#used += length;
    return { words: this.#words, start, length };
  }

  /** Lets the runs cut so far be written over. */
  reuse(): void {
    this.#used = 0;
  }
}

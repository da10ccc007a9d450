/**
 * Runs of 32-bit words of any length up to a chunk, in a few large typed arrays: nothing for the garbage collector to
 * walk. Made for records that are let go in about the order they came, as a ring does; then chunks go round.
 *
 * Invariants: a run never crosses the border of its chunk; every chunk is being filled, or holds runs in use, or is
 * free to be filled again, so what was freed is used before more is taken. A reference is a chunk's number and an
 * offset in 32 bits, which ends at 65,536 chunks (16 GiB): owners bound their bytes far below.
 */
import type { WordRun } from './word-run.ts';

const OFFSET_BITS = 16;
const OFFSET_MASK = 2 ** OFFSET_BITS - 1;

/** Words in a chunk, and the longest run; 256 KB, whose pages the system provides as they are first written. */
export const CHUNK_WORDS = 2 ** OFFSET_BITS;

interface Chunk {
  readonly index: number;
  readonly words: Uint32Array;
  /** Runs in use. */
  runs: number;
}

export class WordArena {
  #chunks: Chunk[] = [];
  #free: Chunk[] = [];
  #current: Chunk | undefined;
  /** Where the next word goes in the current chunk. */
  #cursor = 0;

  /** Bytes of all chunks, whether written or not. */
  get bytes(): number {
    return this.#chunks.length * CHUNK_WORDS * 4;
  }

  /** Opens a run of `length` words, to be filled by `push`. Answers its reference. */
  open(length: number): number {
    let chunk = this.#current;
    if (chunk === undefined || this.#cursor + length > CHUNK_WORDS) {
      chunk = this.#nextChunk(chunk);
      this.#current = chunk;
      this.#cursor = 0;
    }
    chunk.runs += 1;
    return chunk.index * CHUNK_WORDS + this.#cursor;
  }

  /** Appends the first `count` words of `source` to the run opened last. */
  push(source: WordRun, count: number): void {
    const words = this.#current?.words;
    if (words === undefined) throw new Error('no run of words is open');
    const at = this.#cursor;
    const { words: from, start } = source;
    for (let index = 0; index < count; index += 1) words[at + index] = from[start + index] ?? 0;
    this.#cursor = at + count;
  }

  /** The words of a run: a view, valid until the run is released. */
  read(reference: number, length: number): Uint32Array {
    const offset = reference & OFFSET_MASK;
    return this.#chunkOf(reference).words.subarray(offset, offset + length);
  }

  /** Gives a run back. Its words may be overwritten from now on. */
  release(reference: number): void {
    const chunk = this.#chunkOf(reference);
    chunk.runs -= 1;
    if (chunk.runs === 0 && chunk !== this.#current) this.#free.push(chunk);
  }

  /** Gives everything back, to the system too. */
  clear(): void {
    this.#chunks = [];
    this.#free = [];
    this.#current = undefined;
    this.#cursor = 0;
  }

  /** `full` has no room left; without runs in use it may be filled anew at once. */
  #nextChunk(full: Chunk | undefined): Chunk {
    if (full?.runs === 0) return full;
    const free = this.#free.pop();
    if (free !== undefined) return free;
    const chunk: Chunk = { index: this.#chunks.length, words: new Uint32Array(CHUNK_WORDS), runs: 0 };
    this.#chunks.push(chunk);
    return chunk;
  }

  #chunkOf(reference: number): Chunk {
    const chunk = this.#chunks[reference >>> OFFSET_BITS];
    if (chunk === undefined) throw new Error(`run ${reference} was never given out`);
    return chunk;
  }
}

/**
 * Counts the groups on the GPU that have a block, until all have it that the engine's prefix cache needs for a hit, by what
 * the engine told (vllm/v1/core/block_pool.py, get_cached_block). A group counts once: it may have several hashes of the
 * same content, where these tell apart what events do not, such as pictures.
 */
import { isNeeded, type Residency } from './residency.ts';
import type { StreamBlocks } from './stream-blocks.ts';

export class HeldGroups {
  /** Groups that must all have a block; 0 where kinds are not told, and any will do. */
  readonly needed: number;
  readonly #epoch: number;
  /** Numbers of the residencies that have the block looked at, the first `#count`. Emptied by counting: an array that is cut is made anew when it grows. */
  readonly #found: number[] = [];
  #count = 0;
  #block = -1;

  /** Of blocks of one size. */
  constructor(stream: StreamBlocks, blockSize: number) {
    this.needed = stream.neededGroups(blockSize);
    this.#epoch = stream.epoch;
  }

  /** A residency on the GPU has block `block`. Answers whether all groups have it now. */
  add(residency: Residency, block: number): boolean {
    if (this.needed === 0) return true;
    if (!isNeeded(residency, this.#epoch)) return false;
    if (block !== this.#block) {
      this.#block = block;
      this.#count = 0;
    }
    if (!this.#has(residency.number)) {
      this.#found[this.#count] = residency.number;
      this.#count += 1;
    }
    return this.#count >= this.needed;
  }

  #has(residency: number): boolean {
    for (let at = 0; at < this.#count; at += 1) if (this.#found[at] === residency) return true;
    return false;
  }
}

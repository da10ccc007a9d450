/**
 * Cache hits as far as stores alone show them. vLLM says nothing when a request finds blocks in the cache, but where a
 * block is stored after a parent that another block follows already, a second request came that way: what lies before
 * the branch was found, or computed twice and then stored twice too. A request that goes on from the end of a known chain
 * looks like the one that stored it, so the count is a lower bound.
 *
 * Bounded: beyond the capacity all chains are forgotten, and later branches from them are missed. Keys are 53 bits of
 * the hash: among a million blocks a collision is one chance in 10,000, which an estimate can bear.
 */
import { hashCount, highWord, lowWord, type BlockHashes } from './block-hashes.ts';
import type { KvEvent, RemovedEvent, StoredEvent } from './kv-event.ts';
import { isPairedKind, normaliseMedium } from '../kv-index/residency.ts';

/** Blocks before and including this one, and whether another follows. */
interface Place {
  readonly depth: number;
  hasNext: boolean;
  /** Stores minus removals: engines store the same hash twice and remove it twice. */
  copies: number;
}

export class ReuseEstimate {
  /** Blocks before branches, each time a branch began. */
  branchedBlocks = 0;
  /** Stores that continue a block not held: normal after a late join or a gap. Not counted once chains were forgotten here. */
  unknownParents = 0;

  readonly #capacity: number;
  /** Chains were forgotten for lack of room: what continues them says nothing about the input. */
  #isCut = false;
  readonly #places = new Map<number, Place>();

  /** `capacity`: blocks followed at once. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Takes the events of one rank in order. */
  add(event: KvEvent): void {
    if (event.kind === 'stored') this.#stored(event);
    else if (event.kind === 'cleared') this.reset();
    else if (event.kind === 'removed' && normaliseMedium(event.medium) === 'GPU') this.#removed(event);
  }

  /** The engine started anew. */
  reset(): void {
    this.#isCut = false;
    this.#places.clear();
  }

  /** A block computed anew after its eviction is no hit: its chain has to be told again. */
  #removed({ hashes }: RemovedEvent): void {
    for (let index = 0; index < hashCount(hashes); index += 1) {
      const key = keyOf(hashes, index);
      const place = this.#places.get(key);
      if (place === undefined) continue;
      place.copies -= 1;
      if (place.copies === 0) this.#places.delete(key);
    }
  }

  #stored(event: StoredEvent): void {
    const { hashes } = event;
    const count = hashCount(hashes);
    // Groups that skip blocks, and copies in other tiers, follow no request.
    if (count === 0 || !isPairedKind(event.specKind) || normaliseMedium(event.medium) !== 'GPU') return;
    let before = event.parent === undefined ? undefined : this.#places.get(keyOf(event.parent, 0));
    if (event.parent !== undefined && before === undefined) {
      // Its depth is not known.
      if (!this.#isCut) this.unknownParents += 1;
      return;
    }
    const isNew = !this.#places.has(keyOf(hashes, 0));
    if (isNew && before?.hasNext === true) this.branchedBlocks += before.depth;
    for (let index = 0; index < count; index += 1) {
      if (before !== undefined) before.hasNext = true;
      const key = keyOf(hashes, index);
      let place = this.#places.get(key);
      if (place === undefined) {
        if (this.#places.size >= this.#capacity) {
          this.#places.clear();
          this.#isCut = true;
        }
        place = { depth: (before?.depth ?? 0) + 1, hasNext: false, copies: 0 };
        this.#places.set(key, place);
      }
      place.copies += 1;
      before = place;
    }
  }
}

function keyOf(hashes: BlockHashes, index: number): number {
  return (highWord(hashes, index) & 0x1f_ffff) * 0x1_0000_0000 + lowWord(hashes, index);
}

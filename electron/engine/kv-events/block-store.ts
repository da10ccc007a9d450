/**
 * Resident blocks of all streams, a million by default, in typed arrays: one slot per block, found by a chained hash
 * table whose buckets never grow, so that no store ever waits for a rehash and the garbage collector has nothing to
 * walk. Memory is reserved at once and touched only as it fills (about 130 bytes a block of 16 tokens).
 *
 * Blocks belong to an owner (one residency of one stream). Forgetting an owner is immediate whatever it holds: its
 * slots become a graveyard that later stores reap a few at a time. When full, the oldest block goes, and is counted.
 * Invariants: every used slot is in its bucket's chain and in its owner's list; every owner's count is its list's
 * length; the age list holds all used slots, oldest first. Slot 0 means none.
 */
import { TokenPool, NO_TOKENS } from './token-pool.ts';

export interface BlockStoreOptions {
  readonly capacity: number;
  /** For token ids; beyond it blocks are kept without them. */
  readonly tokenBytes: number;
}

/** What is known about a block when it is first stored. */
export interface BlockFacts {
  readonly blockSize: number;
  readonly atUnixMs: number;
  /** Words of the parent's key; absent when unknown or none. */
  readonly parent: readonly [number, number] | undefined;
  readonly digest: string | undefined;
  readonly parentDigest: string | undefined;
  /** Tokens of the block begin at this offset; absent when they are not known block by block. */
  readonly tokens: Uint32Array | undefined;
  readonly tokenOffset: number;
}

export interface Owner {
  readonly id: number;
  /** Blocks held. */
  readonly count: number;
}

interface OwnerState {
  readonly id: number;
  count: number;
  head: number;
  tail: number;
}

/** Reaped with every store: more than one, so that a graveyard shrinks while the store fills. */
const REAPED_PER_STORE = 4;

export class BlockStore {
  readonly capacity: number;
  /** Blocks displaced by newer ones since start. */
  evicted = 0;

  readonly #tokens: TokenPool;
  readonly #buckets: Int32Array;
  readonly #mask: number;
  readonly #seed = Math.floor(Math.random() * 0xffff_ffff);
  readonly #high: Uint32Array;
  readonly #low: Uint32Array;
  readonly #parentHigh: Uint32Array;
  readonly #parentLow: Uint32Array;
  readonly #hasParent: Uint8Array;
  readonly #copies: Uint32Array;
  readonly #stores: Uint32Array;
  readonly #storedAt: Float64Array;
  readonly #owner: Uint32Array;
  readonly #blockSize: Uint32Array;
  readonly #token: Uint32Array;
  /** Next in the bucket's chain; for a free slot, the next free one. */
  readonly #chain: Int32Array;
  readonly #older: Int32Array;
  readonly #newer: Int32Array;
  readonly #ownerPrev: Int32Array;
  readonly #ownerNext: Int32Array;
  /** Whole digests, only for engines that publish bytes. */
  readonly #digests: (string | undefined)[] = [];
  readonly #parentDigests: (string | undefined)[] = [];

  readonly #owners = new Map<number, OwnerState>();
  readonly #graveyard: OwnerState[] = [];
  #lastOwner = 0;
  #oldest = 0;
  #newest = 0;
  #free = 0;
  #used = 0;
  #live = 0;

  constructor(options: BlockStoreOptions) {
    const size = options.capacity + 1;
    const buckets = 2 ** Math.ceil(Math.log2(Math.max(2, options.capacity)));
    this.capacity = options.capacity;
    this.#tokens = new TokenPool(options.tokenBytes);
    this.#mask = buckets - 1;
    this.#buckets = new Int32Array(buckets);
    this.#high = new Uint32Array(size);
    this.#low = new Uint32Array(size);
    this.#parentHigh = new Uint32Array(size);
    this.#parentLow = new Uint32Array(size);
    this.#hasParent = new Uint8Array(size);
    this.#copies = new Uint32Array(size);
    this.#stores = new Uint32Array(size);
    this.#storedAt = new Float64Array(size);
    this.#owner = new Uint32Array(size);
    this.#blockSize = new Uint32Array(size);
    this.#token = new Uint32Array(size);
    this.#chain = new Int32Array(size);
    this.#older = new Int32Array(size);
    this.#newer = new Int32Array(size);
    this.#ownerPrev = new Int32Array(size);
    this.#ownerNext = new Int32Array(size);
  }

  /** Blocks of all owners that were not retired. */
  get size(): number {
    return this.#live;
  }

  /** Bytes reserved for token ids. */
  get tokenBytes(): number {
    return this.#tokens.bytes;
  }

  createOwner(): Owner {
    this.#lastOwner += 1;
    const owner = { id: this.#lastOwner, count: 0, head: 0, tail: 0 };
    this.#owners.set(owner.id, owner);
    return owner;
  }

  /** Adds a copy of a block. `facts` count when it is the first. */
  store(owner: Owner, high: number, low: number, facts: BlockFacts): void {
    const found = this.find(owner, high, low);
    if (found !== 0) {
      this.#copies[found] = (this.#copies[found] ?? 0) + 1;
      this.#stores[found] = (this.#stores[found] ?? 0) + 1;
      return;
    }
    this.reap(REAPED_PER_STORE);
    const state = this.#stateOf(owner);
    const slot = this.#takeSlot();
    const bucket = this.#bucket(owner.id, high, low);
    this.#high[slot] = high;
    this.#low[slot] = low;
    this.#owner[slot] = owner.id;
    this.#copies[slot] = 1;
    this.#stores[slot] = 1;
    this.#storedAt[slot] = facts.atUnixMs;
    this.#blockSize[slot] = facts.blockSize;
    this.#hasParent[slot] = facts.parent === undefined ? 0 : 1;
    this.#parentHigh[slot] = facts.parent?.[0] ?? 0;
    this.#parentLow[slot] = facts.parent?.[1] ?? 0;
    this.#token[slot] = facts.tokens === undefined ? NO_TOKENS : this.#tokens.put(facts.tokens, facts.tokenOffset, facts.blockSize);
    if (facts.digest !== undefined) this.#digests[slot] = facts.digest;
    if (facts.parentDigest !== undefined) this.#parentDigests[slot] = facts.parentDigest;
    this.#chain[slot] = this.#buckets[bucket] ?? 0;
    this.#buckets[bucket] = slot;
    this.#linkNewest(slot, state);
    this.#live += 1;
  }

  /** Takes a copy away. False when the owner has no such block. */
  remove(owner: Owner, high: number, low: number): boolean {
    const slot = this.find(owner, high, low);
    if (slot === 0) return false;
    const copies = this.#copies[slot] ?? 1;
    if (copies > 1) this.#copies[slot] = copies - 1;
    else this.#drop(slot, this.#stateOf(owner));
    return true;
  }

  /** Forgets an owner and all its blocks, in constant time. The owner must not be used again. */
  retire(owner: Owner): void {
    const state = this.#stateOf(owner);
    this.#owners.delete(owner.id);
    this.#live -= state.count;
    if (state.count > 0) this.#graveyard.push(state);
  }

  /** Frees up to `limit` slots of retired owners. Answers how many remain to be freed. */
  reap(limit: number): number {
    for (let left = limit; left > 0; left -= 1) {
      const grave = this.#graveyard.at(-1);
      if (grave === undefined) return 0;
      this.#unlink(grave.head, grave);
      if (grave.count === 0) this.#graveyard.pop();
    }
    return this.#graveyard.reduce((sum, grave) => sum + grave.count, 0);
  }

  /** The slot of a block, or 0. Valid until the next change. */
  find(owner: Owner, high: number, low: number): number {
    let slot = this.#buckets[this.#bucket(owner.id, high, low)] ?? 0;
    while (slot !== 0) {
      if (this.#low[slot] === low && this.#high[slot] === high && this.#owner[slot] === owner.id) return slot;
      slot = this.#chain[slot] ?? 0;
    }
    return 0;
  }

  /** Slots of an owner, newest first. Do not change the store while iterating. */
  *slotsOf(owner: Owner): Generator<number> {
    for (let slot = this.#stateOf(owner).tail; slot !== 0; slot = this.#ownerPrev[slot] ?? 0) yield slot;
  }

  /** Slots of all owners but retired ones, newest first. Do not change the store while iterating. */
  *slots(): Generator<number> {
    for (let slot = this.#newest; slot !== 0; slot = this.#older[slot] ?? 0) if (this.#owners.has(this.#owner[slot] ?? 0)) yield slot;
  }

  /** Everything known about the block in a slot. */
  read(slot: number): {
    readonly high: number; readonly low: number; readonly digest: string | undefined; readonly owner: number;
    readonly copies: number; readonly stores: number; readonly storedAtUnixMs: number; readonly blockSize: number;
    readonly parent: readonly [number, number] | undefined; readonly parentDigest: string | undefined; readonly tokens: number[] | undefined;
  } {
    const blockSize = this.#blockSize[slot] ?? 0;
    return {
      high: this.#high[slot] ?? 0,
      low: this.#low[slot] ?? 0,
      digest: this.#digests[slot],
      owner: this.#owner[slot] ?? 0,
      copies: this.#copies[slot] ?? 0,
      stores: this.#stores[slot] ?? 0,
      storedAtUnixMs: this.#storedAt[slot] ?? 0,
      blockSize,
      parent: this.#hasParent[slot] === 1 ? [this.#parentHigh[slot] ?? 0, this.#parentLow[slot] ?? 0] : undefined,
      parentDigest: this.#parentDigests[slot],
      tokens: this.#tokens.get(this.#token[slot] ?? NO_TOKENS, blockSize),
    };
  }

  /** The cheap part of `read`, for searches. */
  keyOf(slot: number): { readonly high: number; readonly low: number; readonly digest: string | undefined } {
    return { high: this.#high[slot] ?? 0, low: this.#low[slot] ?? 0, digest: this.#digests[slot] };
  }

  #stateOf(owner: Owner): OwnerState {
    const state = this.#owners.get(owner.id);
    if (state === undefined) throw new Error(`owner ${owner.id} of blocks was retired`);
    return state;
  }

  #bucket(owner: number, high: number, low: number): number {
    let mixed = Math.imul(low ^ this.#seed, 0x9e37_79b1) ^ Math.imul(high, 0x85eb_ca6b) ^ Math.imul(owner, 0xc2b2_ae35);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b_3c6d);
    return (mixed ^ (mixed >>> 13)) & this.#mask;
  }

  #takeSlot(): number {
    if (this.#free !== 0) {
      const slot = this.#free;
      this.#free = this.#chain[slot] ?? 0;
      return slot;
    }
    if (this.#used < this.capacity) {
      this.#used += 1;
      return this.#used;
    }
    // No free slot means an empty graveyard too: every store reaps before it takes.
    const owner = this.#owners.get(this.#owner[this.#oldest] ?? 0);
    if (owner === undefined) throw new Error('a retired block outlived the graveyard');
    this.#drop(this.#oldest, owner);
    this.evicted += 1;
    return this.#takeSlot();
  }

  #drop(slot: number, owner: OwnerState): void {
    this.#unlink(slot, owner);
    this.#live -= 1;
  }

  #linkNewest(slot: number, owner: OwnerState): void {
    this.#older[slot] = this.#newest;
    this.#newer[slot] = 0;
    if (this.#newest === 0) this.#oldest = slot;
    else this.#newer[this.#newest] = slot;
    this.#newest = slot;
    this.#ownerPrev[slot] = owner.tail;
    this.#ownerNext[slot] = 0;
    if (owner.tail === 0) owner.head = slot;
    else this.#ownerNext[owner.tail] = slot;
    owner.tail = slot;
    owner.count += 1;
  }

  #unlink(slot: number, owner: OwnerState): void {
    const older = this.#older[slot] ?? 0;
    const newer = this.#newer[slot] ?? 0;
    if (older === 0) this.#oldest = newer;
    else this.#newer[older] = newer;
    if (newer === 0) this.#newest = older;
    else this.#older[newer] = older;
    const prev = this.#ownerPrev[slot] ?? 0;
    const next = this.#ownerNext[slot] ?? 0;
    if (prev === 0) owner.head = next;
    else this.#ownerNext[prev] = next;
    if (next === 0) owner.tail = prev;
    else this.#ownerPrev[next] = prev;
    owner.count -= 1;
    this.#unchain(slot);
    this.#tokens.free(this.#token[slot] ?? NO_TOKENS, this.#blockSize[slot] ?? 0);
    if (this.#digests[slot] !== undefined) this.#digests[slot] = undefined;
    if (this.#parentDigests[slot] !== undefined) this.#parentDigests[slot] = undefined;
    this.#chain[slot] = this.#free;
    this.#free = slot;
  }

  #unchain(slot: number): void {
    const bucket = this.#bucket(this.#owner[slot] ?? 0, this.#high[slot] ?? 0, this.#low[slot] ?? 0);
    const first = this.#buckets[bucket] ?? 0;
    if (first === slot) {
      this.#buckets[bucket] = this.#chain[slot] ?? 0;
      return;
    }
    let at = first;
    while (this.#chain[at] !== slot) at = this.#chain[at] ?? 0;
    this.#chain[at] = this.#chain[slot] ?? 0;
  }
}

/**
 * Columns of the table of holdings (holding-table.ts): what is known of one block in one residency, in typed arrays.
 * One cache line per slot holds what queries walk; what is looked at one block at a time lies apart.
 */

/** Why a block is no longer held. */
export type EndReason = 'removed' | 'restart' | 'cleared' | 'detached';

export const REASONS: readonly (EndReason | undefined)[] = [undefined, 'removed', 'restart', 'cleared', 'detached'];
export const EVICTED = REASONS.indexOf('removed');

/** Words per slot: one cache line, as queries walk many. */
export const STRIDE = 16;
export const HIGH = 0;
export const LOW = 1;
/** For slot-table.ts; of a free slot, the next free one. */
export const CHAIN = 2;
export const RESIDENCY = 3;
export const ERA = 4;
export const NODE = 5;
export const NODE_NEXT = 6;
export const NODE_PREV = 7;
export const OLDER = 8;
export const NEWER = 9;
export const ERA_PREV = 10;
export const ERA_NEXT = 11;
export const COPIES = 12;
export const STORES = 13;
export const META = 14;
export const RETURNS = 15;

export const COLD_STRIDE = 4;
export const BY_HIGH = 0;
export const BY_LOW = 1;
export const EPOCH = 2;
export const HITS = 3;

export const TIMES = 4;
export const FROM = 0;
export const TO = 1;
export const PREV_FROM = 2;
export const PREV_TO = 3;

/** META: why the last interval ended, why the one before, and flags. */
export const REASON_MASK = 7;
export const PREV_SHIFT = 3;
export const HAS_PREV = 1 << 6;
export const IS_PENDING = 1 << 7;
export const HAS_DISPLACER = 1 << 8;
export const WAS_STORED = 1 << 9;
/** What is noted as displacer displaced the block at the end of the interval before the last. */
export const IS_PREV_DISPLACER = 1 << 10;

/** Reads and writes single facts; how slots hang together is the table's business. */
export class HoldingColumns {
  readonly capacity: number;

  protected readonly words: Uint32Array;
  protected readonly cold: Uint32Array;
  protected readonly times: Float64Array;
  /** Whole digests, only for engines that publish bytes. */
  protected readonly digests: (string | undefined)[] = [];

  constructor(capacity: number) {
    this.capacity = capacity;
    this.words = new Uint32Array((capacity + 1) * STRIDE);
    this.cold = new Uint32Array((capacity + 1) * COLD_STRIDE);
    this.times = new Float64Array((capacity + 1) * TIMES);
  }

  setCopies(slot: number, copies: number): void {
    this.words[slot * STRIDE + COPIES] = copies;
  }

  /** Has copies, though its era may be over. */
  isOpen(slot: number): boolean {
    return (this.words[slot * STRIDE + COPIES] ?? 0) > 0;
  }

  /** Was stored at least once; false for a hash that only a child named as its parent. */
  hasHistory(slot: number): boolean {
    return ((this.words[slot * STRIDE + META] ?? 0) & WAS_STORED) !== 0;
  }

  residencyOf(slot: number): number {
    return this.words[slot * STRIDE + RESIDENCY] ?? 0;
  }

  nodeOf(slot: number): number {
    return this.words[slot * STRIDE + NODE] ?? 0;
  }

  nextOfNode(slot: number): number {
    return this.words[slot * STRIDE + NODE_NEXT] ?? 0;
  }

  /** Puts a slot before `first` in the list of a node's holdings. */
  linkNode(slot: number, node: number, first: number): void {
    const at = slot * STRIDE;
    this.words[at + NODE] = node;
    this.words[at + NODE_NEXT] = first;
    this.words[at + NODE_PREV] = 0;
    if (first !== 0) this.words[first * STRIDE + NODE_PREV] = slot;
  }

  /** Takes a slot out of its node's list. Answers the list's new first slot, or `undefined` when it stays. */
  unlinkNode(slot: number): number | undefined {
    const at = slot * STRIDE;
    const next = this.words[at + NODE_NEXT] ?? 0;
    const prev = this.words[at + NODE_PREV] ?? 0;
    if (next !== 0) this.words[next * STRIDE + NODE_PREV] = prev;
    if (prev !== 0) this.words[prev * STRIDE + NODE_NEXT] = next;
    this.words[at + NODE] = 0;
    return prev === 0 ? next : undefined;
  }

  highOf(slot: number): number {
    return this.words[slot * STRIDE + HIGH] ?? 0;
  }

  lowOf(slot: number): number {
    return this.words[slot * STRIDE + LOW] ?? 0;
  }

  digestOf(slot: number): string | undefined {
    return this.digests[slot];
  }

  setDigest(slot: number, digest: string): void {
    this.digests[slot] = digest;
  }

  storesOf(slot: number): number {
    return this.words[slot * STRIDE + STORES] ?? 0;
  }

  /** Times it was stored after having been gone. */
  returnsOf(slot: number): number {
    return this.words[slot * STRIDE + RETURNS] ?? 0;
  }

  /** Announcements while held: hits that events show. */
  hitsOf(slot: number): number {
    return this.cold[slot * COLD_STRIDE + HITS] ?? 0;
  }

  /** The engine's life in which it was stored last. */
  epochOf(slot: number): number {
    return this.cold[slot * COLD_STRIDE + EPOCH] ?? 0;
  }

  storedAt(slot: number): number {
    return this.times[slot * TIMES + FROM] ?? 0;
  }

  /** When it was last evicted, if that is how it went and it has not come back; else undefined. */
  evictedAt(slot: number): number | undefined {
    const isEvicted = ((this.words[slot * STRIDE + META] ?? 0) & REASON_MASK) === EVICTED && !this.isOpen(slot);
    return isEvicted ? this.times[slot * TIMES + TO] : undefined;
  }

  /**
   * What was stored first after the last interval ended by eviction, or the one before: 64 bits of the hash, in the same
   * stream. Of the two the later one is remembered.
   */
  displacerOf(slot: number, interval: 'last' | 'previous' = 'last'): readonly [number, number] | undefined {
    const flag = interval === 'last' ? HAS_DISPLACER : IS_PREV_DISPLACER;
    if (((this.words[slot * STRIDE + META] ?? 0) & flag) === 0) return undefined;
    return [this.cold[slot * COLD_STRIDE + BY_HIGH] ?? 0, this.cold[slot * COLD_STRIDE + BY_LOW] ?? 0];
  }

  /** Notes that the next store tells what displaced it. */
  awaitDisplacer(slot: number): void {
    const at = slot * STRIDE + META;
    this.words[at] = (this.words[at] ?? 0) | IS_PENDING;
  }

  /** Notes what displaced the block of `slot`, unless it came back or was given away meanwhile. */
  setDisplacer(slot: number, high: number, low: number): void {
    const at = slot * STRIDE + META;
    const meta = this.words[at] ?? 0;
    if ((meta & IS_PENDING) === 0) return;
    this.words[at] = (meta & ~(IS_PENDING | IS_PREV_DISPLACER)) | HAS_DISPLACER;
    this.cold[slot * COLD_STRIDE + BY_HIGH] = high;
    this.cold[slot * COLD_STRIDE + BY_LOW] = low;
  }
}

/**
 * Who holds which block, and held it: one slot per (residency, hash), in typed arrays. A residency is one medium, group,
 * locality and ownership of one stream. A slot outlives the block's removal as its history, until room is needed.
 *
 * An era is a residency's life between resets (engine restart, cleared cache, detached stream). Ending one is immediate
 * whatever it holds: its slots count as not live from then on, and are buried (turned into history) a few at a time.
 * Invariants: every used slot is found by its stream and hash, and is in exactly one age list, that of live
 * slots or that of history; a slot with copies is in its era's list; an era's `count` is that list's length.
 * Slot 0 means none. A node's holdings are linked here, but whose they are is the graph's business (block-graph.ts).
 */

import {
  CHAIN, COLD_STRIDE, COPIES, EPOCH, ERA, ERA_NEXT, ERA_PREV, FROM, HAS_DISPLACER, HAS_PREV, HIGH, HITS, HoldingColumns, IS_PENDING, IS_PREV_DISPLACER, LOW, META, NEWER, OLDER, PREV_FROM,
  PREV_SHIFT, PREV_TO, REASON_MASK, REASONS, RESIDENCY, RETURNS, STORES, STRIDE, TIMES, TO, WAS_STORED, type EndReason,
} from './holding-columns.ts';
import { SlotTable } from './slot-table.ts';

export interface Era {
  readonly id: number;
  readonly residency: number;
  /** The engine's life (stream epoch) it belongs to. */
  readonly epoch: number;
  /** Blocks held. */
  count: number;
  /** Those of them whose place in the tree is not known. */
  unplaced: number;
  /** Blocks that the index gave up for lack of room, though they were held. */
  givenUp: number;
  head: number;
  tail: number;
  /** Set once it is over; unix ms. */
  endedAtUnixMs: number | undefined;
  endReason: EndReason | undefined;
}

/** A time when a block was resident; open while it is. Unix ms. */
export interface Interval {
  readonly fromUnixMs: number;
  readonly toUnixMs: number | undefined;
  /** Why it ended. */
  readonly reason: EndReason | undefined;
}

interface AgeList {
  oldest: number;
  newest: number;
  length: number;
}

export class HoldingTable extends HoldingColumns {
  /** Slots in use, history included. */
  size = 0;
  /** Blocks held now, over all residencies. */
  live = 0;

  readonly #byHash: SlotTable;
  readonly #seed = Math.floor(Math.random() * 0xffff_ffff);
  readonly #eras = new Map<number, Era>();
  readonly #ended: Era[] = [];
  /** By residency: its era, and its stream's number. */
  readonly #currentEra: number[] = [];
  readonly #streamOf: number[] = [];
  readonly #alive: AgeList = { oldest: 0, newest: 0, length: 0 };
  readonly #history: AgeList = { oldest: 0, newest: 0, length: 0 };
  #lastEra = 0;
  #free = 0;
  #used = 0;

  constructor(capacity: number) {
    super(capacity);
    this.#byHash = new SlotTable(capacity, { words: this.words, stride: STRIDE, chain: CHAIN });
  }

  get isFull(): boolean {
    return this.#free === 0 && this.#used >= this.capacity;
  }

  /** Highest slot ever used; for walks over all. */
  get highest(): number {
    return this.#used;
  }

  /** Oldest live slot, by its last store, or 0; may belong to an era that is over. */
  get oldestLive(): number {
    return this.#alive.oldest;
  }

  /** Slots of blocks that went, or that only a child named. */
  get historySize(): number {
    return this.#history.length;
  }

  /** The slot whose block went first, or 0. */
  get oldestHistory(): number {
    return this.#history.oldest;
  }

  /** Starts a residency's next era. The one before must have been ended. */
  begin(residency: number, stream: number, epoch: number): Era {
    this.#lastEra += 1;
    const era: Era = { id: this.#lastEra, residency, epoch, count: 0, unplaced: 0, givenUp: 0, head: 0, tail: 0, endedAtUnixMs: undefined, endReason: undefined };
    this.#eras.set(era.id, era);
    this.#currentEra[residency] = era.id;
    this.#streamOf[residency] = stream;
    return era;
  }

  /** Ends an era, in constant time. */
  end(era: Era, atUnixMs: number, reason: EndReason): void {
    era.endedAtUnixMs = atUnixMs;
    era.endReason = reason;
    this.#currentEra[era.residency] = 0;
    this.live -= era.count;
    if (era.count > 0) this.#ended.push(era);
    else this.#eras.delete(era.id);
  }

  /** Turns up to `limit` slots of ended eras into history. */
  bury(limit: number): void {
    for (let left = limit; left > 0; left -= 1) {
      const era = this.#ended.at(-1);
      if (era === undefined) return;
      this.#close(era.head, era, era.endedAtUnixMs ?? 0, era.endReason ?? 'removed');
    }
  }

  /** The slot of a hash in a residency, live or history, or 0. */
  find(residency: number, high: number, low: number): number {
    const words = this.words;
    const table = this.#byHash;
    for (let slot = table.first(this.#mix(this.#streamOf[residency] ?? 0, high, low)); slot !== 0; slot = table.next()) {
      const at = slot * STRIDE;
      if (words[at + LOW] === low && words[at + HIGH] === high && words[at + RESIDENCY] === residency) return slot;
    }
    return 0;
  }

  /** The node of a hash in a stream, or 0: within one stream, equal hashes mean equal blocks. */
  nodeOfHash(stream: number, high: number, low: number): number {
    const table = this.#byHash;
    for (let slot = table.first(this.#mix(stream, high, low)); slot !== 0; slot = table.next()) if (this.#isOf(slot, stream, high, low)) return this.nodeOf(slot);
    return 0;
  }

  /** Notes for `fetch` where a hash will be looked for. */
  expect(stream: number, high: number, low: number): void {
    this.#byHash.expect(this.#mix(stream, high, low));
  }

  /** Brings near what was noted. */
  fetch(): void {
    this.#byHash.fetch();
  }

  /** Notes for `fetch` what freeing a slot will take. Answers the slot that goes after it. */
  expectFree(slot: number): number {
    this.#byHash.expect(this.#mixOf(slot));
    return this.words[slot * STRIDE + NEWER] ?? 0;
  }

  /** Takes a slot for a hash that the residency has none for; history at first, with no interval. There must be room. */
  create(residency: number, high: number, low: number): number {
    const slot = this.#take();
    this.words[slot * STRIDE + RESIDENCY] = residency;
    this.words[slot * STRIDE + HIGH] = high;
    this.words[slot * STRIDE + LOW] = low;
    this.#byHash.add(this.#mixOf(slot), slot);
    this.#append(this.#history, slot);
    return slot;
  }

  /** Gives a slot of history another hash: the same content came back under another seed. */
  rename(slot: number, high: number, low: number): void {
    this.#byHash.remove(this.#mixOf(slot), slot);
    this.words[slot * STRIDE + HIGH] = high;
    this.words[slot * STRIDE + LOW] = low;
    if (this.digests[slot] !== undefined) this.digests[slot] = undefined;
    this.#byHash.add(this.#mixOf(slot), slot);
  }

  /** The block is stored: a first copy begins an interval. The slot must not be live. */
  open(slot: number, era: Era, atUnixMs: number): void {
    const words = this.words;
    const at = slot * STRIDE;
    const time = slot * TIMES;
    if (this.hasHistory(slot)) {
      this.times[time + PREV_FROM] = this.times[time + FROM] ?? 0;
      this.times[time + PREV_TO] = this.times[time + TO] ?? 0;
      const meta = words[at + META] ?? 0;
      words[at + META] = WAS_STORED | HAS_PREV | ((meta & REASON_MASK) << PREV_SHIFT) | ((meta & HAS_DISPLACER) === 0 ? 0 : IS_PREV_DISPLACER);
      words[at + RETURNS] = (words[at + RETURNS] ?? 0) + 1;
    } else {
      words[at + META] = WAS_STORED;
    }
    this.times[time + FROM] = atUnixMs;
    this.times[time + TO] = 0;
    words[at + ERA] = era.id;
    words[at + COPIES] = 1;
    words[at + STORES] = (words[at + STORES] ?? 0) + 1;
    this.cold[slot * COLD_STRIDE + EPOCH] = era.epoch;
    this.#remove(this.#history, slot);
    this.#append(this.#alive, slot);
    words[at + ERA_PREV] = era.tail;
    words[at + ERA_NEXT] = 0;
    if (era.tail === 0) era.head = slot;
    else words[era.tail * STRIDE + ERA_NEXT] = slot;
    era.tail = slot;
    era.count += 1;
    this.live += 1;
  }

  /** One more copy of a live block, or the same one announced again. It counts as used now. */
  again(slot: number, isAnnouncement: boolean): void {
    const at = slot * STRIDE;
    if (isAnnouncement) {
      const hits = slot * COLD_STRIDE + HITS;
      this.cold[hits] = (this.cold[hits] ?? 0) + 1;
    } else {
      this.words[at + COPIES] = (this.words[at + COPIES] ?? 0) + 1;
      this.words[at + STORES] = (this.words[at + STORES] ?? 0) + 1;
    }
    this.#remove(this.#alive, slot);
    this.#append(this.#alive, slot);
  }

  /** The last copy of a live block is gone, or its era is over. */
  close(slot: number, atUnixMs: number, reason: EndReason): void {
    const era = this.eraOf(slot);
    if (era === undefined) throw new Error(`slot ${slot} holds nothing`);
    // Whatever is said about it now, a block of an ended era went with its era.
    this.#close(slot, era, era.endedAtUnixMs ?? atUnixMs, era.endReason ?? reason);
  }

  /** Gives a slot back, which must be in history and off its node. */
  free(slot: number): void {
    this.#byHash.remove(this.#mixOf(slot), slot);
    this.#remove(this.#history, slot);
    // Loops, as the calls of `fill` cost more than so few words.
    for (let at = slot * STRIDE; at < (slot + 1) * STRIDE; at += 1) this.words[at] = 0;
    for (let at = slot * COLD_STRIDE; at < (slot + 1) * COLD_STRIDE; at += 1) this.cold[at] = 0;
    for (let at = slot * TIMES; at < (slot + 1) * TIMES; at += 1) this.times[at] = 0;
    if (this.digests[slot] !== undefined) this.digests[slot] = undefined;
    this.words[slot * STRIDE + CHAIN] = this.#free;
    this.#free = slot;
    this.size -= 1;
  }

  /** Held now: has copies, in an era that goes on. */
  isLive(slot: number): boolean {
    const at = slot * STRIDE;
    return (this.words[at + COPIES] ?? 0) > 0 && this.#currentEra[this.words[at + RESIDENCY] ?? 0] === this.words[at + ERA];
  }

  eraOf(slot: number): Era | undefined {
    return this.#eras.get(this.words[slot * STRIDE + ERA] ?? 0);
  }

  copiesOf(slot: number): number {
    return this.isLive(slot) ? (this.words[slot * STRIDE + COPIES] ?? 0) : 0;
  }

  /** The last two times it was resident, the latest first. */
  intervals(slot: number): Interval[] {
    if (!this.hasHistory(slot)) return [];
    const time = slot * TIMES;
    const meta = this.words[slot * STRIDE + META] ?? 0;
    const intervals: Interval[] = [this.#lastInterval(slot, meta)];
    if ((meta & HAS_PREV) !== 0) {
      intervals.push({ fromUnixMs: this.times[time + PREV_FROM] ?? 0, toUnixMs: this.times[time + PREV_TO] ?? 0, reason: REASONS[(meta >>> PREV_SHIFT) & REASON_MASK] });
    }
    return intervals;
  }

  /** Resident at a time, as far as the last two intervals tell. */
  wasHeldAt(slot: number, atUnixMs: number): boolean {
    const time = slot * TIMES;
    if (!this.hasHistory(slot)) return false;
    if ((this.times[time + FROM] ?? 0) <= atUnixMs) {
      if (this.isLive(slot)) return true;
      const toUnixMs = this.isOpen(slot) ? this.eraOf(slot)?.endedAtUnixMs : (this.times[time + TO] ?? 0);
      return toUnixMs === undefined || toUnixMs > atUnixMs;
    }
    return this.#hasPrev(slot) && (this.times[time + PREV_FROM] ?? 0) <= atUnixMs && (this.times[time + PREV_TO] ?? 0) > atUnixMs;
  }

  /** Stored by then, whether or not it was still there; also when that is too long ago to be remembered. */
  wasStoredBy(slot: number, atUnixMs: number): boolean {
    const time = slot * TIMES;
    if (!this.hasHistory(slot)) return false;
    return (this.times[time + FROM] ?? 0) <= atUnixMs || this.returnsOf(slot) >= 2 || (this.#hasPrev(slot) && (this.times[time + PREV_FROM] ?? 0) <= atUnixMs);
  }

  /** The slot stored before this one in its era, or 0. */
  olderInEra(slot: number): number {
    return this.words[slot * STRIDE + ERA_PREV] ?? 0;
  }

  /** Slots of an era, newest first. Do not change the table while iterating. */
  *slotsOf(era: Era): Generator<number> {
    for (let slot = era.tail; slot !== 0; slot = this.words[slot * STRIDE + ERA_PREV] ?? 0) yield slot;
  }

  #hasPrev(slot: number): boolean {
    return ((this.words[slot * STRIDE + META] ?? 0) & HAS_PREV) !== 0;
  }

  #lastInterval(slot: number, meta: number): Interval {
    const fromUnixMs = this.storedAt(slot);
    if (this.isOpen(slot)) {
      const era = this.eraOf(slot);
      return { fromUnixMs, toUnixMs: era?.endedAtUnixMs, reason: era?.endReason };
    }
    return { fromUnixMs, toUnixMs: this.times[slot * TIMES + TO] ?? 0, reason: REASONS[meta & REASON_MASK] };
  }

  #close(slot: number, era: Era, atUnixMs: number, reason: EndReason): void {
    const words = this.words;
    const at = slot * STRIDE;
    words[at + COPIES] = 0;
    words[at + META] = ((words[at + META] ?? 0) & ~(REASON_MASK | IS_PENDING)) | REASONS.indexOf(reason);
    this.times[slot * TIMES + TO] = atUnixMs;
    this.#remove(this.#alive, slot);
    this.#append(this.#history, slot);
    const prev = words[at + ERA_PREV] ?? 0;
    const next = words[at + ERA_NEXT] ?? 0;
    if (prev === 0) era.head = next;
    else words[prev * STRIDE + ERA_NEXT] = next;
    if (next === 0) era.tail = prev;
    else words[next * STRIDE + ERA_PREV] = prev;
    era.count -= 1;
    words[at + ERA] = 0;
    if (era.endedAtUnixMs === undefined) {
      this.live -= 1;
    } else if (era.count === 0) {
      this.#eras.delete(era.id);
      const place = this.#ended.lastIndexOf(era);
      if (place >= 0) this.#ended.splice(place, 1);
    }
  }

  #isOf(slot: number, stream: number, high: number, low: number): boolean {
    const at = slot * STRIDE;
    return this.words[at + LOW] === low && this.words[at + HIGH] === high && this.#streamOf[this.words[at + RESIDENCY] ?? 0] === stream;
  }

  #take(): number {
    let slot = this.#free;
    if (slot === 0) {
      if (this.#used >= this.capacity) throw new Error('the table of holdings is full');
      this.#used += 1;
      slot = this.#used;
    } else {
      this.#free = this.words[slot * STRIDE + CHAIN] ?? 0;
    }
    this.size += 1;
    return slot;
  }

  #append(list: AgeList, slot: number): void {
    this.words[slot * STRIDE + OLDER] = list.newest;
    this.words[slot * STRIDE + NEWER] = 0;
    if (list.newest === 0) list.oldest = slot;
    else this.words[list.newest * STRIDE + NEWER] = slot;
    list.newest = slot;
    list.length += 1;
  }

  #remove(list: AgeList, slot: number): void {
    const older = this.words[slot * STRIDE + OLDER] ?? 0;
    const newer = this.words[slot * STRIDE + NEWER] ?? 0;
    if (older === 0) list.oldest = newer;
    else this.words[older * STRIDE + NEWER] = newer;
    if (newer === 0) list.newest = older;
    else this.words[newer * STRIDE + OLDER] = older;
    list.length -= 1;
  }

  #mix(stream: number, high: number, low: number): number {
    let mixed = Math.imul(low ^ this.#seed, 0x9e37_79b1) ^ Math.imul(high, 0x85eb_ca6b) ^ Math.imul(stream, 0xc2b2_ae35);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b_3c6d);
    return mixed ^ (mixed >>> 13);
  }

  #mixOf(slot: number): number {
    const at = slot * STRIDE;
    return this.#mix(this.#streamOf[this.words[at + RESIDENCY] ?? 0] ?? 0, this.words[at + HIGH] ?? 0, this.words[at + LOW] ?? 0);
  }
}

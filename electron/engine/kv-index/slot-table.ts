/**
 * Finds the slots of a table by 32 mixed bits of their keys. What chained buckets do, but looking for a key that is not
 * there, and taking out one that is, touch one or two cache lines and no other slot: a million blocks are larger than
 * every cache, storing a block in a full index looks for two keys in vain and takes out two others, and waiting for
 * memory was most of what that cost.
 *
 * A line of words has a head, then up to 15 entries: a slot's number with a tag above it. Slots that agree in line and
 * tag are chained through a word of their own, which only this table writes. A full line sends slots on to the next one;
 * the head counts them, so that a search knows whether to go on. Invariant: a slot is found by walking from its home line,
 * `mix & mask`, over lines whose heads count it.
 */
const LINE = 16;
const ENTRIES = LINE - 1;
/** On average at most, of 15: then few lines are full. */
const MEAN_ENTRIES = 10;
/** The head: entries in its low bits, above them the slots sent on. */
const COUNT_BITS = 4;
const COUNT_MASK = 2 ** COUNT_BITS - 1;
const SENT_ON = 2 ** COUNT_BITS;
/** Keys noted at most before their lines are read: lines of as many stay in the nearest caches. */
const EXPECTED = 256;

/** Where slots keep the word that chains them. */
export interface SlotWords {
  readonly words: Uint32Array;
  /** Words per slot. */
  readonly stride: number;
  /** Which of them is the chain. */
  readonly chain: number;
}

export class SlotTable {
  readonly #lines: Int32Array;
  /** Of lines. */
  readonly #mask: number;
  readonly #slotBits: number;
  readonly #slotMask: number;
  readonly #words: Uint32Array;
  readonly #stride: number;
  readonly #chain: number;
  /** The search under way: the line where it began, and where it is. */
  #home = 0;
  #line = 0;
  #entry = 0;
  #tag = 0;
  #slot = 0;
  /** What `fetch` read; kept, or compilers would leave out reads that nobody uses. */
  fetched = 0;
  readonly #mixes = new Int32Array(EXPECTED);
  #expected = 0;

  /** `capacity`: the highest slot; slot 0 means none. */
  constructor(capacity: number, { words, stride, chain }: SlotWords) {
    const lines = 2 ** Math.ceil(Math.log2(Math.max(1, capacity / MEAN_ENTRIES)));
    this.#lines = new Int32Array(lines * LINE);
    this.#mask = lines - 1;
    this.#slotBits = Math.ceil(Math.log2(capacity + 1));
    this.#slotMask = 2 ** this.#slotBits - 1;
    this.#words = words;
    this.#stride = stride;
    this.#chain = chain;
  }

  /** Notes a key that will be searched, for `fetch`. */
  expect(mix: number): void {
    if (this.#expected === EXPECTED) this.fetch();
    this.#mixes[this.#expected] = mix;
    this.#expected += 1;
  }

  /**
   * Reads the lines of the keys noted, so that they are near when they are searched. Done one right after the other, such
   * reads wait for memory together; searches, with more between them, wait one after the other.
   */
  fetch(): void {
    const lines = this.#lines;
    const mixes = this.#mixes;
    const mask = this.#mask;
    let read = 0;
    for (let at = 0; at < this.#expected; at += 1) read ^= lines[((mixes[at] ?? 0) & mask) * LINE] ?? 0;
    this.fetched ^= read;
    this.#expected = 0;
  }

  /** Begins a search. Answers the first slot that may have the key, or 0; whether it has is for the caller to compare. */
  first(mix: number): number {
    this.#home = (mix & this.#mask) * LINE;
    this.#line = this.#home;
    this.#entry = 0;
    this.#tag = this.#tagOf(mix);
    this.#slot = this.#scan();
    return this.#slot;
  }

  /** The next slot of the search begun last, or 0. Nothing may be added or removed in between. */
  next(): number {
    this.#slot = this.#words[this.#slot * this.#stride + this.#chain] || this.#scan();
    return this.#slot;
  }

  add(mix: number, slot: number): void {
    const lines = this.#lines;
    const tag = this.#tagOf(mix);
    for (let line = (mix & this.#mask) * LINE; ; line = this.#after(line)) {
      const head = lines[line] ?? 0;
      const count = head & COUNT_MASK;
      for (let at = line + 1; at <= line + count; at += 1) {
        const entry = lines[at] ?? 0;
        if (entry >>> this.#slotBits !== tag) continue;
        const first = (entry & this.#slotMask) * this.#stride + this.#chain;
        this.#words[slot * this.#stride + this.#chain] = this.#words[first] ?? 0;
        this.#words[first] = slot;
        return;
      }
      if (count < ENTRIES) {
        lines[line + 1 + count] = (tag << this.#slotBits) | slot;
        lines[line] = head + 1;
        this.#words[slot * this.#stride + this.#chain] = 0;
        return;
      }
      lines[line] = head + SENT_ON;
    }
  }

  /** @throws Error when the slot was not added with this mix. */
  remove(mix: number, slot: number): void {
    const lines = this.#lines;
    const tag = this.#tagOf(mix);
    for (let line = (mix & this.#mask) * LINE; ; line = this.#after(line)) {
      const head = lines[line] ?? 0;
      const count = head & COUNT_MASK;
      for (let at = line + 1; at <= line + count; at += 1) {
        const entry = lines[at] ?? 0;
        if (entry >>> this.#slotBits !== tag || !this.#takeOut(at, entry & this.#slotMask, slot)) continue;
        if (lines[at] === 0) {
          // The last entry fills the place.
          lines[at] = lines[line + count] ?? 0;
          lines[line + count] = 0;
          lines[line] = head - 1;
        }
        return;
      }
      if (head < SENT_ON) throw new Error(`slot ${slot} is not in the table`);
      lines[line] = head - SENT_ON;
    }
  }

  /** Takes a slot out of the chain that begins with `first` at a place, which is 0 afterwards when nothing is left there. False when it is not in it. */
  #takeOut(at: number, first: number, slot: number): boolean {
    const words = this.#words;
    const rest = words[slot * this.#stride + this.#chain] ?? 0;
    if (first === slot) {
      const entry = this.#lines[at] ?? 0;
      this.#lines[at] = rest === 0 ? 0 : (entry & ~this.#slotMask) | rest;
      return true;
    }
    for (let before = first; before !== 0; before = words[before * this.#stride + this.#chain] ?? 0) {
      if (words[before * this.#stride + this.#chain] !== slot) continue;
      words[before * this.#stride + this.#chain] = rest;
      return true;
    }
    return false;
  }

  /** The next entry of the search with its tag, or 0. */
  #scan(): number {
    const lines = this.#lines;
    for (;;) {
      const line = this.#line;
      const head = lines[line] ?? 0;
      const last = line + (head & COUNT_MASK);
      for (let at = line + this.#entry + 1; at <= last; at += 1) {
        const entry = lines[at] ?? 0;
        if (entry >>> this.#slotBits !== this.#tag) continue;
        this.#entry = at - line;
        return entry & this.#slotMask;
      }
      const after = this.#after(line);
      // Few lines may all have sent slots on.
      if (head < SENT_ON || after === this.#home) return 0;
      this.#line = after;
      this.#entry = 0;
    }
  }

  #tagOf(mix: number): number {
    return this.#slotBits === 0 ? 0 : mix >>> this.#slotBits;
  }

  #after(line: number): number {
    return (line + LINE) & (this.#mask * LINE + ENTRIES);
  }
}

/**
 * Blocks by content: a tree over all instances, in typed arrays. A node is known by its parent, its tokens and its
 * extra key; hashes of engines are not its business, since their seeds differ. Equality is decided by comparing
 * tokens, never by a mix of them.
 *
 * Node 0 is the root, before token 0. A node of unknown content (a placeholder, or a parent that was never seen stored)
 * hangs nowhere; what descends from it is known relative to it only. `isPlaced`: the chain to the root is known. A
 * placed node stays placed, as nodes with children are never freed.
 * Invariants: a node of known content is in its parent's list of children and is found by (parent, mix); one of unknown
 * content is in neither. No two children of one parent are equal.
 */
import type { ExtraKeys } from './extra-keys.ts';
import type { Probe } from './probe.ts';
import { SlotTable } from './slot-table.ts';
import { NO_TOKENS, TokenPool } from './token-pool.ts';

export interface NodeTableOptions {
  readonly capacity: number;
  /** For token ids of nodes. */
  readonly tokenBytes: number;
  readonly extras: ExtraKeys;
}

export const ROOT = 0;

/** Words per node: one cache line. */
const STRIDE = 16;
const PARENT = 0;
const FIRST_CHILD = 1;
const NEXT_SIBLING = 2;
const PREV_SIBLING = 3;
/** For slot-table.ts; of a free node, the next free one. */
const CHAIN = 4;
const MIX = 5;
const TOKENS = 6;
const SIZE = 7;
const EXTRA = 8;
const FIRST_HOLDING = 9;
const CHILDREN = 10;
const FLAGS = 11;
const STORES = 12;
const GENERATION = 13;
/** Stands for the node among what its children are found by: told by its content, where that was known when it was made. */
const IDENTITY = 14;

const USED = 1;
const KNOWN = 2;
const PLACED = 4;

export class NodeTable {
  readonly capacity: number;
  /** Nodes in use, without the root. */
  size = 0;
  /** Those whose chain to the root is not known. */
  unplaced = 0;

  readonly #words: Uint32Array;
  readonly #byContent: SlotTable;
  readonly #tokens: TokenPool;
  readonly #extras: ExtraKeys;
  #identities = 0;
  #free = 0;
  #used = 0;

  constructor(options: NodeTableOptions) {
    this.capacity = options.capacity;
    this.#words = new Uint32Array((options.capacity + 1) * STRIDE);
    this.#byContent = new SlotTable(options.capacity, { words: this.#words, stride: STRIDE, chain: CHAIN });
    this.#tokens = new TokenPool(options.tokenBytes);
    this.#extras = options.extras;
    this.#words[FLAGS] = USED | KNOWN | PLACED;
  }

  get isFull(): boolean {
    return this.#free === 0 && this.#used >= this.capacity;
  }

  /** Bytes reserved for token ids. */
  get tokenBytes(): number {
    return this.#tokens.bytes;
  }

  /** Parent, number of children and generation of every node up to `last`, as they are now; for counts over the whole tree. */
  links(last: number): { readonly parents: Uint32Array; readonly children: Uint32Array; readonly generations: Uint32Array } {
    const words = this.#words;
    const [parents, children, generations] = [new Uint32Array(last + 1), new Uint32Array(last + 1), new Uint32Array(last + 1)];
    for (let node = 1, at = STRIDE; node <= last; node += 1, at += STRIDE) {
      parents[node] = words[at + PARENT] ?? 0;
      children[node] = words[at + CHILDREN] ?? 0;
      generations[node] = words[at + GENERATION] ?? 0;
    }
    return { parents, children, generations };
  }

  /** Highest number a node has had; for walks over all. */
  get highest(): number {
    return this.#used;
  }

  hasTokenRoom(size: number): boolean {
    return this.#tokens.hasRoom(size);
  }

  /** The child of `parent` with exactly the probe's content, or 0. */
  find(parent: number, probe: Probe): number {
    const words = this.#words;
    const table = this.#byContent;
    for (let node = table.first(mixOf(this.identityOf(parent), probe.mix)); node !== 0; node = table.next()) {
      const at = node * STRIDE;
      if (words[at + MIX] === probe.mix && words[at + PARENT] === parent && words[at + EXTRA] === probe.extra && this.hasTokens(node, probe)) return node;
    }
    return 0;
  }

  /** Children of `parent` with the probe's tokens and another extra key, at most `limit`. */
  findOtherKeys(parent: number, probe: Probe, limit: number): number[] {
    const words = this.#words;
    const found: number[] = [];
    const table = this.#byContent;
    for (let node = table.first(mixOf(this.identityOf(parent), probe.mix)); node !== 0 && found.length < limit; node = table.next()) {
      const at = node * STRIDE;
      if (words[at + MIX] === probe.mix && words[at + PARENT] === parent && words[at + EXTRA] !== probe.extra && this.hasTokens(node, probe)) found.push(node);
    }
    return found;
  }

  /** The child of `parent` equal to `node` in tokens and extra key, or 0. */
  findEqual(parent: number, node: number, scratch: Probe): number {
    const tokens = this.tokensOf(node);
    if (tokens === undefined) return 0;
    scratch.set(Uint32Array.from(tokens), 0, tokens.length);
    scratch.extra = this.extraOf(node);
    return this.find(parent, scratch);
  }

  /** Notes for `fetch` where a child with the probe's content will be looked for. Answers the identity that the child has if it is made then. */
  expectChild(parentIdentity: number, probe: Probe): number {
    this.#byContent.expect(mixOf(parentIdentity, probe.mix));
    return childIdentity(parentIdentity, probe);
  }

  /** Notes for `fetch` what freeing a node will take. */
  expectFree(node: number): void {
    const words = this.#words;
    this.#byContent.expect(mixOf(this.identityOf(words[node * STRIDE + PARENT] ?? 0), words[node * STRIDE + MIX] ?? 0));
  }

  /** Brings near what was noted. */
  fetch(): void {
    this.#byContent.fetch();
  }

  /** A signed integer, which V8 keeps without an object. */
  identityOf(node: number): number {
    return (this.#words[node * STRIDE + IDENTITY] ?? 0) | 0;
  }

  hasTokens(node: number, probe: Probe): boolean {
    return this.sizeOf(node) === probe.size && this.commonPrefix(node, probe) === probe.size;
  }

  /** How many tokens of the node equal the probe's, counted from the first. Sizes must agree. */
  commonPrefix(node: number, probe: Probe): number {
    const at = node * STRIDE;
    return this.#tokens.commonPrefix(this.#words[at + TOKENS] ?? NO_TOKENS, this.#words[at + SIZE] ?? 0, probe);
  }

  /** Where in the node's tokens, from `from` on, a token stands; -1 when nowhere. */
  positionOf(node: number, token: number, from: number): number {
    const at = node * STRIDE;
    return this.#tokens.positionOf(this.#words[at + TOKENS] ?? NO_TOKENS, this.#words[at + SIZE] ?? 0, { token, from });
  }

  /** How many of the node's tokens, from `at` on, equal `tokens` from `offset` on. */
  commonRun(node: number, run: { readonly at: number; readonly tokens: Uint32Array; readonly offset: number }): number {
    const word = node * STRIDE;
    return this.#tokens.commonRun(this.#words[word + TOKENS] ?? NO_TOKENS, this.#words[word + SIZE] ?? 0, run);
  }

  /** Makes a node of unknown content. There must be room. */
  createUnknown(): number {
    const node = this.#take();
    this.#words[node * STRIDE + FLAGS] = USED;
    this.#identities += 1;
    this.#words[node * STRIDE + IDENTITY] = this.#identities;
    this.unplaced += 1;
    return node;
  }

  /** Makes a child with the probe's content; there must be room, and no such child. Takes a reference of the extra key. */
  create(parent: number, probe: Probe): number {
    const node = this.createUnknown();
    this.resolve(node, parent, probe);
    this.#words[node * STRIDE + IDENTITY] = childIdentity(this.identityOf(parent), probe);
    if (this.isPlaced(parent)) this.markPlaced(node);
    return node;
  }

  /** Gives a node of unknown content its content and its place among children; whether it is placed is up to the caller. */
  resolve(node: number, parent: number, probe: Probe): void {
    const at = node * STRIDE;
    this.#words[at + MIX] = probe.mix;
    this.#words[at + SIZE] = probe.size;
    this.#words[at + EXTRA] = probe.extra;
    this.#words[at + TOKENS] = this.#tokens.put(probe.tokens, probe.offset, probe.size);
    this.#extras.retain(probe.extra);
    this.#link(node, parent);
  }

  /** Hangs a node of known content under another parent, which must have no equal child and not descend from it. */
  move(node: number, parent: number): void {
    this.unlink(node);
    this.#link(node, parent);
  }

  /** Takes a node out of its parent's children; it must be freed or moved next. */
  unlink(node: number): void {
    const words = this.#words;
    const at = node * STRIDE;
    const parent = words[at + PARENT] ?? 0;
    const next = words[at + NEXT_SIBLING] ?? 0;
    const prev = words[at + PREV_SIBLING] ?? 0;
    if (prev === 0) words[parent * STRIDE + FIRST_CHILD] = next;
    else words[prev * STRIDE + NEXT_SIBLING] = next;
    if (next !== 0) words[next * STRIDE + PREV_SIBLING] = prev;
    words[parent * STRIDE + CHILDREN] = (words[parent * STRIDE + CHILDREN] ?? 1) - 1;
    this.#byContent.remove(mixOf(this.identityOf(parent), words[at + MIX] ?? 0), node);
    words[at + FLAGS] = (words[at + FLAGS] ?? 0) & ~KNOWN;
    words[at + PARENT] = 0;
  }

  /** Frees a node without children and holdings. */
  free(node: number): void {
    const words = this.#words;
    const at = node * STRIDE;
    if (this.isKnown(node)) this.unlink(node);
    this.#tokens.free(words[at + TOKENS] ?? NO_TOKENS, words[at + SIZE] ?? 0);
    this.#extras.release(words[at + EXTRA] ?? 0);
    if (!this.isPlaced(node)) this.unplaced -= 1;
    const generation = ((words[at + GENERATION] ?? 0) + 1) >>> 0;
    // A loop, as a call of `fill` costs more than so few words.
    for (let word = at; word < at + STRIDE; word += 1) words[word] = 0;
    words[at + GENERATION] = generation;
    words[at + CHAIN] = this.#free;
    this.#free = node;
    this.size -= 1;
  }

  markPlaced(node: number): void {
    const at = node * STRIDE + FLAGS;
    this.#words[at] = (this.#words[at] ?? 0) | PLACED;
    this.unplaced -= 1;
  }

  isUsed(node: number): boolean {
    return node <= this.#used && ((this.#words[node * STRIDE + FLAGS] ?? 0) & USED) !== 0;
  }

  /** Tokens, extra key and parent are known. */
  isKnown(node: number): boolean {
    return ((this.#words[node * STRIDE + FLAGS] ?? 0) & KNOWN) !== 0;
  }

  isPlaced(node: number): boolean {
    return ((this.#words[node * STRIDE + FLAGS] ?? 0) & PLACED) !== 0;
  }

  /** 0 for children of the root, and for nodes of unknown content. */
  parentOf(node: number): number {
    return this.#words[node * STRIDE + PARENT] ?? 0;
  }

  firstChild(node: number): number {
    return this.#words[node * STRIDE + FIRST_CHILD] ?? 0;
  }

  nextSibling(node: number): number {
    return this.#words[node * STRIDE + NEXT_SIBLING] ?? 0;
  }

  childCount(node: number): number {
    return this.#words[node * STRIDE + CHILDREN] ?? 0;
  }

  /** Tokens of the block; 0 when unknown. */
  sizeOf(node: number): number {
    return this.#words[node * STRIDE + SIZE] ?? 0;
  }

  extraOf(node: number): number {
    return this.#words[node * STRIDE + EXTRA] ?? 0;
  }

  tokensOf(node: number): number[] | undefined {
    const at = node * STRIDE;
    return this.#tokens.get(this.#words[at + TOKENS] ?? NO_TOKENS, this.#words[at + SIZE] ?? 0);
  }

  /** First of the node's holdings (holding-table.ts), or 0. */
  firstHolding(node: number): number {
    return this.#words[node * STRIDE + FIRST_HOLDING] ?? 0;
  }

  setFirstHolding(node: number, slot: number): void {
    this.#words[node * STRIDE + FIRST_HOLDING] = slot;
  }

  /** Stores of the block by any instance, copies and repetitions included. */
  storesOf(node: number): number {
    return this.#words[node * STRIDE + STORES] ?? 0;
  }

  countStore(node: number): void {
    const at = node * STRIDE + STORES;
    this.#words[at] = (this.#words[at] ?? 0) + 1;
  }

  addStores(node: number, count: number): void {
    const at = node * STRIDE + STORES;
    this.#words[at] = (this.#words[at] ?? 0) + count;
  }

  /** Changes when a node is freed, so that who remembers a number can tell. */
  generationOf(node: number): number {
    return this.#words[node * STRIDE + GENERATION] ?? 0;
  }

  /** Whether `ancestor` lies on the way up from `node`, or is it. */
  descends(node: number, ancestor: number): boolean {
    let at = node;
    while (at !== ancestor) {
      if (at === ROOT) return false;
      at = this.parentOf(at);
    }
    return true;
  }

  #take(): number {
    let node = this.#free;
    if (node === 0) {
      if (this.#used >= this.capacity) throw new Error('the table of nodes is full');
      this.#used += 1;
      node = this.#used;
    } else {
      this.#free = this.#words[node * STRIDE + CHAIN] ?? 0;
    }
    this.size += 1;
    return node;
  }

  #link(node: number, parent: number): void {
    const words = this.#words;
    const at = node * STRIDE;
    const first = words[parent * STRIDE + FIRST_CHILD] ?? 0;
    words[at + PARENT] = parent;
    words[at + NEXT_SIBLING] = first;
    words[at + PREV_SIBLING] = 0;
    if (first !== 0) words[first * STRIDE + PREV_SIBLING] = node;
    words[parent * STRIDE + FIRST_CHILD] = node;
    words[parent * STRIDE + CHILDREN] = (words[parent * STRIDE + CHILDREN] ?? 0) + 1;
    words[at + FLAGS] = (words[at + FLAGS] ?? 0) | KNOWN;
    this.#byContent.add(mixOf(this.identityOf(parent), words[at + MIX] ?? 0), node);
  }
}

function mixOf(parentIdentity: number, mix: number): number {
  const mixed = Math.imul(mix ^ Math.imul(parentIdentity, 0x9e37_79b1), 0x85eb_ca6b);
  return mixed ^ (mixed >>> 15);
}

function childIdentity(parentIdentity: number, { mix, extra }: Probe): number {
  return (mixOf(parentIdentity, mix) + Math.imul(extra, 0xc2b2_ae35)) | 0;
}

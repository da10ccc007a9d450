/**
 * The tree of contents and the holdings on it, kept consistent: what is stored where, what makes room for it, and how a
 * block of unknown origin finds its place once its origin is told.
 *
 * Invariants: every holding hangs on one node; a node lives while it has holdings or children. Room is made before a
 * block is looked up, never after, so that nothing found is freed under the finder; the one node that must survive in
 * between, the parent, is pinned.
 */
import type { EndReason } from './holding-columns.ts';
import { ExtraKeys } from './extra-keys.ts';
import { HoldingTable, type Era } from './holding-table.ts';
import { NodeTable, ROOT } from './node-table.ts';
import { Probe } from './probe.ts';
import type { Residency } from './residency.ts';

export interface GraphOptions {
  /** Blocks held, over all streams; beyond it the one stored longest ago is given up. */
  readonly capacity: number;
  /** Blocks remembered after they went: as many as are held, within these bounds. */
  readonly historyCapacity: number;
  readonly leastHistory: number;
  /** For token ids, bytes. 0: blocks are kept by hash only, without content and place. */
  readonly tokenBytes: number;
  /** For extra keys, bytes. */
  readonly extraBytes: number;
}

/** Slots of ended eras turned into history with every store: more than one, so that they go away while the table fills. */
const BURIED_PER_STORE = 4;
/** History forgotten at most with every store: more than a store can add. */
const FORGOTTEN_PER_STORE = 8;
/** Holdings of a node looked at for one to use again: content stored under ever new hashes must not cost more each time. */
const MAX_SEARCHED = 64;
/** Blocks given up at most for the tokens of one; freed room serves blocks of its size only. */
const MAX_EVICTED_FOR_TOKENS = 64;

export class BlockGraph {
  readonly nodes: NodeTable;
  readonly holdings: HoldingTable;
  readonly extras = new ExtraKeys();
  /** Whether blocks are known by content, not by hash only. */
  readonly keepsContent: boolean;
  /** By number; those of closed streams too, while there is history of them. */
  readonly residencies: (Residency | undefined)[] = [];
  /** Blocks held that were given up for lack of room. */
  evicted = 0;
  /** Blocks whose history was. */
  forgotten = 0;
  /** Hashes that named other content before, or a parent that cannot be. */
  conflicts = 0;

  readonly #options: GraphOptions;
  readonly #scratch = new Probe();
  #pinned = ROOT;

  constructor(options: GraphOptions) {
    this.#options = options;
    this.keepsContent = options.tokenBytes > 0;
    const slots = options.capacity + options.historyCapacity;
    this.holdings = new HoldingTable(slots);
    this.nodes = new NodeTable({ capacity: slots, tokenBytes: options.tokenBytes, extras: this.extras });
  }

  /** Makes room for one more block of `size` tokens, its node included. False when the pinned chain alone fills the tree. */
  reserve(size: number): boolean {
    const { holdings, nodes, extras } = this;
    holdings.bury(BURIED_PER_STORE);
    const remembered = this.#remembered();
    for (let tried = 0; tried < FORGOTTEN_PER_STORE && holdings.historySize > remembered; tried += 1) this.drop(holdings.oldestHistory);
    while (holdings.live >= this.#options.capacity && this.#giveUpOldest()) { /* one may have been of an ended era */ }
    while ((holdings.isFull || nodes.isFull) && this.#evict()) { /* until there is a slot and a node */ }
    while (extras.bytes > this.#options.extraBytes && this.#evict()) { /* keys go with the nodes that use them */ }
    const tries = size === 0 ? 0 : MAX_EVICTED_FOR_TOKENS;
    for (let tried = 0; tried < tries && !nodes.hasTokenRoom(size) && this.#evict(); tried += 1) { /* the oldest go */ }
    return !nodes.isFull;
  }

  /** Notes what making room for so many blocks will take away, for `fetch` of nodes and holdings. */
  expectEvictions(blocks: number): void {
    const { holdings, nodes } = this;
    const isLiveFull = holdings.live + blocks > this.#options.capacity;
    if (!isLiveFull && holdings.historySize + blocks <= this.#remembered() && holdings.size + blocks <= holdings.capacity) return;
    let slot = isLiveFull ? holdings.oldestLive : holdings.oldestHistory;
    for (let left = blocks; left > 0 && slot !== 0; left -= 1) {
      nodes.expectFree(holdings.nodeOf(slot));
      slot = holdings.expectFree(slot);
    }
  }

  /** Keeps a node alive, instead of the one pinned before. */
  pin(node: number): void {
    const before = this.#pinned;
    this.#pinned = node;
    if (before !== node) this.#collect(before);
  }

  /** A slot of the residency for a block that has none, on `node`; may be one that held the same content under another hash. */
  createHolding(residency: Residency, hash: { readonly high: number; readonly low: number }, node: number): number {
    const { holdings, nodes } = this;
    const { high, low } = hash;
    let looked = 0;
    for (let slot = nodes.firstHolding(node); slot !== 0 && looked < MAX_SEARCHED; slot = holdings.nextOfNode(slot)) {
      looked += 1;
      if (holdings.residencyOf(slot) !== residency.number || holdings.isOpen(slot)) continue;
      holdings.rename(slot, high, low);
      return slot;
    }
    const slot = holdings.create(residency.number, high, low);
    residency.slots += 1;
    this.#link(slot, node);
    return slot;
  }

  /** Moves a holding to another node. */
  rehome(slot: number, node: number): void {
    const before = this.holdings.nodeOf(slot);
    if (before === node) return;
    this.#carry(slot, before, node);
    this.#collect(before);
  }

  /** A block begins to be held. */
  open(slot: number, era: Era, atUnixMs: number): void {
    this.holdings.open(slot, era, atUnixMs);
    if (!this.nodes.isPlaced(this.holdings.nodeOf(slot))) era.unplaced += 1;
  }

  /** A block is held no more. */
  close(slot: number, atUnixMs: number, reason: EndReason): void {
    const era = this.holdings.eraOf(slot);
    if (era !== undefined && !this.nodes.isPlaced(this.holdings.nodeOf(slot))) era.unplaced -= 1;
    this.holdings.close(slot, atUnixMs, reason);
  }

  /**
   * The node of a block whose parent and content an event tells. `known` is the node its hash had before, 0 for none:
   * it is given content, found a place, or joined with an equal node that other streams made. A hash that names other
   * content than before is counted, and believed. `isKeyTold`: the event says which key the block has, or that it has none;
   * a place that was taken without is put right then.
   */
  settle(known: number, parent: number, { probe, isKeyTold }: { readonly probe: Probe; readonly isKeyTold: boolean }): number {
    const { nodes } = this;
    if (known === 0) return this.#findOrCreate(parent, probe);
    if (!nodes.isKnown(known)) return this.#resolve(known, parent, probe);
    if (!nodes.hasTokens(known, probe)) {
      // Groups of two block sizes name blocks by the same hash.
      if (nodes.sizeOf(known) === probe.size) this.conflicts += 1;
      return this.#findOrCreate(parent, probe);
    }
    if (!nodes.isPlaced(parent)) return known;
    if (nodes.isPlaced(known)) {
      const isSame = nodes.parentOf(known) === parent && (!isKeyTold || nodes.extraOf(known) === probe.extra);
      return isSame ? known : this.#findOrCreate(parent, probe);
    }
    const before = nodes.parentOf(known);
    const equal = nodes.findEqual(parent, known, this.#scratch);
    if (equal === 0) {
      nodes.move(known, parent);
      this.#markPlaced(known);
    } else {
      this.#merge(known, equal);
    }
    this.#collect(before);
    return equal === 0 ? known : equal;
  }

  /** Forgets a holding, live or not. */
  drop(slot: number): void {
    const { holdings } = this;
    const residency = this.residencies[holdings.residencyOf(slot)];
    if (holdings.isOpen(slot)) {
      const isLive = holdings.isLive(slot);
      if (isLive) this.evicted += 1;
      else this.forgotten += 1;
      if (isLive && residency !== undefined) {
        residency.evicted += 1;
        residency.era.givenUp += 1;
      } else if (residency !== undefined) {
        residency.forgottenUntilUnixMs = Math.max(residency.forgottenUntilUnixMs, holdings.eraOf(slot)?.endedAtUnixMs ?? 0);
      }
      this.close(slot, 0, 'removed');
    } else if (holdings.hasHistory(slot)) {
      this.forgotten += 1;
      if (residency !== undefined) residency.forgottenUntilUnixMs = Math.max(residency.forgottenUntilUnixMs, holdings.intervals(slot)[0]?.toUnixMs ?? 0);
    }
    const node = holdings.nodeOf(slot);
    this.#unlink(slot, node);
    holdings.free(slot);
    if (residency !== undefined) {
      residency.slots -= 1;
      if (residency.slots === 0 && residency.isClosed) this.residencies[residency.number] = undefined;
    }
    this.#collect(node);
  }

  /** Blocks that went, of which history is kept. */
  #remembered(): number {
    return Math.min(this.#options.historyCapacity, Math.max(this.#options.leastHistory, this.holdings.live));
  }

  #findOrCreate(parent: number, probe: Probe): number {
    const found = this.nodes.find(parent, probe);
    if (found !== 0) return found;
    // Without its tokens a block cannot be told from its siblings.
    if (!this.nodes.hasTokenRoom(probe.size)) return this.nodes.createUnknown();
    return this.nodes.create(parent, probe);
  }

  #resolve(node: number, parent: number, probe: Probe): number {
    const { nodes } = this;
    const isPlaced = nodes.isPlaced(parent);
    if (!isPlaced && nodes.descends(parent, node)) {
      this.conflicts += 1;
      return node;
    }
    const equal = nodes.find(parent, probe);
    if (equal !== 0) {
      this.#merge(node, equal);
      return equal;
    }
    if (!nodes.hasTokenRoom(probe.size)) return node;
    nodes.resolve(node, parent, probe);
    if (isPlaced) this.#markPlaced(node);
    return node;
  }

  /** Joins a node and what descends from it with an equal node. */
  #merge(from: number, into: number): void {
    const { nodes } = this;
    const work: (readonly [number, number])[] = [[from, into]];
    for (let pair = work.pop(); pair !== undefined; pair = work.pop()) {
      const [source, target] = pair;
      for (let slot = nodes.firstHolding(source); slot !== 0; slot = nodes.firstHolding(source)) this.#carry(slot, source, target);
      for (let child = nodes.firstChild(source); child !== 0; child = nodes.firstChild(source)) {
        const equal = nodes.findEqual(target, child, this.#scratch);
        if (equal === 0) {
          nodes.move(child, target);
          if (nodes.isPlaced(target)) this.#markPlaced(child);
        } else {
          nodes.unlink(child);
          work.push([child, equal]);
        }
      }
      nodes.addStores(target, nodes.storesOf(source));
      nodes.free(source);
    }
  }

  /** Moves a holding, and leaves the node it was on to the caller. */
  #carry(slot: number, from: number, to: number): void {
    const { nodes, holdings } = this;
    const era = holdings.isOpen(slot) ? holdings.eraOf(slot) : undefined;
    if (era !== undefined && !nodes.isPlaced(from)) era.unplaced -= 1;
    if (era !== undefined && !nodes.isPlaced(to)) era.unplaced += 1;
    this.#unlink(slot, from);
    this.#link(slot, to);
  }

  /** Marks a node and its descendants as placed; each node at most once in its life. */
  #markPlaced(top: number): void {
    const { nodes, holdings } = this;
    let node = top;
    for (;;) {
      if (!nodes.isPlaced(node)) {
        nodes.markPlaced(node);
        for (let slot = nodes.firstHolding(node); slot !== 0; slot = holdings.nextOfNode(slot)) {
          const era = holdings.isOpen(slot) ? holdings.eraOf(slot) : undefined;
          if (era !== undefined) era.unplaced -= 1;
        }
      }
      const child = nodes.firstChild(node);
      if (child !== 0) {
        node = child;
        continue;
      }
      while (node !== top && nodes.nextSibling(node) === 0) node = nodes.parentOf(node);
      if (node === top) return;
      node = nodes.nextSibling(node);
    }
  }

  /** Gives up the live block stored longest ago. False when there is none. */
  #giveUpOldest(): boolean {
    const { holdings } = this;
    const slot = holdings.oldestLive;
    if (slot === 0) return false;
    if (holdings.isLive(slot)) this.drop(slot);
    else this.close(slot, 0, 'removed');
    return true;
  }

  /** Forgets the oldest history, or else gives up the oldest block. False when there is nothing. */
  #evict(): boolean {
    const slot = this.holdings.oldestHistory;
    if (slot === 0) return this.#giveUpOldest();
    this.drop(slot);
    return true;
  }

  /** Frees a node that nothing holds and nothing descends from, and its ancestors likewise. */
  #collect(start: number): void {
    const { nodes } = this;
    let node = start;
    while (node !== ROOT && node !== this.#pinned && nodes.isUsed(node) && nodes.firstHolding(node) === 0 && nodes.firstChild(node) === 0) {
      const parent = nodes.parentOf(node);
      nodes.free(node);
      node = parent;
    }
  }

  #link(slot: number, node: number): void {
    this.holdings.linkNode(slot, node, this.nodes.firstHolding(node));
    this.nodes.setFirstHolding(node, slot);
  }

  #unlink(slot: number, node: number): void {
    const first = this.holdings.unlinkNode(slot);
    if (first !== undefined) this.nodes.setFirstHolding(node, first);
  }
}

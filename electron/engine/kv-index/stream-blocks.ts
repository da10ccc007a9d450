/**
 * The blocks that one stream's engine holds and held, as its events say: the stream's door into the index. Residency is
 * per group, medium, locality and ownership; within one, copies are counted, because vLLM stores the same hash twice
 * when two requests compute it at once, and removes it twice.
 *
 * Known limit: a removal lost in a gap leaves its block here until the engine clears or restarts, or newer blocks
 * displace it. `lost` says so, and answers about the stream carry it.
 */
import type { LostRange } from './answers.ts';
import type { ResidentCount } from '#shared/kv.ts';
import type { StreamBooks } from '../kv-events/block-books.ts';
import { hashCount, highWord, lowWord } from '../kv-events/block-hashes.ts';
import type { KvEvent, RemovedEvent, ResidencyFields, StoredEvent } from '../kv-events/kv-event.ts';
import type { StreamIdentity } from '../kv-events/kv-row.ts';
import type { BlockGraph } from './block-graph.ts';
import type { BlockSink, EventContext } from './block-sink.ts';
import { Coverage } from './coverage.ts';
import { NO_EXTRA } from './extra-keys.ts';
import { Foresight } from './foresight.ts';
import type { EndReason } from './holding-columns.ts';
import { ROOT } from './node-table.ts';
import { Probe } from './probe.ts';
import { isNeeded, isOf, isPairedKind, normaliseMedium, skipsBlocks, type Residency, type Tier } from './residency.ts';
import type { Returns } from './returns.ts';
import { SecondCopies } from './second-copies.ts';

interface CurrentBlock {
  high: number;
  low: number;
  digest: string | undefined;
  atUnixMs: number;
  isReporting: boolean;
}

/** Real streams have a handful: groups times tiers. Beyond this, events name residencies that no engine has. */
const MAX_RESIDENCIES = 256;
/** Blocks removed in a row that the next store is said to have displaced. */
const MAX_PENDING = 4096;
/** The parent of a block is not known, not even as a hash. */
const UNKNOWN = -1;

export class StreamBlocks implements BlockSink, StreamBooks {
  readonly identity: StreamIdentity;
  readonly number: number;
  readonly coverage = new Coverage();
  /** Removals of hashes not held: normal after late attach or a gap. */
  unknownRemovals = 0;
  /** Blocks stored while they were held: copies. */
  duplicateStores = 0;
  /** Blocks found in the cache and announced (`EventContext.isReporting`): no input out of place. */
  announcedBlocks = 0;
  /** Events that continue a block never seen stored, in groups that serve prefixes. */
  unknownParents = 0;
  /** Blocks left out because the stream named too many residencies, or a chain longer than the index. */
  untracked = 0;
  /** On the GPU, where prefixes are served from. */
  readonly secondCopies = new SecondCopies();
  /** Blocks stored again after their eviction. */
  returns = 0;
  /** The engine's life, as counted here: 1 from the first on. */
  epoch = 1;
  isClosed = false;

  readonly #graph: BlockGraph;
  readonly #returns: Returns;
  readonly #foresight: Foresight;
  readonly #probe = new Probe();
  /** The block being stored; one object for all, as millions are. */
  readonly #block: CurrentBlock = { high: 0, low: 0, digest: undefined, atUnixMs: 0, isReporting: false };
  #residencies: Residency[] = [];
  #recent: Residency | undefined;
  #displacedBefore = 0;

  constructor(identity: StreamIdentity, number: number, shared: { readonly graph: BlockGraph; readonly returns: Returns }) {
    this.identity = identity;
    this.number = number;
    this.#graph = shared.graph;
    this.#foresight = new Foresight(shared.graph);
    this.#returns = shared.returns;
  }

  get residencies(): readonly Residency[] {
    return this.#residencies;
  }

  apply(event: KvEvent, context: EventContext): void {
    if (this.coverage.isOpen) this.coverage.close(context.atUnixMs);
    switch (event.kind) {
      case 'stored': this.#stored(event, context); break;
      case 'removed': this.#removed(event, context); break;
      case 'cleared': this.#reset(context.atUnixMs, 'cleared'); break;
      case 'unknown': case 'bad': break;
    }
  }

  expect(events: readonly KvEvent[]): void {
    this.#foresight.expect(this.number, events);
  }

  restart(atUnixMs: number): void {
    this.epoch += 1;
    this.#reset(atUnixMs, 'restart');
  }

  lost(range: LostRange): void {
    this.coverage.lost(range);
  }

  detach(atUnixMs: number): void {
    this.#reset(atUnixMs, 'detached');
    this.isClosed = true;
    for (const residency of this.#residencies) {
      residency.isClosed = true;
      if (residency.slots === 0) this.#graph.residencies[residency.number] = undefined;
    }
  }

  /** Watched again after `detach`; what happened in between is lost. Counts begin anew, as the stream's others do. */
  reopen(): void {
    this.isClosed = false;
    this.unknownRemovals = 0;
    this.duplicateStores = 0;
    this.announcedBlocks = 0;
    this.unknownParents = 0;
    this.untracked = 0;
    this.#residencies = this.#residencies.filter((residency) => this.#graph.residencies[residency.number] === residency);
    this.#recent = undefined;
    this.#displacedBefore = this.#displaced();
    for (const residency of this.#residencies) residency.isClosed = false;
  }

  /** Whether nothing is left of a closed stream. */
  isForgotten(): boolean {
    return this.isClosed && this.#residencies.every((residency) => residency.slots === 0);
  }

  get displaced(): number {
    return this.#displaced() - this.#displacedBefore;
  }

  counts(): ResidentCount[] {
    const byMedium = new Map<string, number>();
    for (const { medium, era } of this.#residencies) byMedium.set(medium, (byMedium.get(medium) ?? 0) + era.count);
    return Array.from(byMedium, ([medium, blocks]) => ({ medium, blocks }));
  }

  /** What it held up to here may be forgotten, of groups that serve prefixes. Minus infinity: nothing is. */
  get forgottenUntilUnixMs(): number {
    let until = Number.NEGATIVE_INFINITY;
    for (const { isPrefix, forgottenUntilUnixMs } of this.#residencies) if (isPrefix) until = Math.max(until, forgottenUntilUnixMs);
    return until;
  }

  /** Groups that its engine's prefix cache needs for a hit of blocks of this size, as told in its current life; 0 where kinds are not told. */
  neededGroups(blockSize: number): number {
    let count = 0;
    for (const residency of this.#residencies) if (residency.blockSize === blockSize && isNeeded(residency, this.epoch)) count += 1;
    return count;
  }

  /** Blocks held whose place in the tree is not known; on one medium, or on all. */
  unplaced(medium?: string): number {
    return this.#residencies.reduce((sum, residency) => (medium === undefined || residency.medium === medium ? sum + residency.era.unplaced : sum), 0);
  }

  #displaced(): number {
    return this.#residencies.reduce((sum, { evicted }) => sum + evicted, 0);
  }

  #stored(event: StoredEvent, context: EventContext): void {
    const { hashes, tokens } = event;
    const count = hashCount(hashes);
    const residency = this.#find(event) ?? this.#add(event);
    if (residency === undefined) {
      this.untracked += count;
      return;
    }
    const graph = this.#graph;
    // Sliding-window and Mamba groups skip masked blocks, so hashes and tokens pair up only where the kind says so and
    // the sum is exact (vllm/v1/core/block_pool.py).
    const isPairing = isPairedKind(event.specKind);
    const isPaired = isPairing && graph.keepsContent && event.blockSize > 0 && tokens.length === count * event.blockSize;
    if (isPaired) {
      if (event.blockSize > residency.blockSize || residency.sizeEpoch !== this.epoch) {
        residency.blockSize = event.blockSize;
        residency.sizeEpoch = this.epoch;
      }
      if (residency.neededEpoch !== this.epoch && event.specKind !== undefined && event.specKind !== 'unknown') residency.neededEpoch = this.epoch;
    } else if (!isPairing || skipsBlocks(event, count)) {
      residency.isPrefix = false;
    }
    const block = this.#block;
    block.atUnixMs = context.atUnixMs;
    // An announcement is of a prefix, on the GPU (vllm/v1/core/block_pool.py, emit_cached_block_events).
    block.isReporting = context.isReporting === true && event.parent === undefined && residency.medium === 'GPU';
    const hasKeys = event.extraKeys !== undefined || event.loraName !== undefined || event.loraId !== undefined || event.cacheSalt !== undefined;
    // Offload events leave extra keys out, so that only their presence says something there.
    const isKeyTold = event.extraKeys !== undefined || event.cacheSalt !== undefined || (event.medium !== undefined && residency.medium === 'GPU');
    let parent = isPaired ? this.#parentOf(event, residency) : UNKNOWN;
    for (let index = 0; index < count; index += 1) {
      const high = highWord(hashes, index);
      const low = lowWord(hashes, index);
      if (parent !== UNKNOWN) this.#probe.set(tokens.words, tokens.start + index * event.blockSize, event.blockSize);
      const held = graph.holdings.find(residency.number, high, low);
      if (held !== 0 && graph.holdings.isLive(held) && this.#isAsKnown(held, parent)) {
        this.#again(held);
        if (isPaired) parent = graph.holdings.nodeOf(held);
        continue;
      }
      if (parent !== UNKNOWN) graph.pin(parent);
      if (!graph.reserve(isPaired ? event.blockSize : 0)) {
        this.untracked += count - index;
        break;
      }
      // Making room may have freed what was found before.
      const slot = held === 0 ? 0 : graph.holdings.find(residency.number, high, low);
      const known = slot === 0 ? graph.holdings.nodeOfHash(this.number, high, low) : graph.holdings.nodeOf(slot);
      if (parent !== UNKNOWN) this.#probe.extra = hasKeys ? graph.extras.ofBlock(event, index, { isFirst: parent === ROOT, owner: this.identity.instance }) : NO_EXTRA;
      const node = this.#nodeOf(known, parent, isKeyTold);
      block.high = high;
      block.low = low;
      block.digest = hashes.digests?.[index];
      if (known !== 0 && node !== known) this.#follow(known, node);
      this.#hold(slot, residency, node);
      if (isPaired) parent = node;
    }
    graph.pin(ROOT);
  }

  /** The node of an event's parent; a hash never seen stored gets one of unknown content. */
  #parentOf(event: StoredEvent, residency: Residency): number {
    if (event.parent === undefined) return ROOT;
    const graph = this.#graph;
    const high = highWord(event.parent, 0);
    const low = lowWord(event.parent, 0);
    // Groups with larger blocks name them by the hash of the smaller block that they end with, so its own group is asked first.
    const slot = graph.holdings.find(residency.number, high, low);
    const known = slot === 0 ? graph.holdings.nodeOfHash(this.number, high, low) : graph.holdings.nodeOf(slot);
    // Or known only as what another block named as its parent.
    if (known === 0 || graph.nodes.storesOf(known) === 0) this.unknownParents += 1;
    if (known !== 0) return known;
    if (!graph.reserve(0)) return UNKNOWN;
    const node = graph.nodes.createUnknown();
    const made = graph.createHolding(residency, { high, low }, node);
    const digest = event.parent.digests?.[0];
    if (digest !== undefined) graph.holdings.setDigest(made, digest);
    return node;
  }

  /** Whether a store tells nothing new of a block that is held, so that it needs no room. The probe is at its content. */
  #isAsKnown(slot: number, parent: number): boolean {
    const { nodes, holdings } = this.#graph;
    const node = holdings.nodeOf(slot);
    if (parent === UNKNOWN) return true;
    if (!nodes.isKnown(node) || !nodes.hasTokens(node, this.#probe)) return false;
    return !nodes.isPlaced(parent) || (nodes.isPlaced(node) && nodes.parentOf(node) === parent);
  }

  /** A block that is held is stored once more. */
  #again(slot: number): void {
    const { atUnixMs, isReporting } = this.#block;
    const { nodes, holdings } = this.#graph;
    const residency = this.#graph.residencies[holdings.residencyOf(slot)];
    const node = holdings.nodeOf(slot);
    if (isReporting) this.announcedBlocks += 1;
    else this.duplicateStores += 1;
    nodes.countStore(node);
    holdings.again(slot, isReporting);
    if (residency?.isPrefix !== true || residency.medium !== 'GPU') return;
    if (isReporting) this.secondCopies.announced(atUnixMs);
    else this.secondCopies.add(atUnixMs, nodes.sizeOf(node));
  }

  /** The node of a block whose content the probe is at. */
  #nodeOf(known: number, parent: number, isKeyTold: boolean): number {
    const graph = this.#graph;
    if (parent === UNKNOWN) return known === 0 ? graph.nodes.createUnknown() : known;
    const { extra } = this.#probe;
    const node = graph.settle(known, parent, { probe: this.#probe, isKeyTold });
    if (extra !== NO_EXTRA) graph.extras.discard(extra);
    return node;
  }

  /** The block at hand is of the content of `node`, not of `known`, which its hash named until now: in every residency of the stream. */
  #follow(known: number, node: number): void {
    const graph = this.#graph;
    const { high, low } = this.#block;
    // Of other tokens it is another block, or another engine's life.
    if (!graph.nodes.isUsed(known) || !graph.nodes.hasTokens(known, this.#probe)) return;
    for (const { number } of this.#residencies) {
      const slot = graph.holdings.find(number, high, low);
      if (slot !== 0 && graph.holdings.nodeOf(slot) === known) graph.rehome(slot, node);
    }
  }

  /** Stores the block at hand, which is of the content of `node`. `found`: the slot that its hash has, or 0. */
  #hold(found: number, residency: Residency, node: number): void {
    const graph = this.#graph;
    const { holdings, nodes } = graph;
    const block = this.#block;
    let slot = found;
    if (slot !== 0 && holdings.isLive(slot)) {
      graph.rehome(slot, node);
      this.#again(slot);
      return;
    }
    nodes.countStore(node);
    if (slot === 0) slot = graph.createHolding(residency, block, node);
    else {
      graph.rehome(slot, node);
      if (holdings.isOpen(slot)) graph.close(slot, block.atUnixMs, 'removed');
    }
    if (block.digest !== undefined && holdings.digestOf(slot) === undefined) holdings.setDigest(slot, block.digest);
    const evictedAtUnixMs = holdings.evictedAt(slot);
    graph.open(slot, residency.era, block.atUnixMs);
    if (evictedAtUnixMs !== undefined) {
      this.returns += 1;
      this.#returns.add({
        stream: this.identity.id, node, generation: nodes.generationOf(node), tokens: nodes.sizeOf(node),
        evictedAtUnixMs, storedAtUnixMs: block.atUnixMs,
      });
    }
    const { pending } = residency.tier;
    if (pending.length === 0) return;
    for (const gone of pending) if (graph.residencies[holdings.residencyOf(gone)]?.tier === residency.tier) holdings.setDisplacer(gone, block.high, block.low);
    pending.length = 0;
  }

  #removed(event: RemovedEvent, { atUnixMs }: EventContext): void {
    const graph = this.#graph;
    const residency = this.#find(event);
    const { hashes } = event;
    const count = hashCount(hashes);
    for (let index = 0; index < count; index += 1) {
      const slot = residency === undefined ? 0 : graph.holdings.find(residency.number, highWord(hashes, index), lowWord(hashes, index));
      if (residency === undefined || slot === 0 || !graph.holdings.isLive(slot)) {
        this.unknownRemovals += 1;
        continue;
      }
      const left = event.remainingCopies?.[index] ?? graph.holdings.copiesOf(slot) - 1;
      if (left > 0) {
        graph.holdings.setCopies(slot, left);
        continue;
      }
      graph.close(slot, atUnixMs, 'removed');
      if (residency.tier.pending.length >= MAX_PENDING) continue;
      graph.holdings.awaitDisplacer(slot);
      residency.tier.pending.push(slot);
    }
  }

  /** A prefix-cache reset speaks of this rank's GPU only; other tiers keep their blocks. */
  #reset(atUnixMs: number, reason: Exclude<EndReason, 'removed'>): void {
    for (const residency of this.#residencies) {
      if (reason === 'cleared' && residency.medium !== 'GPU') continue;
      // Blocks given up while they were held went now, and are not remembered.
      if (residency.era.givenUp > 0) residency.forgottenUntilUnixMs = Math.max(residency.forgottenUntilUnixMs, atUnixMs);
      if (residency.era.unplaced > 0) residency.unplacedUntilUnixMs = Math.max(residency.unplacedUntilUnixMs, atUnixMs);
      this.#graph.holdings.end(residency.era, atUnixMs, reason);
      residency.era = this.#graph.holdings.begin(residency.number, this.number, this.epoch);
      residency.eraSinceUnixMs = atUnixMs;
      residency.resetReason = reason;
      residency.tier.pending.length = 0;
      // The engine may be another one, with other groups.
      if (reason === 'restart') residency.isPrefix = true;
    }
  }

  #find(event: ResidencyFields): Residency | undefined {
    const recent = this.#recent;
    return recent !== undefined && isOf(recent, event, normaliseMedium(event.medium)) ? recent : this.#findAmongAll(event);
  }

  /** By itself, as the function it makes costs an object even where it is not called. */
  #findAmongAll(event: ResidencyFields): Residency | undefined {
    const medium = normaliseMedium(event.medium);
    const found = this.#residencies.find((residency) => isOf(residency, event, medium));
    if (found !== undefined) this.#recent = found;
    return found;
  }

  #add(event: ResidencyFields): Residency | undefined {
    if (this.#residencies.length >= MAX_RESIDENCIES) return undefined;
    const medium = normaliseMedium(event.medium);
    const number = this.#graph.residencies.length;
    const tier: Tier = this.#residencies.find((residency) => residency.medium === medium)?.tier ?? { pending: [] };
    const residency: Residency = {
      number, stream: this.identity, streamNumber: this.number, medium, tier,
      groupIdx: event.groupIdx, locality: event.locality, ownership: event.ownership,
      era: this.#graph.holdings.begin(number, this.number, this.epoch),
      eraSinceUnixMs: Number.NEGATIVE_INFINITY, resetReason: undefined,
      slots: 0, isPrefix: true, blockSize: 0, sizeEpoch: this.epoch, neededEpoch: 0, evicted: 0, forgottenUntilUnixMs: Number.NEGATIVE_INFINITY, unplacedUntilUnixMs: Number.NEGATIVE_INFINITY, isClosed: false,
    };
    this.#graph.residencies.push(residency);
    this.#residencies.push(residency);
    return residency;
  }
}

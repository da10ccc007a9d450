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
import type { KvEvent, RemovedEvent, ResidencyFields, StoredEvent } from '../kv-events/kv-event.ts';
import type { StreamIdentity } from '../kv-events/kv-row.ts';
import type { BlockGraph } from './block-graph.ts';
import { Coverage } from './coverage.ts';
import { NO_EXTRA } from './extra-keys.ts';
import type { EndReason } from './holding-columns.ts';
import { ROOT } from './node-table.ts';
import { Probe } from './probe.ts';
import { isPairedKind, type Residency, type Tier } from './residency.ts';
import type { Returns } from './returns.ts';

/** What an event is told with. */
export interface EventContext {
  /** When blocks count as stored or removed: the publisher's clock, or the receipt where it has none. */
  readonly atUnixMs: number;
  /**
   * Stores of blocks already held are announcements of reuse, not copies: requests ask this engine for
   * `kv_cache_report_mode: "full"` (vLLM since 2026-07). On the wire the two look the same. Default false.
   */
  readonly isReporting?: boolean;
}

/** What a stream tells the index, in the order in which its engine said it. */
export interface BlockSink {
  /** Events that say nothing about blocks change nothing. */
  apply(event: KvEvent, context: EventContext): void;
  /** The engine started anew: what it held is gone, and kept as history of the epoch before. */
  restart(atUnixMs: number): void;
  /** Batches are missing, or were sent before the stream was watched. */
  lost(range: LostRange): void;
  /** The stream is watched no more: what it holds from now on is unknown. */
  detach(atUnixMs: number): void;
}

/** Real streams have a handful: groups times tiers. Beyond this, events name residencies that no engine has. */
const MAX_RESIDENCIES = 256;
/** Blocks removed in a row that the next store is said to have displaced. */
const MAX_PENDING = 4096;
/** The parent of a block is not known, not even as a hash. */
const UNKNOWN = -1;

export class StreamBlocks implements BlockSink {
  readonly identity: StreamIdentity;
  readonly number: number;
  readonly coverage = new Coverage();
  /** Removals of hashes not held: normal after late attach or a gap. */
  unknownRemovals = 0;
  /** Blocks left out because the stream named too many residencies, or a chain longer than the index. */
  untracked = 0;
  /** Blocks stored again after their eviction. */
  returns = 0;
  /** The engine's life, as counted here: 1 from the first on. */
  epoch = 1;
  isClosed = false;

  readonly #graph: BlockGraph;
  readonly #returns: Returns;
  readonly #probe = new Probe();
  #residencies: Residency[] = [];
  #recent: Residency | undefined;

  constructor(identity: StreamIdentity, number: number, shared: { readonly graph: BlockGraph; readonly returns: Returns }) {
    this.identity = identity;
    this.number = number;
    this.#graph = shared.graph;
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

  /** Watched again after `detach`; what happened in between is lost. */
  reopen(): void {
    this.isClosed = false;
    this.#residencies = this.#residencies.filter((residency) => this.#graph.residencies[residency.number] === residency);
    this.#recent = undefined;
    for (const residency of this.#residencies) residency.isClosed = false;
  }

  /** Whether nothing is left of a closed stream. */
  isForgotten(): boolean {
    return this.isClosed && this.#residencies.every((residency) => residency.slots === 0);
  }

  /** Blocks by medium, for media that were seen; a medium that was emptied counts 0. */
  counts(): ResidentCount[] {
    const byMedium = new Map<string, number>();
    for (const { medium, era } of this.#residencies) byMedium.set(medium, (byMedium.get(medium) ?? 0) + era.count);
    return Array.from(byMedium, ([medium, blocks]) => ({ medium, blocks }));
  }

  /** Blocks held whose place in the tree is not known. */
  unplaced(): number {
    return this.#residencies.reduce((sum, { era }) => sum + era.unplaced, 0);
  }

  #stored(event: StoredEvent, context: EventContext): void {
    const { words, digests } = event.hashes;
    const count = words.length / 2;
    const residency = this.#find(event) ?? this.#add(event);
    if (residency === undefined) {
      this.untracked += count;
      return;
    }
    const graph = this.#graph;
    // Sliding-window and Mamba groups skip masked blocks, so hashes and tokens pair up only where the kind says so and
    // the sum is exact (vllm/v1/core/block_pool.py).
    const isPaired = event.blockSize > 0 && event.tokens.length === count * event.blockSize && isPairedKind(event.specKind);
    if (isPaired) residency.blockSize = event.blockSize;
    else if (!isPairedKind(event.specKind)) residency.isPrefix = false;
    let parent = isPaired ? this.#parentOf(event, residency) : UNKNOWN;
    for (let index = 0; index < count; index += 1) {
      if (parent !== UNKNOWN) graph.pin(parent);
      if (!graph.reserve(isPaired ? event.blockSize : 0)) {
        this.untracked += count - index;
        break;
      }
      const high = words[index * 2] ?? 0;
      const low = words[index * 2 + 1] ?? 0;
      const slot = graph.holdings.find(residency.number, high, low);
      const node = this.#nodeOf(event, index, { parent, known: slot === 0 ? graph.holdings.nodeOfHash(this.number, high, low) : graph.holdings.nodeOf(slot) });
      this.#hold(slot, residency, { high, low, node, digest: digests?.[index], context });
      if (isPaired) parent = node;
    }
    graph.pin(ROOT);
  }

  /** The node of an event's parent; a hash never seen stored gets one of unknown content. */
  #parentOf(event: StoredEvent, residency: Residency): number {
    if (event.parent === undefined) return ROOT;
    const graph = this.#graph;
    const high = event.parent.words[0] ?? 0;
    const low = event.parent.words[1] ?? 0;
    const known = graph.holdings.nodeOfHash(this.number, high, low);
    if (known !== 0) return known;
    if (!graph.reserve(0)) return UNKNOWN;
    const node = graph.nodes.createUnknown();
    const slot = graph.createHolding(residency, [high, low], node);
    const digest = event.parent.digests?.[0];
    if (digest !== undefined) graph.holdings.setDigest(slot, digest);
    return node;
  }

  #nodeOf(event: StoredEvent, index: number, { parent, known }: { readonly parent: number; readonly known: number }): number {
    const graph = this.#graph;
    if (parent === UNKNOWN) return known === 0 ? graph.nodes.createUnknown() : known;
    const probe = this.#probe;
    probe.set(event.tokens, index * event.blockSize, event.blockSize);
    const extra = graph.extras.ofBlock(event, index, { isFirst: parent === ROOT, owner: this.identity.instance });
    probe.extra = extra;
    const node = graph.settle(known, parent, probe);
    if (extra !== NO_EXTRA) graph.extras.discard(extra);
    return node;
  }

  #hold(found: number, residency: Residency, block: { readonly high: number; readonly low: number; readonly node: number; readonly digest: string | undefined; readonly context: EventContext }): void {
    const graph = this.#graph;
    const { holdings, nodes } = graph;
    const { high, low, node, context } = block;
    nodes.countStore(node);
    let slot = found;
    if (slot !== 0 && holdings.isLive(slot)) {
      graph.rehome(slot, node);
      holdings.again(slot, context.isReporting === true);
      return;
    }
    if (slot === 0) slot = graph.createHolding(residency, [high, low], node);
    else {
      graph.rehome(slot, node);
      if (holdings.isOpen(slot)) graph.close(slot, context.atUnixMs, 'removed');
    }
    if (block.digest !== undefined && holdings.digestOf(slot) === undefined) holdings.setDigest(slot, block.digest);
    const evictedAtUnixMs = holdings.evictedAt(slot);
    graph.open(slot, residency.era, context.atUnixMs);
    if (evictedAtUnixMs !== undefined) {
      this.returns += 1;
      this.#returns.add({
        stream: this.identity.id, node, generation: nodes.generationOf(node), tokens: nodes.sizeOf(node),
        evictedAtUnixMs, storedAtUnixMs: context.atUnixMs,
      });
    }
    const { pending } = residency.tier;
    if (pending.length === 0) return;
    for (const gone of pending) if (graph.residencies[holdings.residencyOf(gone)]?.tier === residency.tier) holdings.setDisplacer(gone, high, low);
    pending.length = 0;
  }

  #removed(event: RemovedEvent, { atUnixMs }: EventContext): void {
    const graph = this.#graph;
    const residency = this.#find(event);
    const { words } = event.hashes;
    for (let index = 0; index < words.length / 2; index += 1) {
      const slot = residency === undefined ? 0 : graph.holdings.find(residency.number, words[index * 2] ?? 0, words[index * 2 + 1] ?? 0);
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
      this.#graph.holdings.end(residency.era, atUnixMs, reason);
      residency.era = this.#graph.holdings.begin(residency.number, this.number, this.epoch);
      residency.eraSinceUnixMs = atUnixMs;
      residency.resetReason = reason;
      residency.tier.pending.length = 0;
    }
  }

  #find(event: ResidencyFields): Residency | undefined {
    const recent = this.#recent;
    if (recent !== undefined && isOf(recent, event, normaliseMedium(event.medium))) return recent;
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
      slots: 0, isPrefix: true, blockSize: 0, evicted: 0, forgottenUntilUnixMs: Number.NEGATIVE_INFINITY, isClosed: false,
    };
    this.#graph.residencies.push(residency);
    this.#residencies.push(residency);
    return residency;
  }
}

function isOf(residency: Residency, event: ResidencyFields, medium: string): boolean {
  return residency.medium === medium && residency.groupIdx === event.groupIdx
    && residency.locality === event.locality && residency.ownership === event.ownership;
}

const upperCased = new Map<string, string>();

/** Media are compared case-insensitively (Mooncake's store says `cpu`), and nil means the engine's own GPU pool. */
export function normaliseMedium(medium: string | undefined): string {
  if (medium === undefined) return 'GPU';
  let upper = upperCased.get(medium);
  if (upper === undefined) {
    upper = medium.toUpperCase();
    if (upperCased.size < 256) upperCased.set(medium, upper);
  }
  return upper;
}

/**
 * The blocks that one stream's engine holds, as its events say. Residency is per group, medium, locality and
 * ownership; within one, copies are counted, because vLLM stores the same hash twice when two requests compute it at
 * once, and removes it twice. Blocks themselves live in the BlockStore that all streams share.
 *
 * Known limits: a request with `kv_cache_report_mode: "full"` makes vLLM announce reused blocks again, which counts as
 * copies that no removal takes back; and a removal lost in a gap leaves its block here until the engine clears or
 * restarts, or newer blocks displace it.
 */
import type { ResidentCount } from '#shared/kv.ts';
import type { BlockHashes } from './block-hashes.ts';
import type { BlockStore, Owner } from './block-store.ts';
import type { KvEvent, RemovedEvent, ResidencyFields, StoredEvent } from './kv-event.ts';

export interface Residency {
  /** Upper case; `GPU` when the engine did not say. */
  readonly medium: string;
  readonly groupIdx: number | undefined;
  readonly locality: string | undefined;
  readonly ownership: string | undefined;
  owner: Owner;
}

/** Real streams have a handful: groups times tiers. Beyond this, events name residencies that no engine has. */
const MAX_RESIDENCIES = 256;

export class ResidentTable {
  /** Removals of hashes not held: normal after late attach or a gap. */
  unknownRemovals = 0;
  /** Stores left out because the stream named too many residencies. */
  untracked = 0;

  readonly #store: BlockStore;
  #residencies: Residency[] = [];

  constructor(store: BlockStore) {
    this.#store = store;
  }

  get residencies(): readonly Residency[] {
    return this.#residencies;
  }

  /** Applies one event; events that say nothing about blocks change nothing. `atUnixMs`: when blocks count as stored. */
  apply(event: KvEvent, atUnixMs: number): void {
    switch (event.kind) {
      case 'stored': this.#stored(event, atUnixMs); break;
      case 'removed': this.#removed(event); break;
      case 'cleared': this.#cleared(); break;
      case 'unknown': case 'bad': break;
    }
  }

  /** Forgets everything: the engine restarted, or the stream is gone. */
  reset(): void {
    for (const residency of this.#residencies) this.#store.retire(residency.owner);
    this.#residencies = [];
  }

  /** Blocks by medium, for media that were seen; a medium that was emptied counts 0. */
  counts(): ResidentCount[] {
    const byMedium = new Map<string, number>();
    for (const { medium, owner } of this.#residencies) byMedium.set(medium, (byMedium.get(medium) ?? 0) + owner.count);
    return Array.from(byMedium, ([medium, blocks]) => ({ medium, blocks }));
  }

  #stored(event: StoredEvent, atUnixMs: number): void {
    const residency = this.#find(event) ?? this.#add(event);
    const { words, digests } = event.hashes;
    if (residency === undefined) {
      this.untracked += words.length / 2;
      return;
    }
    const count = words.length / 2;
    // Sliding-window and Mamba groups skip masked blocks, so hashes and tokens pair up only when the sum is exact
    // (vllm/v1/core/block_pool.py). Then the chain inside the event is known too.
    const isExact = event.blockSize > 0 && event.tokens.length === count * event.blockSize;
    for (let index = 0; index < count; index += 1) {
      const chain: BlockHashes | undefined = !isExact ? undefined : index === 0 ? event.parent : event.hashes;
      const link = Math.max(0, index - 1);
      this.#store.store(residency.owner, words[index * 2] ?? 0, words[index * 2 + 1] ?? 0, {
        blockSize: event.blockSize,
        atUnixMs,
        parent: chain === undefined ? undefined : [chain.words[link * 2] ?? 0, chain.words[link * 2 + 1] ?? 0],
        digest: digests?.[index],
        parentDigest: chain?.digests?.[link],
        tokens: isExact ? event.tokens : undefined,
        tokenOffset: index * event.blockSize,
      });
    }
  }

  #removed(event: RemovedEvent): void {
    const residency = this.#find(event);
    const { words } = event.hashes;
    for (let index = 0; index < words.length; index += 2) {
      const isKnown = residency !== undefined && this.#store.remove(residency.owner, words[index] ?? 0, words[index + 1] ?? 0);
      if (!isKnown) this.unknownRemovals += 1;
    }
  }

  /** A prefix-cache reset speaks of this rank's GPU only; other tiers keep their blocks. */
  #cleared(): void {
    for (const residency of this.#residencies) {
      if (residency.medium !== 'GPU') continue;
      this.#store.retire(residency.owner);
      residency.owner = this.#store.createOwner();
    }
  }

  #find(event: ResidencyFields): Residency | undefined {
    const medium = normaliseMedium(event.medium);
    for (const residency of this.#residencies) {
      if (
        residency.medium === medium && residency.groupIdx === event.groupIdx
        && residency.locality === event.locality && residency.ownership === event.ownership
      ) return residency;
    }
    return undefined;
  }

  #add(event: ResidencyFields): Residency | undefined {
    if (this.#residencies.length >= MAX_RESIDENCIES) return undefined;
    const residency: Residency = {
      medium: normaliseMedium(event.medium),
      groupIdx: event.groupIdx,
      locality: event.locality,
      ownership: event.ownership,
      owner: this.#store.createOwner(),
    };
    this.#residencies.push(residency);
    return residency;
  }
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

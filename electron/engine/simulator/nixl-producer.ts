/**
 * The prefill side of NIXL pull for one engine core: blocks of finished requests stay pinned until a decode instance has
 * pulled them or the lease ends. A reference works once; afterwards, or after a restart, it is refused.
 */
import type { Block } from './kv-cache.ts';

export type NixlAnswer = { readonly isOk: true } | { readonly isOk: false; readonly reason: string };

/** What a decode instance may ask of the producer of its reference. */
export interface NixlProducer {
  readonly engineId: string;
  /** A pull begins. */
  open(requestId: string, blockIds: readonly number[]): NixlAnswer;
  /** The pull is complete, or not wanted any more: the blocks may go. */
  done(requestId: string): NixlAnswer;
  /** Renews the lease while the decode side's queue holds the request. */
  heartbeat(requestId: string): NixlAnswer;
}

export interface LeaseOptions {
  readonly engineId: string;
  readonly leaseMs: number;
  readonly release: (blocks: readonly Block[]) => void;
  readonly onExpired: () => void;
}

interface Lease {
  readonly blocks: readonly Block[];
  timer: NodeJS.Timeout;
}

export class NixlLeases implements NixlProducer {
  readonly engineId: string;
  readonly #options: LeaseOptions;
  readonly #leases = new Map<string, Lease>();
  /** Leases dropped or expired count as one thing for the decode side: the reference is stale. */
  constructor(options: LeaseOptions) {
    this.engineId = options.engineId;
    this.#options = options;
  }

  get pinnedBlocks(): number {
    let count = 0;
    for (const { blocks } of this.#leases.values()) count += blocks.length;
    return count;
  }

  get count(): number {
    return this.#leases.size;
  }

  keep(requestId: string, blocks: readonly Block[]): void {
    this.#leases.set(requestId, { blocks, timer: this.#timer(requestId) });
  }

  open(requestId: string, blockIds: readonly number[]): NixlAnswer {
    const lease = this.#leases.get(requestId);
    if (lease === undefined) return this.#unknown(requestId);
    const held = new Set(lease.blocks.map((block) => block.id));
    const foreign = blockIds.find((id) => !held.has(id));
    if (foreign !== undefined) return { isOk: false, reason: `block ${foreign} is not held for request ${requestId}` };
    this.#renew(requestId, lease);
    return { isOk: true };
  }

  done(requestId: string): NixlAnswer {
    const lease = this.#leases.get(requestId);
    if (lease === undefined) return this.#unknown(requestId);
    this.#end(requestId, lease);
    return { isOk: true };
  }

  heartbeat(requestId: string): NixlAnswer {
    const lease = this.#leases.get(requestId);
    if (lease === undefined) return this.#unknown(requestId);
    this.#renew(requestId, lease);
    return { isOk: true };
  }

  /** Frees everything at once, as the `drop-lease` fault does. Answers how many leases went. */
  dropAll(): number {
    const count = this.#leases.size;
    for (const [requestId, lease] of this.#leases) this.#end(requestId, lease);
    return count;
  }

  #unknown(requestId: string): NixlAnswer {
    return { isOk: false, reason: `no blocks are held for request ${requestId}: pulled already, expired, or from an earlier life` };
  }

  #renew(requestId: string, lease: Lease): void {
    clearTimeout(lease.timer);
    lease.timer = this.#timer(requestId);
  }

  #timer(requestId: string): NodeJS.Timeout {
    const timer = setTimeout(() => {
      const lease = this.#leases.get(requestId);
      if (lease === undefined) return;
      this.#end(requestId, lease);
      this.#options.onExpired();
    }, this.#options.leaseMs);
    return timer.unref();
  }

  #end(requestId: string, lease: Lease): void {
    clearTimeout(lease.timer);
    this.#leases.delete(requestId);
    this.#options.release(lease.blocks);
  }
}

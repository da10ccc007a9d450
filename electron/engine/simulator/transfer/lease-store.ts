/**
 * The producer's side of every protocol for one engine core: blocks of finished requests stay pinned under a key until a
 * peer has copied them or their time is over. Only the key differs: the internal request id (NIXL pull), the request id
 * without suffix (push), or the transfer id (Mooncake, MoRIIO). A key works once.
 * A peer may ask before the blocks are there and wait; its wait ends with them, with its deadline, or with its abort.
 */
import type { Block } from '../kv-cache.ts';
import { mixSeed } from '../prng.ts';

export type StoreAnswer = { readonly isOk: true } | { readonly isOk: false; readonly reason: string };

/** `isGarbage`: what is copied is not the KV of the consumer's tokens. Engines do not notice; the simulation counts it. */
export type OpenAnswer = { readonly isOk: true; readonly isGarbage: boolean } | { readonly isOk: false; readonly reason: string };

/** What a consumer is about to copy: so many tokens from the start, and which ones it believes them to be. */
export interface CopyCheck {
  readonly tokens: number;
  readonly digest: number;
}

export interface OpenRequest {
  readonly key: string;
  /** Blocks to read; empty where the protocol does not name them. */
  readonly blockIds: readonly number[];
  readonly check: CopyCheck;
  /** How long to wait for a key that is not there yet, milliseconds; 0 = refuse at once. */
  readonly waitMs: number;
  /** A registration outlives the abort of its waiter: the blocks are freed as soon as they are there (push, WRITE). */
  readonly isRegistration: boolean;
}

export interface KeptKv {
  readonly blocks: readonly Block[];
  /** Tokens whose KV is in the blocks. */
  readonly tokens: readonly number[];
  /** The KV was itself computed on a corrupted load. */
  readonly isGarbage: boolean;
  readonly forMs: number;
}

export interface LeaseStoreOptions {
  readonly release: (blocks: readonly Block[]) => void;
  readonly onExpired: () => void;
}

interface Lease extends KeptKv {
  timer: NodeJS.Timeout;
}

interface Waiter {
  readonly answer: () => void;
  readonly refuse: (reason: string) => void;
}

/** Digest of the first `count` tokens, for CopyCheck. */
export function digestTokens(tokens: readonly number[], count: number): number {
  return mixSeed(tokens.length === count ? tokens : tokens.slice(0, count));
}

export class LeaseStore {
  readonly #options: LeaseStoreOptions;
  readonly #leases = new Map<string, Lease>();
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Keys whose consumer registered and left, with the end of their wait. */
  readonly #deserted = new Map<string, NodeJS.Timeout>();
  #isClosed = false;

  constructor(options: LeaseStoreOptions) {
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

  /** Takes over the caller's reference to the blocks. A key that is still held loses its old blocks. */
  keep(key: string, kept: KeptKv): void {
    const earlier = this.#leases.get(key);
    if (earlier !== undefined) this.#end(key, earlier);
    const deserted = this.#deserted.get(key);
    if (deserted !== undefined) {
      clearTimeout(deserted);
      this.#deserted.delete(key);
      this.#options.release(kept.blocks);
      return;
    }
    this.#leases.set(key, { ...kept, timer: this.#timer(key, kept.forMs) });
    for (const waiter of this.#waiters.get(key) ?? []) waiter.answer();
  }

  open(request: OpenRequest, signal: AbortSignal): Promise<OpenAnswer> {
    const lease = this.#leases.get(request.key);
    if (lease !== undefined) return Promise.resolve(this.#opened(request, lease));
    if (request.waitMs <= 0 || this.#isClosed) return Promise.resolve({ isOk: false, reason: this.#unknown(request.key) });
    return this.#waitFor(request, signal);
  }

  done(key: string): StoreAnswer {
    const lease = this.#leases.get(key);
    if (lease === undefined) return { isOk: false, reason: this.#unknown(key) };
    this.#end(key, lease);
    return { isOk: true };
  }

  heartbeat(key: string): StoreAnswer {
    const lease = this.#leases.get(key);
    if (lease === undefined) return { isOk: false, reason: this.#unknown(key) };
    this.#renew(key, lease);
    return { isOk: true };
  }

  /** Frees everything at once, as the `drop-lease` fault does. Answers how many leases went. */
  dropAll(): number {
    const count = this.#leases.size;
    for (const [key, lease] of this.#leases) this.#end(key, lease);
    return count;
  }

  /** The engine is gone: nothing is held, and whoever waits learns it. */
  close(): void {
    this.#isClosed = true;
    this.dropAll();
    for (const timer of this.#deserted.values()) clearTimeout(timer);
    this.#deserted.clear();
    for (const waiters of this.#waiters.values()) for (const waiter of waiters) waiter.refuse('the engine is gone');
  }

  #waitFor(request: OpenRequest, signal: AbortSignal): Promise<OpenAnswer> {
    const { key, waitMs } = request;
    const endsAtMs = performance.now() + waitMs;
    return new Promise((resolve) => {
      const end = (answer: OpenAnswer): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', leave);
        const waiters = this.#waiters.get(key);
        waiters?.delete(waiter);
        if (waiters?.size === 0) this.#waiters.delete(key);
        resolve(answer);
      };
      const refuse = (reason: string): void => end({ isOk: false, reason });
      const leave = (): void => {
        refuse('the consumer left');
        if (request.isRegistration && !this.#isClosed) this.#desert(key, endsAtMs - performance.now());
      };
      const answer = (): void => {
        const lease = this.#leases.get(key);
        end(lease === undefined ? { isOk: false, reason: this.#unknown(key) } : this.#opened(request, lease));
      };
      const timer = setTimeout(() => refuse(`no KV for ${key} within ${waitMs} ms`), waitMs).unref();
      const waiter: Waiter = { answer, refuse };
      const waiters = this.#waiters.get(key) ?? new Set<Waiter>();
      this.#waiters.set(key, waiters.add(waiter));
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave);
    });
  }

  #desert(key: string, forMs: number): void {
    clearTimeout(this.#deserted.get(key));
    this.#deserted.set(key, setTimeout(() => this.#deserted.delete(key), Math.max(0, forMs)).unref());
  }

  #opened({ key, blockIds, check }: OpenRequest, lease: Lease): OpenAnswer {
    const held = new Set(lease.blocks.map((block) => block.id));
    const foreign = blockIds.find((id) => !held.has(id));
    if (foreign !== undefined) return { isOk: false, reason: `block ${foreign} is not held for ${key}` };
    this.#renew(key, lease);
    const isSame = check.tokens <= lease.tokens.length && digestTokens(lease.tokens, check.tokens) === check.digest;
    return { isOk: true, isGarbage: lease.isGarbage || !isSame };
  }

  #unknown(key: string): string {
    return `no blocks are held for ${key}: copied already, expired, or from an earlier life`;
  }

  #renew(key: string, lease: Lease): void {
    clearTimeout(lease.timer);
    lease.timer = this.#timer(key, lease.forMs);
  }

  #timer(key: string, forMs: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      const lease = this.#leases.get(key);
      if (lease === undefined) return;
      this.#end(key, lease);
      this.#options.onExpired();
    }, forMs);
    return timer.unref();
  }

  #end(key: string, lease: Lease): void {
    clearTimeout(lease.timer);
    this.#leases.delete(key);
    this.#options.release(lease.blocks);
  }
}

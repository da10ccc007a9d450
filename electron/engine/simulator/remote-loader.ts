/**
 * Getting a prompt's KV from elsewhere before a sequence may run: what the transfer protocol planned, with heartbeats while
 * the sequence still waits for blocks, and reads from a shared store. The blocks are the caller's; this only takes the time
 * it takes and says whether the data came, and whether it was the right data.
 */
import type { EngineMetrics } from './engine-metrics.ts';
import type { Sequence } from './sequence.ts';
import { KV_BYTES_PER_TOKEN } from './sim-model.ts';
import type { ResolvedSimOptions } from './sim-options.ts';
import { digestTokens } from './transfer/lease-store.ts';
import type { LoadPlan, RemoteSource } from './transfer/transfer.ts';

/** vLLM renews at a sixth of the lease. */
const HEARTBEATS_PER_LEASE = 6;

type FetchPlan = Extract<LoadPlan, { kind: 'fetch' }>;

export interface RemoteLoaderOptions {
  readonly options: ResolvedSimOptions;
  readonly slowdown: () => number;
  readonly metrics: () => EngineMetrics | undefined;
  /** `computed` and `externalTokens` are set. Also called for an aborted sequence, whose blocks are then free to go. */
  readonly onLoaded: (sequence: Sequence) => void;
  /** The same for a load that failed; `isRemoteDone` is set, so that a recompute does not ask again. */
  readonly onFailed: (sequence: Sequence, reason: string) => void;
  /** An exception that ends this request whatever the policy says. */
  readonly onRaised: (sequence: Sequence, reason: string) => void;
  /** An assertion: the engine is dead. */
  readonly onFatal: (reason: string) => void;
}

export class RemoteLoader {
  /** Loads that copied another prompt's KV. */
  corrupted = 0;
  readonly #input: RemoteLoaderOptions;
  readonly #heartbeats = new Map<Sequence, NodeJS.Timeout>();
  /** Sequences that wait for a producer; nothing is being copied yet. */
  readonly #waits = new Map<Sequence, AbortController>();
  readonly #copying = new Set<Sequence>();
  #isClosed = false;

  constructor(input: RemoteLoaderOptions) {
    this.#input = input;
  }

  /** Decides what a new sequence must wait for. */
  prepare(sequence: Sequence): void {
    const { options } = this.#input;
    const { load } = sequence;
    if (load.kind !== 'none') {
      sequence.isRemoteDone = false;
      if (load.kind === 'fetch') this.#startHeartbeat(sequence, load.source);
      else options.logger.warn({ instance: options.name, request: sequence.spec.id, reason: load.reason }, 'kv_transfer_params cannot work');
      return;
    }
    const { sharedStore, blockSize } = options;
    if (sharedStore !== undefined && sharedStore.prefixTokens(sequence.tokens, blockSize) > 0) sequence.isRemoteDone = false;
  }

  /** The sequence has its blocks: fetch. The caller is inside its plan, so every answer comes later. */
  start(sequence: Sequence): void {
    this.#stopHeartbeat(sequence);
    const { load } = sequence;
    switch (load.kind) {
      case 'none':
        this.#readStore(sequence);
        return;
      case 'fetch':
        void this.#fetch(sequence, load);
        return;
      case 'raise':
        queueMicrotask(() => this.#input.onRaised(sequence, load.reason));
        return;
      case 'assert':
        queueMicrotask(() => this.#input.onFatal(load.reason));
        return;
      case 'wait-forever':
        return;
    }
  }

  /**
   * The sequence will not run: ends its wait, or lets the producer free its blocks. Answers whether a copy is under way, in
   * which case the blocks must stay until `onLoaded` or `onFailed`.
   */
  abandon(sequence: Sequence): boolean {
    this.#stopHeartbeat(sequence);
    if (this.#copying.has(sequence)) return true;
    const wait = this.#waits.get(sequence);
    if (wait !== undefined) wait.abort();
    else if (sequence.load.kind === 'fetch' && !sequence.isRemoteDone && sequence.scheduledMs === undefined) {
      sequence.isRemoteDone = true;
      void sequence.load.source.done();
    }
    return false;
  }

  /** The process ends: nobody is told anything, and producers find out by their leases. */
  close(): void {
    this.#isClosed = true;
    for (const sequence of this.#heartbeats.keys()) this.#stopHeartbeat(sequence);
    for (const wait of this.#waits.values()) wait.abort();
  }

  async #fetch(sequence: Sequence, { source, tokens, minGain }: FetchPlan): Promise<void> {
    const { options } = this.#input;
    const count = Math.min(tokens, sequence.promptLength - 1);
    if (count - sequence.computed < Math.max(1, minGain)) {
      // Not worth a transfer. A producer that expects one is told that none will come.
      queueMicrotask(() => this.#loaded(sequence, sequence.computed));
      if (minGain === 0) void source.done();
      return;
    }
    const startedMs = performance.now();
    const wait = new AbortController();
    this.#waits.set(sequence, wait);
    const opened = await source.open({ tokens: count, digest: digestTokens(sequence.tokens, count) }, wait.signal);
    this.#waits.delete(sequence);
    if (wait.signal.aborted) {
      if (opened.isOk && !this.#isClosed) void source.done();
      return;
    }
    if (!opened.isOk) {
      this.#failed(sequence, opened.reason);
      return;
    }
    this.#copying.add(sequence);
    const blocks = Math.max(0, Math.ceil((count + 1) / options.blockSize) - sequence.storedBlocks);
    await this.#wait(blocks);
    if (this.#isClosed) return;
    const done = await source.done();
    this.#copying.delete(sequence);
    if (!done.isOk) {
      this.#failed(sequence, done.reason);
      return;
    }
    this.#observe((performance.now() - startedMs) / 1000, blocks);
    if (opened.isGarbage) {
      this.corrupted += 1;
      sequence.isGarbage = true;
    }
    this.#loaded(sequence, count);
  }

  #observe(seconds: number, blocks: number): void {
    const nixl = this.#input.metrics()?.nixl;
    nixl?.xferS.observe(seconds);
    nixl?.postS.observe(0.0002 + blocks * 0.00001);
    nixl?.bytes.observe(blocks * this.#input.options.blockSize * KV_BYTES_PER_TOKEN);
    nixl?.descriptors.observe(blocks);
  }

  #readStore(sequence: Sequence): void {
    const { sharedStore, blockSize } = this.#input.options;
    const found = Math.min(sharedStore?.prefixTokens(sequence.tokens, blockSize) ?? 0, sequence.promptLength - 1);
    if (found <= sequence.computed) {
      queueMicrotask(() => this.#loaded(sequence, sequence.computed));
      return;
    }
    void this.#copyFromStore(sequence, found);
  }

  async #copyFromStore(sequence: Sequence, found: number): Promise<void> {
    this.#copying.add(sequence);
    await this.#wait((found - sequence.computed) / this.#input.options.blockSize);
    this.#copying.delete(sequence);
    this.#loaded(sequence, found);
  }

  #loaded(sequence: Sequence, computed: number): void {
    sequence.isRemoteDone = true;
    sequence.externalTokens = Math.max(0, computed - sequence.localHitTokens);
    sequence.computed = Math.max(sequence.computed, computed);
    const metrics = this.#input.metrics();
    if (metrics !== undefined) metrics.externalHits.inc(sequence.externalTokens);
    this.#input.onLoaded(sequence);
  }

  #failed(sequence: Sequence, reason: string): void {
    sequence.isRemoteDone = true;
    this.#input.metrics()?.nixl?.failedTransfers.inc();
    this.#input.onFailed(sequence, reason);
  }

  #wait(blocks: number): Promise<void> {
    const { timing, speed } = this.#input.options;
    const ms = ((timing.transferBaseMs + blocks * timing.transferMsPerBlock) * this.#input.slowdown()) / speed;
    return new Promise((resolve) => {
      setTimeout(resolve, ms);
    });
  }

  #startHeartbeat(sequence: Sequence, { heartbeat }: RemoteSource): void {
    if (heartbeat === undefined) return;
    const timer = setInterval(heartbeat, this.#input.options.leaseMs / HEARTBEATS_PER_LEASE);
    this.#heartbeats.set(sequence, timer.unref());
  }

  #stopHeartbeat(sequence: Sequence): void {
    clearInterval(this.#heartbeats.get(sequence));
    this.#heartbeats.delete(sequence);
  }
}

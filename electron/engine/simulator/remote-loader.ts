/**
 * Getting a prompt's KV from elsewhere before a sequence may run: NIXL pulls from a prefill instance, with heartbeats while
 * the sequence still waits for blocks, and reads from a shared store. The blocks are the caller's; this only takes the time
 * it takes and says whether the data came.
 */
import type { EngineMetrics } from './engine-metrics.ts';
import type { RemoteReference } from './nixl-params.ts';
import { callProducer } from './nixl-side-channel.ts';
import type { Sequence } from './sequence.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

/** vLLM renews at a sixth of the lease. */
const HEARTBEATS_PER_LEASE = 6;
/** An 8B model in bf16 with 8 KV heads: 36 layers x 2 x 8 x 128 x 2 bytes per token. */
const KV_BYTES_PER_TOKEN = 147_456;

export interface RemoteLoaderOptions {
  readonly options: ResolvedSimOptions;
  readonly slowdown: () => number;
  readonly metrics: () => EngineMetrics | undefined;
  /** `computed` and `externalTokens` are set. Also called for an aborted sequence, whose blocks are then free to go. */
  readonly onLoaded: (sequence: Sequence) => void;
  /** The same for a pull that failed; `isRemoteDone` is set, so that a recompute does not ask again. */
  readonly onFailed: (sequence: Sequence, reason: string) => void;
}

export class RemoteLoader {
  readonly #input: RemoteLoaderOptions;
  readonly #heartbeats = new Map<Sequence, NodeJS.Timeout>();

  constructor(input: RemoteLoaderOptions) {
    this.#input = input;
  }

  /** Decides what a new sequence must wait for. */
  prepare(sequence: Sequence): void {
    const { options } = this.#input;
    const { kvTransfer } = sequence.spec;
    if (kvTransfer?.kind === 'incomplete') {
      options.logger.warn(
        { instance: options.name, request: sequence.spec.id, missing: kvTransfer.missing },
        'kv_transfer_params are incomplete; the prompt is recomputed',
      );
    }
    if (kvTransfer?.kind === 'pull') {
      if (!options.nixl) sequence.isRemoteDone = true;
      else if (kvTransfer.reference.hasHeartbeat) this.#startHeartbeat(sequence, kvTransfer.reference);
      return;
    }
    const { sharedStore, blockSize } = options;
    if (sharedStore !== undefined && sharedStore.prefixTokens(sequence.tokens, blockSize) > 0) sequence.isRemoteDone = false;
  }

  /** The sequence has its blocks: fetch. */
  start(sequence: Sequence): void {
    this.#stopHeartbeat(sequence);
    const { kvTransfer } = sequence.spec;
    if (kvTransfer?.kind === 'pull') void this.#pull(sequence, kvTransfer.reference);
    else this.#readStore(sequence);
  }

  /** The sequence will not run: lets the producer free its blocks, unless a pull is under way and will do so itself. */
  abandon(sequence: Sequence): void {
    this.#stopHeartbeat(sequence);
    const { kvTransfer } = sequence.spec;
    if (kvTransfer?.kind !== 'pull' || sequence.isRemoteDone || sequence.scheduledMs !== undefined) return;
    sequence.isRemoteDone = true;
    void callProducer('done', kvTransfer.reference);
  }

  async #pull(sequence: Sequence, reference: RemoteReference): Promise<void> {
    const { options } = this.#input;
    const nixl = this.#input.metrics()?.nixl;
    const startedMs = performance.now();
    const opened = await callProducer('open', reference);
    if (!opened.isOk) {
      this.#failed(sequence, opened.reason);
      return;
    }
    const blocks = Math.max(0, Math.ceil(sequence.promptLength / options.blockSize) - sequence.storedBlocks);
    await this.#wait(blocks);
    const done = await callProducer('done', reference);
    if (!done.isOk) {
      this.#failed(sequence, done.reason);
      return;
    }
    nixl?.xferS.observe((performance.now() - startedMs) / 1000);
    nixl?.postS.observe(0.0002 + blocks * 0.00001);
    nixl?.bytes.observe(blocks * options.blockSize * KV_BYTES_PER_TOKEN);
    nixl?.descriptors.observe(blocks);
    this.#loaded(sequence, sequence.promptLength - 1);
  }

  #readStore(sequence: Sequence): void {
    const { sharedStore, blockSize } = this.#input.options;
    const found = Math.min(sharedStore?.prefixTokens(sequence.tokens, blockSize) ?? 0, sequence.promptLength - 1);
    if (found <= sequence.computed) {
      // Local blocks reach as far: nothing to fetch, but the caller is inside its plan, so answer later.
      queueMicrotask(() => this.#loaded(sequence, sequence.computed));
      return;
    }
    void this.#wait((found - sequence.computed) / blockSize).then(() => this.#loaded(sequence, found));
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

  #startHeartbeat(sequence: Sequence, reference: RemoteReference): void {
    const timer = setInterval(() => {
      void callProducer('heartbeat', reference);
    }, this.#input.options.leaseMs / HEARTBEATS_PER_LEASE);
    this.#heartbeats.set(sequence, timer.unref());
  }

  #stopHeartbeat(sequence: Sequence): void {
    clearInterval(this.#heartbeats.get(sequence));
    this.#heartbeats.delete(sequence);
  }
}

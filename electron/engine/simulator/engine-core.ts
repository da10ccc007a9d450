/**
 * The engine of one data-parallel rank: a step loop over the scheduler's plans, each step taking simulated time and giving
 * every sequence that is through its prompt one token. Events of a step leave as one batch when it ends.
 * Invariant: a sequence's listener hears `finished` or `failed` exactly once, or nothing after `abort`.
 */
import { rootHash } from './block-hash.ts';
import type { EngineFinishReason, EngineMetrics } from './engine-metrics.ts';
import { KvCache } from './kv-cache.ts';
import type { KvEvent } from './kv-event.ts';
import { createPrng, type Prng } from './prng.ts';
import { RemoteLoader } from './remote-loader.ts';
import { recordAdmission, recordFinish, recordToken } from './sequence-metrics.ts';
import { Sequence, type FinishResult, type SequenceSpec } from './sequence.ts';
import type { ResolvedSimOptions } from './sim-options.ts';
import { StepScheduler, type StepItem } from './step-scheduler.ts';
import { EOS_TOKEN, tokenId, tokenText } from './tokenizer.ts';
import { LeaseStore } from './transfer/lease-store.ts';
import type { SideChannel } from './transfer/side-channel.ts';
import { NO_LOAD, type Transfer, type TransferParams, type TransferRequest } from './transfer/transfer.ts';
import { createTransfer } from './transfer/transfers.ts';

/** Steps run in one timer callback before other work gets a turn. */
const MAX_STEPS_PER_TURN = 64;
/** A process that falls further behind than this slows down instead of rushing to catch up. */
const MAX_LAG_MS = 50;
const STOP_TAIL_CHARS = 256;
/** What vLLM's clients read when the engine process is gone. */
const ENGINE_DEAD = 'EngineCore encountered an issue. See stack trace (above) for the root cause.';
/** What models say on KV that is not their prompt's, more often than not. */
const NOISE_TOKEN = tokenId('!');
const SUFFIX = /-[0-9a-f]{8}$/u;

export interface EngineCoreOptions {
  readonly options: ResolvedSimOptions;
  readonly rank: number;
  readonly engineId: string;
  /** Seeds the block hashes; new for each life. */
  readonly hashSeed: string;
  /** Extra factor on all times (`slow` fault); read at each step. */
  readonly slowdown: () => number;
  readonly publish: (events: readonly KvEvent[]) => void;
  /** This rank's ports for its peers; none without a transfer protocol. The first is the protocol's own, the second MoRIIO's for notifications. */
  readonly sideChannels: readonly SideChannel[];
  /** An assertion failed: the process is about to end. */
  readonly onFatal: (reason: string) => void;
}

export class EngineCore {
  readonly rank: number;
  readonly cache: KvCache;
  readonly leases: LeaseStore;
  aborted = 0;
  readonly #input: EngineCoreOptions;
  readonly #prng: Prng;
  readonly #scheduler: StepScheduler;
  readonly #loader: RemoteLoader;
  readonly #transfer: Transfer;
  #metrics: EngineMetrics | undefined;
  #events: KvEvent[] = [];
  #step: { readonly items: readonly StepItem[]; readonly endsAtMs: number } | undefined;
  #timer: NodeJS.Timeout | NodeJS.Immediate | undefined;
  #isClosed = false;

  constructor(input: EngineCoreOptions) {
    this.#input = input;
    this.rank = input.rank;
    const { options } = input;
    this.#prng = createPrng(options.seed + input.rank * 7919);
    this.cache = new KvCache({
      capacity: options.blocks,
      blockSize: options.blockSize,
      emit: (event) => void this.#events.push(event),
    });
    this.leases = new LeaseStore({
      release: (blocks) => {
        this.cache.release(blocks);
        this.#wake();
      },
      onExpired: () => this.#metrics?.nixl?.expired.inc(),
    });
    const [channel, notifyChannel = channel] = input.sideChannels;
    this.#transfer = createTransfer({
      options,
      rank: input.rank,
      engineId: input.engineId,
      host: channel?.host ?? options.host,
      port: channel?.port ?? 0,
      notifyPort: notifyChannel?.port ?? 0,
    });
    this.#loader = new RemoteLoader({
      options,
      slowdown: input.slowdown,
      metrics: () => this.#metrics,
      onLoaded: (sequence) => this.#loaded(sequence),
      onFailed: (sequence, reason) => this.#loadFailed(sequence, reason),
      onRaised: (sequence, reason) => this.#raised(sequence, reason),
      onFatal: (reason) => this.#fatal(reason),
    });
    this.#scheduler = new StepScheduler({
      cache: this.cache,
      root: rootHash(input.hashSeed),
      maxNumSeqs: options.maxNumSeqs,
      maxBatchedTokens: options.maxBatchedTokens,
      onLoad: (sequence) => this.#loader.start(sequence),
      onAdmitted: (sequence) => {
        sequence.scheduledMs = performance.now();
        if (this.#metrics !== undefined) recordAdmission(sequence, this.#metrics);
      },
      onPreempted: () => this.#metrics?.preemptions.inc(),
    });
    const { leases } = this;
    for (const side of input.sideChannels) side.attach({ engineId: input.engineId, mode: this.#transfer.mode, leases });
  }

  /** Set once, right after construction: the families read gauges of the core. */
  attachMetrics(metrics: EngineMetrics): void {
    this.#metrics = metrics;
  }

  get running(): number {
    return this.#scheduler.running.length;
  }

  get waitingCapacity(): number {
    return this.#scheduler.waiting.length;
  }

  get waitingDeferred(): number {
    return this.#scheduler.loading.size;
  }

  /** Loads that copied another prompt's KV, in this life. */
  get corruptedLoads(): number {
    return this.#loader.corrupted;
  }

  submit(spec: SequenceSpec): Sequence {
    const sequence = new Sequence(spec, performance.now());
    if (this.#isClosed) {
      queueMicrotask(() => this.#fail(sequence, ENGINE_DEAD));
      return sequence;
    }
    sequence.load = spec.kvTransfer === undefined ? NO_LOAD : this.#transfer.plan(requestOf(sequence, spec.kvTransfer));
    this.#loader.prepare(sequence);
    this.#scheduler.add(sequence);
    this.#wake();
    return sequence;
  }

  /** The client left. No call to the listener follows. */
  abort(sequence: Sequence): void {
    if (sequence.state === 'finished') return;
    this.aborted += 1;
    this.#end(sequence);
    // A copy in progress writes into the blocks; they are freed when it ends.
    if (!this.#loader.abandon(sequence)) this.#scheduler.releaseBlocks(sequence);
    if (this.#metrics !== undefined) recordFinish(sequence, 'abort', this.#metrics);
    this.#wake();
  }

  /** A request was refused before it came here: lets the producer free its blocks, as vLLM does since 2026-05-09. */
  refuseTransfer(params: TransferParams, baseId: string): void {
    if (params['do_remote_prefill'] !== true) return;
    const load = this.#transfer.plan({ params, id: baseId, baseId, promptTokens: 0 });
    if (load.kind === 'fetch') void load.source.done();
  }

  /** `/reset_prefix_cache`: false while blocks are in use. */
  resetPrefixCache(): boolean {
    const isReset = this.cache.reset();
    this.#publish();
    return isReset;
  }

  /** Ends everything without a word; open sequences are told that the engine died. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#timer !== undefined) this.#cancelTimer();
    for (const side of this.#input.sideChannels) side.attach(undefined);
    const open = [...this.#scheduler.running, ...this.#scheduler.waiting, ...this.#scheduler.loading];
    this.#loader.close();
    for (const sequence of open) this.#fail(sequence, ENGINE_DEAD);
    this.leases.close();
  }

  #cancelTimer(): void {
    clearTimeout(this.#timer as NodeJS.Timeout);
    clearImmediate(this.#timer as NodeJS.Immediate);
    this.#timer = undefined;
  }

  #wake(): void {
    if (this.#isClosed || this.#step !== undefined) return;
    this.#begin(performance.now());
    this.#arm();
  }

  #begin(fromMs: number): void {
    const items = this.#scheduler.plan();
    if (items.length === 0) {
      this.#step = undefined;
      this.#publish();
      return;
    }
    this.#step = { items, endsAtMs: fromMs + this.#durationMs(items) };
  }

  #arm(): void {
    if (this.#step === undefined) return;
    const delayMs = this.#step.endsAtMs - performance.now();
    const run = (): void => this.#turn();
    this.#timer = delayMs <= 0 ? setImmediate(run) : setTimeout(run, delayMs);
  }

  #turn(): void {
    const nowMs = performance.now();
    for (let count = 0; count < MAX_STEPS_PER_TURN && this.#step !== undefined; count += 1) {
      const { items, endsAtMs } = this.#step;
      if (endsAtMs > nowMs) break;
      for (const item of items) this.#apply(item);
      this.#publish();
      this.#metrics?.iterationTokens.observe(items.reduce((sum, item) => sum + item.tokens, 0));
      this.#begin(Math.max(endsAtMs, nowMs - MAX_LAG_MS));
    }
    this.#arm();
  }

  #durationMs(items: readonly StepItem[]): number {
    const { timing, speed } = this.#input.options;
    let prefillTokens = 0;
    let decoding = 0;
    for (const { sequence, tokens } of items) {
      if (sequence.outputLength > 0 || tokens === 1) decoding += 1;
      else prefillTokens += tokens;
    }
    let ms = prefillTokens > 0 ? timing.prefillBaseMs + prefillTokens * timing.prefillMsPerToken : 0;
    if (decoding > 0) ms += timing.decodeStepMs + (decoding - 1) * timing.decodeStepMsPerRunning;
    const spread = 1 + timing.jitter * (this.#prng.next() * 2 - 1);
    return (ms * spread * this.#input.slowdown()) / speed;
  }

  #apply({ sequence, tokens }: StepItem): void {
    if (sequence.state !== 'running') return;
    sequence.computed += tokens;
    if (sequence.computed < sequence.tokens.length) return;
    const { spec } = sequence;
    const planned = spec.plan.tokenAt(sequence.outputLength);
    // Noise ends where the answer would have, so that one wrong load does not occupy the engine up to the model's limit.
    const token = sequence.isGarbage && planned !== EOS_TOKEN ? NOISE_TOKEN : planned;
    sequence.tokens.push(token);
    if (this.#metrics !== undefined) recordToken(sequence, this.#metrics);
    const end = this.#endAfter(sequence, token);
    const shown = token === EOS_TOKEN && !spec.ignoreEos ? undefined : token;
    if (end !== undefined) this.#finish(sequence, end, shown);
    else if (shown !== undefined) spec.listener.token(shown);
  }

  #endAfter(sequence: Sequence, token: number): Omit<FinishResult, 'kvTransferParams'> | undefined {
    const { spec } = sequence;
    const isPastMinimum = sequence.outputLength >= spec.minTokens;
    if (token === EOS_TOKEN && !spec.ignoreEos && isPastMinimum) return { reason: 'stop', stopReason: undefined };
    if (isPastMinimum && spec.stopTokenIds.includes(token)) return { reason: 'stop', stopReason: token };
    if (spec.stop.length > 0) {
      sequence.stopTail = (sequence.stopTail + tokenText(token)).slice(-STOP_TAIL_CHARS);
      const found = isPastMinimum ? spec.stop.find((text) => sequence.stopTail.includes(text)) : undefined;
      if (found !== undefined) return { reason: 'stop', stopReason: found };
    }
    const isFull = sequence.outputLength >= spec.maxTokens || sequence.tokens.length >= this.#input.options.maxModelLen;
    return isFull ? { reason: 'length', stopReason: undefined } : undefined;
  }

  #finish(sequence: Sequence, end: Omit<FinishResult, 'kvTransferParams'>, token: number | undefined): void {
    this.#end(sequence);
    const { sharedStore, blockSize } = this.#input.options;
    sharedStore?.put(sequence.tokens.slice(0, sequence.computed), blockSize);
    const kvTransferParams = this.#handOver(sequence, end.reason);
    if (this.#metrics !== undefined) recordFinish(sequence, end.reason, this.#metrics);
    sequence.spec.listener.finished(token, { ...end, kvTransferParams });
  }

  /** Pins the blocks for a peer, or frees them. Answers what the body says about it. */
  #handOver(sequence: Sequence, reason: EngineFinishReason): object | undefined {
    const { kvTransfer } = sequence.spec;
    const blockIds = sequence.blocks.map((block) => block.id);
    const handover =
      kvTransfer === undefined
        ? undefined
        : this.#transfer.finish({ ...requestOf(sequence, kvTransfer), reason, blockIds, computedTokens: sequence.computed });
    if (handover?.keep === undefined) this.#scheduler.releaseBlocks(sequence);
    else {
      const { blocks, computed, isGarbage } = sequence;
      this.leases.keep(handover.keep.key, { blocks, tokens: sequence.tokens.slice(0, computed), isGarbage, forMs: handover.keep.forMs });
    }
    return handover?.params;
  }

  #loaded(sequence: Sequence): void {
    this.#scheduler.loading.delete(sequence);
    if (sequence.state !== 'loading') {
      this.#scheduler.releaseBlocks(sequence);
      this.#wake();
      return;
    }
    // A whole prompt came with its last token, which is computed again to have something to sample from.
    const { computed, promptLength } = sequence;
    this.#scheduler.storePulled(sequence, computed === promptLength - 1 ? promptLength : computed);
    this.#scheduler.requeue(sequence);
    this.#wake();
    if (this.#step !== undefined && this.#events.length > 0) this.#publish();
  }

  #loadFailed(sequence: Sequence, reason: string): void {
    this.#scheduler.loading.delete(sequence);
    this.#scheduler.releaseBlocks(sequence);
    this.#input.options.logger.warn({ instance: this.#input.options.name, reason }, 'remote KV could not be loaded');
    if (sequence.state === 'loading') {
      if (this.#input.options.kvLoadFailurePolicy === 'fail') this.#fail(sequence, 'Internal server error');
      else this.#scheduler.requeue(sequence);
    }
    this.#wake();
  }

  #raised(sequence: Sequence, reason: string): void {
    if (sequence.state !== 'loading') return;
    this.#input.options.logger.error({ instance: this.#input.options.name, reason }, 'simulated engine: exception in a request');
    this.#loader.abandon(sequence);
    this.#fail(sequence, 'Internal server error');
    this.#wake();
  }

  #fatal(reason: string): void {
    if (this.#isClosed) return;
    this.#input.options.logger.error({ instance: this.#input.options.name, reason }, 'simulated engine: assertion failed, EngineCore dies');
    this.#input.onFatal(reason);
  }

  #fail(sequence: Sequence, message: string): void {
    this.#end(sequence);
    this.#scheduler.releaseBlocks(sequence);
    if (this.#metrics !== undefined) recordFinish(sequence, 'error', this.#metrics);
    sequence.spec.listener.failed(message);
  }

  #end(sequence: Sequence): void {
    sequence.state = 'finished';
    this.#scheduler.remove(sequence);
  }

  #publish(): void {
    if (this.#events.length === 0) return;
    const events = this.#events;
    this.#events = [];
    this.#input.publish(events);
  }
}

function requestOf({ spec, promptLength }: Sequence, params: TransferParams): TransferRequest {
  return { params, id: spec.id, baseId: spec.id.replace(SUFFIX, ''), promptTokens: promptLength };
}

/**
 * The engine of one data-parallel rank: a step loop over the scheduler's plans, each step taking simulated time and giving
 * every sequence that is through its prompt one token. Events of a step leave as one batch when it ends.
 * Invariant: a sequence's listener hears `finished` or `failed` exactly once, or nothing after `abort`.
 */
import { rootHash } from './block-hash.ts';
import type { EngineMetrics } from './engine-metrics.ts';
import { KvCache } from './kv-cache.ts';
import type { KvEvent } from './kv-event.ts';
import { writeKvTransferParams } from './nixl-params.ts';
import { NixlLeases } from './nixl-producer.ts';
import type { NixlSideChannel } from './nixl-side-channel.ts';
import { createPrng, type Prng } from './prng.ts';
import { RemoteLoader } from './remote-loader.ts';
import { recordAdmission, recordFinish, recordToken } from './sequence-metrics.ts';
import { Sequence, type FinishResult, type SequenceSpec } from './sequence.ts';
import type { ResolvedSimOptions } from './sim-options.ts';
import { StepScheduler, type StepItem } from './step-scheduler.ts';
import { EOS_TOKEN, tokenText } from './tokenizer.ts';

/** Steps run in one timer callback before other work gets a turn. */
const MAX_STEPS_PER_TURN = 64;
/** A process that falls further behind than this slows down instead of rushing to catch up. */
const MAX_LAG_MS = 50;
const STOP_TAIL_CHARS = 256;

export interface EngineCoreOptions {
  readonly options: ResolvedSimOptions;
  readonly rank: number;
  readonly engineId: string;
  /** Seeds the block hashes; new for each life. */
  readonly hashSeed: string;
  /** Extra factor on all times (`slow` fault); read at each step. */
  readonly slowdown: () => number;
  readonly publish: (events: readonly KvEvent[]) => void;
  readonly sideChannel: NixlSideChannel | undefined;
}

export class EngineCore {
  readonly rank: number;
  readonly cache: KvCache;
  readonly leases: NixlLeases;
  aborted = 0;
  readonly #input: EngineCoreOptions;
  readonly #prng: Prng;
  readonly #scheduler: StepScheduler;
  readonly #loader: RemoteLoader;
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
    this.leases = new NixlLeases({
      engineId: input.engineId,
      leaseMs: options.leaseMs,
      release: (blocks) => {
        this.cache.release(blocks);
        this.#wake();
      },
      onExpired: () => this.#metrics?.nixl?.expired.inc(),
    });
    this.#loader = new RemoteLoader({
      options,
      slowdown: input.slowdown,
      metrics: () => this.#metrics,
      onLoaded: (sequence) => this.#loaded(sequence),
      onFailed: (sequence, reason) => this.#loadFailed(sequence, reason),
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
    if (options.nixl) input.sideChannel?.register(this.leases);
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

  submit(spec: SequenceSpec): Sequence {
    const sequence = new Sequence(spec, performance.now());
    this.#loader.prepare(sequence);
    this.#scheduler.add(sequence);
    this.#wake();
    return sequence;
  }

  /** The client left. No call to the listener follows. */
  abort(sequence: Sequence): void {
    if (sequence.state === 'finished') return;
    this.aborted += 1;
    const wasLoading = sequence.state === 'loading';
    this.#end(sequence);
    // A pull in progress writes into the blocks; they are freed when it ends.
    if (!wasLoading) this.#scheduler.releaseBlocks(sequence);
    this.#loader.abandon(sequence);
    if (this.#metrics !== undefined) recordFinish(sequence, 'abort', this.#metrics);
    this.#wake();
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
    this.#input.sideChannel?.unregister(this.leases.engineId);
    const open = [...this.#scheduler.running, ...this.#scheduler.waiting, ...this.#scheduler.loading];
    for (const sequence of open) {
      this.#loader.abandon(sequence);
      this.#fail(sequence, 'EngineCore encountered an issue. See stack trace (above) for the root cause.');
    }
    this.leases.dropAll();
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
    const token = spec.plan.tokenAt(sequence.outputLength);
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
    const kvTransferParams = this.#keepForDecode(sequence);
    if (kvTransferParams === undefined) this.#scheduler.releaseBlocks(sequence);
    if (this.#metrics !== undefined) recordFinish(sequence, end.reason, this.#metrics);
    sequence.spec.listener.finished(token, { ...end, kvTransferParams });
  }

  #keepForDecode(sequence: Sequence): object | undefined {
    const { sideChannel, options } = this.#input;
    if (sequence.spec.kvTransfer?.kind !== 'keep' || sideChannel === undefined || !options.nixl) return undefined;
    this.leases.keep(sequence.spec.id, sequence.blocks);
    return writeKvTransferParams({
      blockIds: sequence.blocks.map((block) => block.id),
      engineId: this.leases.engineId,
      requestId: sequence.spec.id,
      host: sideChannel.host,
      port: sideChannel.port,
      tokens: sequence.promptLength,
    });
  }

  #loaded(sequence: Sequence): void {
    this.#scheduler.loading.delete(sequence);
    if (sequence.state !== 'loading') {
      this.#scheduler.releaseBlocks(sequence);
      this.#wake();
      return;
    }
    this.#scheduler.storePulled(sequence, sequence.computed + 1);
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

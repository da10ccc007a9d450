/**
 * What requests prove about a stream that says nothing: an engine that computes whole blocks of a prompt stores them, and
 * publishes that in the same step (vllm/v1/core/sched/scheduler.py). A request whose prompt was computed since the last
 * batch, and no batch since, means a publisher that is stuck, or batches that do not arrive. Silence alone means nothing.
 */

/** A prompt that the stream's engine computed. */
export interface ComputedPrompt {
  /** When the request was sent, by our clock; what it stored was published later. */
  readonly sentAtUnixMs: number;
  /** Whole blocks that were computed, at least. */
  readonly blocks: number;
}

export interface UntoldFacts {
  readonly requests: number;
  readonly blocks: number;
}

/** Batches come within milliseconds of the answer; this much later they are not on their way. */
const GRACE_MS = 5000;

export class UntoldStores {
  /** When the last of the requests was sent; minus infinity without any. */
  lastSentAtUnixMs = Number.NEGATIVE_INFINITY;
  #requests = 0;
  #blocks = 0;
  #firstAddedMs = 0;

  /** To be told only of requests that were sent after the last batch was received. */
  add({ sentAtUnixMs, blocks }: ComputedPrompt, nowMs: number): void {
    if (this.#requests === 0) this.#firstAddedMs = nowMs;
    this.#requests += 1;
    this.#blocks += blocks;
    this.lastSentAtUnixMs = Math.max(this.lastSentAtUnixMs, sentAtUnixMs);
  }

  /** A message came: whether it tells what was stored shows in the sequence numbers. */
  clear(): void {
    if (this.#requests === 0) return;
    this.#requests = 0;
    this.#blocks = 0;
    this.lastSentAtUnixMs = Number.NEGATIVE_INFINITY;
  }

  /** Undefined without evidence, or while batches may still be on their way. */
  facts(nowMs: number): UntoldFacts | undefined {
    return this.#requests === 0 || nowMs - this.#firstAddedMs < GRACE_MS ? undefined : { requests: this.#requests, blocks: this.#blocks };
  }
}

/**
 * The circuit breaker of one instance. Consecutive failed legs open it; a health check that began after a hold closes
 * it again, half: one more failure reopens it, and each reopening without a served leg in between doubles the hold.
 * (An engine whose /health says 200 while its legs hang would otherwise get a full round of victims every check.)
 */
import type { BreakerState } from '#shared/instance.ts';

export interface BreakerOptions {
  /** Consecutive failures that open it. */
  readonly threshold: number;
  /** First hold, milliseconds. */
  readonly holdMs: number;
}

const MAX_HOLD_MS = 60_000;

export class Breaker {
  readonly #options: BreakerOptions;
  state: BreakerState = 'closed';
  consecutiveFailures = 0;
  /** Why it is open, in words. */
  reason: string | undefined;
  #openings = 0;
  #openedAtMs = 0;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  succeeded(): void {
    this.consecutiveFailures = 0;
    this.#openings = 0;
  }

  /** Counts a failure at `nowMs` (monotonic). @returns true when it opened the breaker. */
  failed(nowMs: number, reason: string | undefined): boolean {
    this.consecutiveFailures += 1;
    if (this.state === 'open' || this.consecutiveFailures < this.#options.threshold) return false;
    this.state = 'open';
    this.#openings += 1;
    this.#openedAtMs = nowMs;
    this.reason = `${this.consecutiveFailures} failures in a row${reason === undefined ? '' : `, last: ${reason}`}`;
    return true;
  }

  /** A health check that began at `startedAtMs` (monotonic) succeeded. @returns true when it closed the breaker. */
  checked(startedAtMs: number): boolean {
    const holdMs = Math.min(MAX_HOLD_MS, this.#options.holdMs * 2 ** (this.#openings - 1));
    if (this.state === 'closed' || startedAtMs < this.#openedAtMs + holdMs) return false;
    this.#close(this.#options.threshold - 1);
    return true;
  }

  /** By the operator: closed, and all forgotten. @returns true when it was open. */
  reset(): boolean {
    const wasOpen = this.state === 'open';
    this.#openings = 0;
    this.#close(0);
    return wasOpen;
  }

  #close(failures: number): void {
    this.state = 'closed';
    this.reason = undefined;
    this.consecutiveFailures = failures;
  }
}

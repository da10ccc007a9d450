/**
 * A policy that could not do what it is for is told in every decision; here it also becomes a finding, at most once a
 * minute, since it usually concerns every request for as long as its cause is there.
 */
import type { Verdict } from '#shared/findings.ts';

const EVERY_MS = 60_000;

export class DegradedRouting {
  readonly #report: (verdict: Verdict) => void;
  readonly #now: () => number;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** @param now monotonic milliseconds. Default: the system's. */
  constructor(report: (verdict: Verdict) => void, now: () => number = () => performance.now()) {
    this.#report = report;
    this.#now = now;
  }

  /** @param why as in `RoutingDecision.degraded`. */
  seen(why: string): void {
    const nowMs = this.#now();
    if (nowMs - this.#lastMs < EVERY_MS) return;
    this.#lastMs = nowMs;
    this.#report({
      code: 'routing_degraded',
      severity: 'info',
      title: 'Routing by prefix falls back to balancing load',
      message: `At least one request was ${why}.`,
      nextStep:
        'Give instances a KV event stream (--kv-events) and look at its confidence; send prompts as token ids, or give /tokenize longer (tokenizeDeadlineMs). The Routing tab of a request shows its own reason.',
    });
  }
}

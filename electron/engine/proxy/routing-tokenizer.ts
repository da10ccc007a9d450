/**
 * What is known about asking for tokens: those had just now, and whether it is worth asking engines for tokens before routing. One for
 * the whole proxy: when instances keep being late or have no such route, requests stop waiting for them for a while, longer each time.
 */
import { TokenCache } from './token-cache.ts';

/** Failures in a row before a pause. */
const STRIKES = 3;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

export class RoutingTokenizer {
  readonly recent: TokenCache;
  readonly #now: () => number;
  #strikes = 0;
  #pauseMs = 0;
  #pausedUntilMs = Number.NEGATIVE_INFINITY;
  #lastProblem = '';

  /** @param now monotonic milliseconds. Default: the system's. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.recent = new TokenCache(now);
  }

  /** Why not to ask now, or undefined. */
  get reasonAgainst(): string | undefined {
    const leftMs = this.#pausedUntilMs - this.#now();
    return leftMs <= 0 ? undefined : `tokenizing is paused for ${Math.ceil(leftMs / 1000)} s after failures, the last: ${this.#lastProblem}`;
  }

  succeeded(): void {
    this.#strikes = 0;
    this.#pauseMs = 0;
  }

  failed(problem: string): void {
    this.#strikes += 1;
    this.#lastProblem = problem;
    if (this.#strikes < STRIKES) return;
    // The first one after a pause decides whether there is another.
    this.#strikes = STRIKES - 1;
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, this.#pauseMs * 2));
    this.#pausedUntilMs = this.#now() + this.#pauseMs;
  }
}

/**
 * Limits how long receiving may run in one turn of the event loop. A socket with messages waiting resolves each
 * receive at once, hundreds of times in a row, without letting the loop turn; with many streams in a flood that would
 * delay the proxy's tokens. All streams of a process share one allowance.
 */
export class IntakeTurn {
  readonly #allowanceMs: () => number;
  #startedAtMs: number | undefined;
  #next: Promise<void> | undefined;

  /** `allowanceMs`: receiving time per turn, default 0.25 ms: half of what decoding gets. */
  constructor(allowanceMs: number | (() => number) = 0.25) {
    this.#allowanceMs = typeof allowanceMs === 'number' ? () => allowanceMs : allowanceMs;
  }

  /** True when this turn's allowance is spent; then await `next()` before the next receive. */
  isSpent(): boolean {
    if (this.#startedAtMs === undefined) {
      this.#startedAtMs = performance.now();
      void this.next();
      return false;
    }
    return performance.now() - this.#startedAtMs > this.#allowanceMs();
  }

  /** Resolves in the next turn. */
  next(): Promise<void> {
    this.#next ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#startedAtMs = undefined;
        this.#next = undefined;
        resolve();
      });
    });
    return this.#next;
  }
}

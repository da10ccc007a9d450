/** So much a second on average, and what was saved up in a quiet time at once. Pure but for the clock. */
export interface AllowanceOptions {
  readonly perSecond: number;
  /** Most that is saved up; there at the start. */
  readonly burst: number;
  /** Monotonic milliseconds. Default: the system's clock. */
  readonly now?: () => number;
}

export class Allowance {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #now: () => number;
  #left: number;
  #filledMs: number;

  constructor({ perSecond, burst, now = () => performance.now() }: AllowanceOptions) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#now = now;
    this.#left = burst;
    this.#filledMs = now();
  }

  /** What is left; below 0 when more was spent than there was. */
  get left(): number {
    const nowMs = this.#now();
    this.#left = Math.min(this.#burst, this.#left + ((nowMs - this.#filledMs) / 1000) * this.#perSecond);
    this.#filledMs = nowMs;
    return this.#left;
  }

  /** Takes one, when one is left. */
  take(): boolean {
    if (this.left < 1) return false;
    this.#left -= 1;
    return true;
  }

  /** Of something whose cost is known afterwards only. */
  spend(amount: number): void {
    this.#left = this.left - amount;
  }
}

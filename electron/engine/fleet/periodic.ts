/**
 * Repeats an asynchronous task: the next run is timed from the end of the last, so runs of one task never overlap and
 * a hanging one delays only itself. Intervals vary by a tenth so that a fleet is not asked in step.
 */
export interface PeriodicOptions {
  readonly intervalMs: number;
  /** Must not reject. */
  readonly task: () => Promise<void>;
}

/** Thousands of failing legs a second must not become thousands of checks. */
const KICK_GAP_MS = 200;

export class Periodic {
  readonly #options: PeriodicOptions;
  #timer: NodeJS.Timeout | undefined;
  #isRunning = false;
  #isStopped = false;
  #runAgain = false;
  #startedAtMs = 0;

  constructor(options: PeriodicOptions) {
    this.#options = options;
  }

  /** First run after `delayMs`. */
  start(delayMs: number): void {
    this.#schedule(delayMs);
  }

  /** Runs now, or right after the run under way; never more often than every KICK_GAP_MS. */
  kick(): void {
    if (this.#isStopped) return;
    if (this.#isRunning) {
      this.#runAgain = true;
      return;
    }
    this.#schedule(this.#kickDelayMs());
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #schedule(delayMs: number): void {
    if (this.#isStopped) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#run(), delayMs);
    this.#timer.unref();
  }

  #kickDelayMs(): number {
    return Math.max(0, this.#startedAtMs + KICK_GAP_MS - performance.now());
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    this.#startedAtMs = performance.now();
    this.#runAgain = false;
    try {
      await this.#options.task();
    } finally {
      this.#isRunning = false;
      this.#schedule(this.#runAgain ? this.#kickDelayMs() : this.#options.intervalMs * (0.9 + Math.random() * 0.2));
    }
  }
}

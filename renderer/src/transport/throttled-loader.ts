/**
 * Loads one thing again and again: at most once per interval, one call at a time, and never missing the last change.
 * A result that arrives after `close` is dropped.
 */
export interface LoaderOptions<T> {
  readonly load: () => Promise<T>;
  readonly onValue: (value: T) => void;
  readonly onError: (cause: unknown) => void;
  /** Least time between the starts of two calls, ms. */
  readonly intervalMs: number;
}

export class ThrottledLoader<T> {
  readonly #options: LoaderOptions<T>;
  #startedAtMs = Number.NEGATIVE_INFINITY;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLoading = false;
  #isAskedAgain = false;
  #isClosed = false;

  constructor(options: LoaderOptions<T>) {
    this.#options = options;
  }

  /** Something changed: loads now, or as soon as it is due. */
  poke(): void {
    if (this.#isClosed || this.#timer !== undefined) return;
    if (this.#isLoading) {
      this.#isAskedAgain = true;
      return;
    }
    const waitMs = Math.max(0, this.#startedAtMs + this.#options.intervalMs - performance.now());
    this.#timer = setTimeout(() => void this.#load(), waitMs);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #load(): Promise<void> {
    this.#timer = undefined;
    this.#isLoading = true;
    this.#startedAtMs = performance.now();
    try {
      const value = await this.#options.load();
      if (!this.#isClosed) this.#options.onValue(value);
    } catch (cause) {
      if (!this.#isClosed) this.#options.onError(cause);
    }
    this.#isLoading = false;
    if (!this.#isAskedAgain) return;
    this.#isAskedAgain = false;
    this.poke();
  }
}

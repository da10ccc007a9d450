/**
 * Tells stores' listeners that something changed, at most once per drawing (frame-pacer.ts), and on a timer too: hidden
 * tabs get no frames, but what they show when they come back must be current. Data is applied to the bounded stores at once, so a
 * tab that is throttled to one timer a minute holds no more than a visible one.
 */
import { FramePacer } from './frame-pacer.ts';

const HIDDEN_FLUSH_MS = 500;

export interface FlushClock {
  requestFrame(callback: () => void): number;
  cancelFrame(handle: number): void;
  setTimer(callback: () => void, ms: number): ReturnType<typeof setTimeout>;
  clearTimer(handle: ReturnType<typeof setTimeout>): void;
}

const pacer = new FramePacer();

export const BROWSER_CLOCK: FlushClock = {
  requestFrame: (callback) => pacer.request(callback),
  cancelFrame: (handle) => pacer.cancel(handle),
  setTimer: (callback, ms) => setTimeout(callback, ms),
  clearTimer: (handle) => clearTimeout(handle),
};

/** Coalesces any number of `request()` into one `flush` per drawing, or per 500 ms without frames. */
export class FlushScheduler {
  readonly #flush: () => void;
  readonly #clock: FlushClock;
  #frame: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(flush: () => void, clock: FlushClock = BROWSER_CLOCK) {
    this.#flush = flush;
    this.#clock = clock;
  }

  request(): void {
    if (this.#timer !== undefined) return;
    this.#frame = this.#clock.requestFrame(() => this.flushNow());
    this.#timer = this.#clock.setTimer(() => this.flushNow(), HIDDEN_FLUSH_MS);
  }

  flushNow(): void {
    this.cancel();
    this.#flush();
  }

  cancel(): void {
    if (this.#frame !== undefined) this.#clock.cancelFrame(this.#frame);
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#frame = undefined;
    this.#timer = undefined;
  }
}

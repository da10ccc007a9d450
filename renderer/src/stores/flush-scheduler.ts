/**
 * Tells stores' listeners that something changed, at most once per drawing (frame-pacer.ts), and on a timer too: hidden
 * tabs get no frames, but what they show when they come back must be current. Data is applied to the bounded stores at once, so a
 * tab that is throttled to one timer a minute holds no more than a visible one.
 */
import { FramePacer } from './frame-pacer.ts';

const HIDDEN_FLUSH_MS = 500;

export interface FlushClock {
  nowMs(): number;
  requestFrame(callback: () => void): number;
  cancelFrame(handle: number): void;
  setTimer(callback: () => void, ms: number): ReturnType<typeof setTimeout>;
  clearTimer(handle: ReturnType<typeof setTimeout>): void;
}

const pacer = new FramePacer();

export const BROWSER_CLOCK: FlushClock = {
  nowMs: () => performance.now(),
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
  #pause: ReturnType<typeof setTimeout> | undefined;
  #notBeforeMs = 0;

  constructor(flush: () => void, clock: FlushClock = BROWSER_CLOCK) {
    this.#flush = flush;
    this.#clock = clock;
  }

  /** The next flush comes no sooner than this, by `performance.now()`. Holds for requests to come. */
  notBefore(atMs: number): void {
    this.#notBeforeMs = atMs;
  }

  request(): void {
    if (this.#timer !== undefined) return;
    const waitMs = this.#notBeforeMs - this.#clock.nowMs();
    if (waitMs > 0) this.#pause = this.#clock.setTimer(() => this.#draw(), waitMs);
    else this.#draw();
    this.#timer = this.#clock.setTimer(() => this.flushNow(), HIDDEN_FLUSH_MS);
  }

  #draw(): void {
    this.#frame = this.#clock.requestFrame(() => this.flushNow());
  }

  flushNow(): void {
    this.cancel();
    this.#flush();
  }

  cancel(): void {
    if (this.#frame !== undefined) this.#clock.cancelFrame(this.#frame);
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    if (this.#pause !== undefined) this.#clock.clearTimer(this.#pause);
    this.#pause = undefined;
    this.#frame = undefined;
    this.#timer = undefined;
  }
}

/**
 * When what changed is drawn: on an animation frame, all stores together, and so that drawing leaves the page at least
 * half of its time. A drawing that took longer than a frame is followed by as long a pause, in which the page scrolls,
 * answers keys and paints; what arrives meanwhile is drawn at once afterwards, and counts are true whenever they are drawn.
 */
export interface PacerClock {
  nowMs(): number;
  requestFrame(callback: () => void): void;
  setTimer(callback: () => void, ms: number): void;
}

const BROWSER_PACER_CLOCK: PacerClock = {
  nowMs: () => performance.now(),
  requestFrame: (callback) => requestAnimationFrame(callback),
  setTimer: (callback, ms) => setTimeout(callback, ms),
};

/** The frame after a drawing comes this late without any; at 60 frames a second, and some leeway. */
const FRAME_MS = 20;
/** A drawing during which the tab was hidden or the machine slept does not hold the next one back for long. */
const LONGEST_PAUSE_MS = 400;

export class FramePacer {
  readonly #clock: PacerClock;
  readonly #waiting = new Map<number, () => void>();
  #lastHandle = 0;
  #isScheduled = false;
  #notBeforeMs = 0;

  constructor(clock: PacerClock = BROWSER_PACER_CLOCK) {
    this.#clock = clock;
  }

  /** Calls `draw` once, on a frame to come. Answers a handle for `cancel`. */
  request(draw: () => void): number {
    this.#lastHandle += 1;
    this.#waiting.set(this.#lastHandle, draw);
    this.#schedule();
    return this.#lastHandle;
  }

  cancel(handle: number): void {
    this.#waiting.delete(handle);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const waitMs = this.#notBeforeMs - this.#clock.nowMs();
    const onFrame = (): void => this.#clock.requestFrame(() => this.#draw());
    if (waitMs > 0) this.#clock.setTimer(onFrame, waitMs);
    else onFrame();
  }

  #draw(): void {
    this.#isScheduled = false;
    if (this.#waiting.size === 0) return;
    const draws = Array.from(this.#waiting.values());
    this.#waiting.clear();
    const startedMs = this.#clock.nowMs();
    // The next frame comes when layout and paint of this one are done too.
    this.#clock.requestFrame(() => {
      const tookMs = this.#clock.nowMs() - startedMs - FRAME_MS;
      if (tookMs > 0) this.#notBeforeMs = this.#clock.nowMs() + Math.min(tookMs, LONGEST_PAUSE_MS);
    });
    for (const draw of draws) draw();
  }
}

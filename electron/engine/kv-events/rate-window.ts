/**
 * Events per second of the last seconds, and of the last two minutes in steps, in one-second buckets. Any clock that counts
 * milliseconds up.
 */
const RECENT_SECONDS = 5;
/** Length of a step of the history, seconds. */
export const RATE_STEP_S = 2;
/** Whole steps kept. */
const STEPS = 60;
/** The steps, the second that runs, and the one that the running step may have begun with. */
const BUCKETS = STEPS * RATE_STEP_S + RATE_STEP_S;

export class RateWindow {
  readonly #counts = new Float64Array(BUCKETS);
  /** 1 for seconds in which it was paused, be it for a moment. */
  readonly #missed = new Uint8Array(BUCKETS);
  #isPaused = false;
  /** First whole second watched. */
  readonly #from: number;
  #second: number;
  #firstSecond = Number.POSITIVE_INFINITY;

  /** Watches from `nowMs` on. */
  constructor(nowMs: number) {
    this.#second = Math.max(0, Math.floor(nowMs / 1000));
    this.#from = Math.ceil(nowMs / 1000);
  }

  /** Nothing can come until `resume`, so that no event is no rate of 0. */
  pause(nowMs: number): void {
    this.#missed[this.#advance(nowMs) % BUCKETS] = 1;
    this.#isPaused = true;
  }

  resume(nowMs: number): void {
    this.#advance(nowMs);
    this.#isPaused = false;
  }

  add(count: number, nowMs: number): void {
    const second = this.#advance(nowMs);
    this.#firstSecond = Math.min(this.#firstSecond, second);
    this.#counts[second % BUCKETS] = (this.#counts[second % BUCKETS] ?? 0) + count;
  }

  /** Per second, over five whole-ish seconds. Young windows divide by the time since their first event, but never by less than a second. */
  perSecond(nowMs: number): number {
    if (this.#firstSecond === Number.POSITIVE_INFINITY) return 0;
    const second = this.#advance(nowMs);
    const oldest = Math.max(this.#firstSecond, second - RECENT_SECONDS + 1);
    return this.#sum(oldest, second + 1) / Math.max(1, nowMs / 1000 - oldest);
  }

  /** Per second in each whole step of RATE_STEP_S that was watched to its end, oldest first, at most sixty; undefined for steps with a pause. */
  history(nowMs: number): readonly (number | undefined)[] {
    const end = Math.floor(this.#advance(nowMs) / RATE_STEP_S) * RATE_STEP_S;
    const rates: (number | undefined)[] = [];
    for (let from = Math.max(end - STEPS * RATE_STEP_S, Math.ceil(this.#from / RATE_STEP_S) * RATE_STEP_S); from < end; from += RATE_STEP_S) {
      rates.push(this.#isMissed(from, from + RATE_STEP_S) ? undefined : this.#sum(from, from + RATE_STEP_S) / RATE_STEP_S);
    }
    return rates;
  }

  #sum(from: number, to: number): number {
    let sum = 0;
    for (let second = from; second < to; second += 1) sum += this.#counts[second % BUCKETS] ?? 0;
    return sum;
  }

  #isMissed(from: number, to: number): boolean {
    for (let second = from; second < to; second += 1) if (this.#missed[second % BUCKETS] === 1) return true;
    return false;
  }

  #advance(nowMs: number): number {
    const second = Math.max(Math.floor(nowMs / 1000), this.#second);
    for (let passed = Math.max(this.#second, second - BUCKETS) + 1; passed <= second; passed += 1) {
      this.#counts[passed % BUCKETS] = 0;
      this.#missed[passed % BUCKETS] = this.#isPaused ? 1 : 0;
    }
    this.#second = second;
    return second;
  }
}

/** Events per second over the last five whole-ish seconds, in one-second buckets. Any clock that counts milliseconds up. */
const BUCKETS = 5;

export class RateWindow {
  readonly #counts = new Float64Array(BUCKETS);
  #second = Number.NEGATIVE_INFINITY;
  #firstSecond = Number.POSITIVE_INFINITY;

  add(count: number, nowMs: number): void {
    const second = this.#advance(nowMs);
    this.#counts[second % BUCKETS] = (this.#counts[second % BUCKETS] ?? 0) + count;
  }

  /** Per second. Young windows divide by the time since their first event, but never by less than a second. */
  perSecond(nowMs: number): number {
    if (this.#firstSecond === Number.POSITIVE_INFINITY) return 0;
    const second = this.#advance(nowMs);
    let sum = 0;
    for (const count of this.#counts) sum += count;
    const oldest = Math.max(this.#firstSecond, second - BUCKETS + 1);
    return sum / Math.max(1, nowMs / 1000 - oldest);
  }

  #advance(nowMs: number): number {
    const second = Math.max(0, Math.floor(nowMs / 1000), this.#second);
    if (this.#firstSecond > second) this.#firstSecond = second;
    if (second - this.#second >= BUCKETS) this.#counts.fill(0);
    else for (let passed = this.#second + 1; passed <= second; passed += 1) this.#counts[passed % BUCKETS] = 0;
    this.#second = second;
    return second;
  }
}

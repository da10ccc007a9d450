/**
 * What arrived at the registration socket and was not taken: kinds of messages with their reason, how often and when.
 * Bounded; each kind is reported once, as a sender repeats itself every few seconds.
 */
export interface Refusal {
  readonly what: string;
  readonly reason: string;
  count: number;
  lastAtUnixMs: number;
}

export const MAX_REFUSALS = 64;

export class Refusals {
  readonly #byKey = new Map<string, Refusal>();
  #evicted = 0;

  /** Counts one. @returns whether it is the first of its kind. */
  add(what: string, reason: string): boolean {
    const key = `${what}\n${reason}`;
    const known = this.#byKey.get(key);
    // Taken out and put back, so that the order is that of the last time.
    this.#byKey.delete(key);
    const refusal = known ?? { what, reason, count: 0, lastAtUnixMs: 0 };
    refusal.count += 1;
    refusal.lastAtUnixMs = Date.now();
    this.#byKey.set(key, refusal);
    if (this.#byKey.size > MAX_REFUSALS) {
      const [oldest] = this.#byKey.keys();
      if (oldest !== undefined) this.#byKey.delete(oldest);
      this.#evicted += 1;
    }
    return known === undefined;
  }

  /** The latest first. */
  list(): readonly Refusal[] {
    return [...this.#byKey.values()].reverse();
  }

  get size(): number {
    return this.#byKey.size;
  }

  get evicted(): number {
    return this.#evicted;
  }
}

/**
 * References to kept KV (an engine id with a request id, or a transfer id): when they were given out, for how long, and
 * whether they were used. Bounded: the one touched least recently is forgotten, and then nothing is said about it.
 */

interface Entry {
  givenAtMs: number | undefined;
  leaseMs: number | undefined;
  usedAtMs: number | undefined;
  usedBy: string | undefined;
}

export interface EarlierUse {
  /** X-Request-Id of the request that used it. */
  readonly requestId: string;
  readonly agoMs: number;
}

export interface Overdue {
  readonly ageMs: number;
  readonly leaseMs: number;
}

export class ReferenceBook {
  readonly #capacity: number;
  readonly #entries = new Map<string, Entry>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#entries.size;
  }

  given(reference: string, nowMs: number, leaseMs: number): void {
    const entry = this.#touch(reference);
    entry.givenAtMs = nowMs;
    entry.leaseMs = leaseMs;
  }

  /** Marks a reference used. @returns the use before this one. */
  use(reference: string, requestId: string, nowMs: number): EarlierUse | undefined {
    const entry = this.#touch(reference);
    const earlier = entry.usedAtMs === undefined ? undefined : { requestId: entry.usedBy ?? '', agoMs: nowMs - entry.usedAtMs };
    entry.usedAtMs = nowMs;
    entry.usedBy = requestId;
    return earlier;
  }

  /** Set when the engine has let go of it by now. */
  overdue(reference: string, nowMs: number): Overdue | undefined {
    const { givenAtMs, leaseMs } = this.#entries.get(reference) ?? {};
    if (givenAtMs === undefined || leaseMs === undefined) return undefined;
    const ageMs = nowMs - givenAtMs;
    return ageMs > leaseMs ? { ageMs, leaseMs } : undefined;
  }

  #touch(reference: string): Entry {
    let entry = this.#entries.get(reference);
    if (entry === undefined) entry = { givenAtMs: undefined, leaseMs: undefined, usedAtMs: undefined, usedBy: undefined };
    else this.#entries.delete(reference);
    this.#entries.set(reference, entry);
    if (this.#entries.size > this.#capacity) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
    return entry;
  }
}

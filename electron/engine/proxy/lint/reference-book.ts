/**
 * References to kept KV (an engine id with a request id, or a transfer id): when they were given out, for how long, and
 * whether they were used. Bounded: those not touched for long are forgotten, and then nothing is said about them.
 *
 * Two generations instead of one map in order of use: taking the oldest entry out of a large Map steps over the holes
 * that its predecessors left, which costs more than everything else here.
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
  readonly #generationSize: number;
  #young = new Map<string, Entry>();
  #old = new Map<string, Entry>();

  /** @param capacity references kept at most; at least half as many are. */
  constructor(capacity: number) {
    this.#generationSize = Math.max(1, Math.floor(capacity / 2));
  }

  /** An upper bound: what moved from old to young counts twice. */
  get size(): number {
    return this.#young.size + this.#old.size;
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

  /** The last use did not happen. */
  notUsed(reference: string): void {
    const entry = this.#young.get(reference) ?? this.#old.get(reference);
    if (entry === undefined) return;
    entry.usedAtMs = undefined;
    entry.usedBy = undefined;
  }

  /** Set when the engine has let go of it by now. */
  overdue(reference: string, nowMs: number): Overdue | undefined {
    const { givenAtMs, leaseMs } = this.#young.get(reference) ?? this.#old.get(reference) ?? {};
    if (givenAtMs === undefined || leaseMs === undefined) return undefined;
    const ageMs = nowMs - givenAtMs;
    return ageMs > leaseMs ? { ageMs, leaseMs } : undefined;
  }

  #touch(reference: string): Entry {
    const known = this.#young.get(reference);
    if (known !== undefined) return known;
    const entry = this.#old.get(reference) ?? { givenAtMs: undefined, leaseMs: undefined, usedAtMs: undefined, usedBy: undefined };
    this.#young.set(reference, entry);
    if (this.#young.size >= this.#generationSize) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    return entry;
  }
}

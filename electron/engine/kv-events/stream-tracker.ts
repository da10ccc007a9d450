/**
 * What the sequence numbers of one stream say: gaps, duplicates and restarts, by the algorithm of vLLM's replay
 * protocol (vllm/distributed/kv_events.py: +1 per batch and rank, from 0 at every engine start, no epoch on the wire).
 * Pure: one call per batch in the order received, and the answer says what to do with that batch.
 *
 * Not visible here, nor to any subscriber: a restart whose new sequence has already passed the last one seen. It looks
 * like a gap, or like nothing at all.
 */

/** Batches `from` to `to`, both included, of epoch `epoch`. */
export interface GapRange {
  readonly from: number;
  readonly to: number;
  readonly epoch: number;
}

export type Verdict =
  /** First contact, or the next batch: apply it. */
  | { readonly kind: 'next' }
  /** Batches are missing before this one: apply it, and ask for the range. */
  | { readonly kind: 'gap'; readonly gap: GapRange }
  /** Seen before: leave it out. */
  | { readonly kind: 'duplicate' }
  /** The engine started anew: forget its blocks, then apply. `gap` when the new life's first batches were missed. */
  | { readonly kind: 'restart'; readonly lastSeq: number; readonly gap: GapRange | undefined; readonly reason: string };

const NEXT: Verdict = { kind: 'next' };
const DUPLICATE: Verdict = { kind: 'duplicate' };

export interface ObserveHints {
  /** The publisher's clock, ms; undefined for a message that could not be decoded. */
  readonly tsUnixMs: number | undefined;
  /** The connection was made anew since the last batch: then a small step back is a restart even without a newer clock. */
  readonly isReconnected: boolean;
}

export class StreamTracker {
  #expected: number | undefined;
  #lastTsUnixMs = Number.NEGATIVE_INFINITY;
  /** Number of the current engine life, 1 from first contact; 0 before. */
  epoch = 0;
  gaps = 0;
  missedBatches = 0;
  duplicateBatches = 0;
  /** The current epoch was seen from seq 0 on, so no block of it was stored unseen (but for gaps). */
  sawStart = false;

  /** Newest sequence of the current epoch; undefined before first contact. */
  get lastSeq(): number | undefined {
    return this.#expected === undefined || this.#expected === 0 ? undefined : this.#expected - 1;
  }

  /**
   * Counts from `seq` before anything was received, so that batches missing before the first one are a gap. For readers
   * who asked for a replay from there.
   */
  expectFrom(seq: number): void {
    if (this.#expected === undefined) this.#begin(seq);
  }

  observe(seq: number, hints: ObserveHints): Verdict {
    const expected = this.#expected;
    if (expected === undefined) {
      this.#begin(seq);
      return this.#advance(seq, hints.tsUnixMs, NEXT);
    }
    if (seq === expected) return this.#advance(seq, hints.tsUnixMs, NEXT);
    if (seq > expected) return this.#advance(seq, hints.tsUnixMs, { kind: 'gap', gap: this.#gap(expected, seq - 1) });
    const isNewer = hints.tsUnixMs !== undefined && hints.tsUnixMs > this.#lastTsUnixMs;
    if (!isNewer && !hints.isReconnected) {
      this.duplicateBatches += 1;
      return DUPLICATE;
    }
    const reason = isNewer ? 'its clock is newer' : 'after a new connection';
    this.#begin(seq);
    this.#lastTsUnixMs = Number.NEGATIVE_INFINITY;
    // The new life began at 0 while this stream was watched, so whatever lies before is missed, not unseen.
    const gap = seq > 0 ? this.#gap(0, seq - 1) : undefined;
    return this.#advance(seq, hints.tsUnixMs, { kind: 'restart', lastSeq: expected - 1, gap, reason });
  }

  #begin(seq: number): void {
    this.epoch += 1;
    this.sawStart = seq === 0;
    this.#expected = seq;
  }

  #gap(from: number, to: number): GapRange {
    this.gaps += 1;
    this.missedBatches += to - from + 1;
    return { from, to, epoch: this.epoch };
  }

  #advance(seq: number, tsUnixMs: number | undefined, verdict: Verdict): Verdict {
    this.#expected = seq + 1;
    if (tsUnixMs !== undefined) this.#lastTsUnixMs = Math.max(this.#lastTsUnixMs, tsUnixMs);
    return verdict;
  }
}

/**
 * What the sequence numbers of one stream say: gaps, duplicates and restarts, by the algorithm of vLLM's replay
 * protocol (vllm/distributed/kv_events.py: +1 per batch and rank, from 0 at every engine start, no epoch on the wire).
 * Pure. `judge` looks at a batch in the order received and changes nothing; who applies it says so with `accept`.
 *
 * Counts add up: `missedBatches` = `missedFilled` + `missedLost` + what a replay is being asked for.
 *
 * A number that was there before is of a batch that comes again, or of another life. Engines publish in the order of their
 * numbers, so what was published after batches with higher numbers is of a newer life. The newest timestamp alone does not
 * tell: one batch with a time from nowhere, or a clock that was ahead until it was set right, would make every later life
 * look old. So two batches have to agree, and times ahead of our own clock count only against times that are ahead, too.
 * What is neither the batch that had the number nor newer (a publisher whose clock was put back, late data of an older
 * life, another publisher) is a stray: nobody here can tell which, so it is left out, counted, and doubted.
 *
 * Not visible here, nor to any subscriber of live batches alone: a restart whose new sequence has already passed the last
 * one seen. It looks like a gap, or like nothing at all. A replay that begins with a batch already seen tells
 * (gap-filler.ts): the engine's copy carries the same timestamp, bit by bit, or it is another life's.
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
  /** Batches are missing before this one: get them first, or let them go. */
  | { readonly kind: 'gap'; readonly gap: GapRange }
  /** Seen before: leave it out. */
  | { readonly kind: 'duplicate' }
  /** Not seen before, though its number was; and not known to be newer: leave it out, and doubt what is known. */
  | { readonly kind: 'stray' }
  /** The engine started anew: forget its blocks, `begin(0)`, and judge again. */
  | { readonly kind: 'restart'; readonly lastSeq: number; readonly reason: string };

const NEXT: Verdict = { kind: 'next' };
const DUPLICATE: Verdict = { kind: 'duplicate' };
const STRAY: Verdict = { kind: 'stray' };

/** A timestamp further ahead of our clock is not the time: machines of one site agree better. */
const AHEAD_MS = 5000;

/** Batches of higher numbers that must have been published before, unless fewer are remembered: one may have a time from nowhere. */
const WITNESSES = 2;

/** Timestamps remembered, to tell a batch that comes again from another life's batch of that number. */
const REMEMBERED = 1024;

export interface ObserveHints {
  /** The publisher's clock, ms; undefined for a message that could not be decoded. */
  readonly tsUnixMs: number | undefined;
  /** By our clock, ms. */
  readonly receivedAtUnixMs: number;
  /** The connection was made anew since the last batch: then a small step back is a restart even without a newer clock. */
  readonly isReconnected: boolean;
  /** It came over a connection that is gone, and newer batches were applied since: with an older clock, it is of an older life. */
  readonly isOvertaken?: boolean;
}

export class StreamTracker {
  #expected: number | undefined;
  #lastTsUnixMs = Number.NEGATIVE_INFINITY;
  /** By our clock, of all lives: batches may wait here while newer ones are replayed. */
  #lastReceivedAtUnixMs = Number.NEGATIVE_INFINITY;
  #hasApplied = false;
  /** By sequence number, of the last `REMEMBERED` ones; NaN when unknown. */
  readonly #ts = new Float64Array(REMEMBERED).fill(Number.NaN);
  /** Number of the current engine life, 1 from first contact; 0 before. */
  epoch = 0;
  /** Gaps found: by live batches, or by a replay that could not begin where it was asked to. */
  gaps = 0;
  /** Batches inside them. */
  missedBatches = 0;
  /** Gaps of which no batch is lost. */
  gapsFilled = 0;
  missedFilled = 0;
  missedLost = 0;
  duplicateBatches = 0;
  /** Batches left out that were no duplicates: see above. */
  strayBatches = 0;
  /** The current epoch was seen from seq 0 on, so no block of it was stored unseen (but for gaps). */
  sawStart = false;
  /** Where the current epoch was joined: batches before were never seen, nor missed. */
  firstSeq = 0;

  /** The sequence that should come next; undefined before first contact. */
  get expected(): number | undefined {
    return this.#expected;
  }

  /** Newest sequence of the current epoch; undefined before first contact. */
  get lastSeq(): number | undefined {
    return this.#expected === undefined || this.#expected === 0 ? undefined : this.#expected - 1;
  }

  /** The newest batch, if the current epoch has one that was applied: the engine must still have it, unless it restarted. */
  get anchorSeq(): number | undefined {
    return this.#hasApplied ? this.lastSeq : undefined;
  }

  judge(seq: number, hints: ObserveHints): Verdict {
    const expected = this.#expected;
    if (hints.isOvertaken === true && hints.tsUnixMs !== undefined && hints.tsUnixMs < this.#lastTsUnixMs) return DUPLICATE;
    if (expected === undefined || seq === expected) return NEXT;
    if (seq > expected) return { kind: 'gap', gap: { from: expected, to: seq - 1, epoch: this.epoch } };
    const { tsUnixMs } = hints;
    const known = this.tsOf(seq);
    if (tsUnixMs !== undefined && tsUnixMs === known) return DUPLICATE;
    const lastSeq = expected - 1;
    if (tsUnixMs !== undefined && this.#isNewer(seq, tsUnixMs, hints.receivedAtUnixMs)) return { kind: 'restart', lastSeq, reason: 'its clock is newer' };
    if (hints.isReconnected) return { kind: 'restart', lastSeq, reason: 'after a new connection' };
    const isOther = seq < this.firstSeq || (tsUnixMs !== undefined && known !== undefined);
    return isOther ? STRAY : DUPLICATE;
  }

  /** Whether a batch was published after batches with higher numbers. Of those, the ones that had no believable time do not count. */
  #isNewer(seq: number, tsUnixMs: number, receivedAtUnixMs: number): boolean {
    const expected = this.#expected ?? 0;
    const nowUnixMs = Math.max(receivedAtUnixMs, this.#lastReceivedAtUnixMs);
    const believedUpTo = tsUnixMs > nowUnixMs + AHEAD_MS ? Number.POSITIVE_INFINITY : nowUnixMs + AHEAD_MS;
    let remembered = 0;
    let older = 0;
    for (let later = Math.max(seq, this.firstSeq, expected - REMEMBERED); later < expected && older < WITNESSES; later += 1) {
      const ts = this.#ts[later % REMEMBERED] ?? Number.NaN;
      if (!(ts <= believedUpTo)) continue;
      remembered += 1;
      if (ts >= tsUnixMs) continue;
      // No batch has two timestamps.
      if (later === seq) return true;
      older += 1;
    }
    return older >= Math.min(WITNESSES, remembered);
  }

  /** Starts an epoch whose next batch is `seq`. */
  begin(seq: number): void {
    this.epoch += 1;
    this.sawStart = seq === 0;
    this.firstSeq = seq;
    this.#expected = seq;
    this.#hasApplied = false;
    this.#lastTsUnixMs = Number.NEGATIVE_INFINITY;
    this.#ts.fill(Number.NaN);
  }

  /**
   * The epoch was taken to begin at 0, and did not: what lies before its first batch was sent before it was joined, and is
   * not missing. False, and nothing done, unless the gap is that, and was counted as the last one found.
   */
  joinLate({ from, to }: GapRange): boolean {
    if (this.#expected !== from || from !== this.firstSeq || this.#hasApplied) return false;
    this.gaps -= 1;
    this.missedBatches -= to - from + 1;
    this.sawStart = false;
    this.firstSeq = to + 1;
    this.#expected = to + 1;
    return true;
  }

  /** What came last is not to be believed: the next batch makes first contact, in an epoch of its own. */
  disown(): void {
    this.#expected = undefined;
    this.#hasApplied = false;
    this.sawStart = false;
  }

  /** The batch is applied (or counted as unreadable): the next one is expected. */
  accept(seq: number, { tsUnixMs, receivedAtUnixMs }: Pick<ObserveHints, 'tsUnixMs' | 'receivedAtUnixMs'>): void {
    if (this.#expected === undefined) this.begin(seq);
    this.#expected = seq + 1;
    this.#hasApplied = true;
    this.#ts[seq % REMEMBERED] = tsUnixMs ?? Number.NaN;
    this.#lastReceivedAtUnixMs = Math.max(this.#lastReceivedAtUnixMs, receivedAtUnixMs);
    if (tsUnixMs !== undefined) this.#lastTsUnixMs = Math.max(this.#lastTsUnixMs, tsUnixMs);
  }

  /** The publisher's clock of a batch of this epoch, ms; undefined when it is not remembered, or was never known. */
  tsOf(seq: number): number | undefined {
    const expected = this.#expected ?? 0;
    if (seq >= expected || seq < expected - REMEMBERED || seq < this.firstSeq) return undefined;
    const ts = this.#ts[seq % REMEMBERED];
    return ts === undefined || Number.isNaN(ts) ? undefined : ts;
  }

  /** Counts batches that are missing. Each is to be settled as filled or lost later. */
  found(gap: GapRange): void {
    this.gaps += 1;
    this.missedBatches += gap.to - gap.from + 1;
  }

  /** Settles batches found missing. */
  settle(filled: number, lost: number): void {
    this.missedFilled += filled;
    this.missedLost += lost;
    if (lost === 0) this.gapsFilled += 1;
  }

  /** Lets go of what is missing before `seq`. */
  skipTo(seq: number): void {
    // Their places may still hold the clocks of batches long before.
    for (let skipped = Math.max(this.#expected ?? seq, seq - REMEMBERED); skipped < seq; skipped += 1) this.#ts[skipped % REMEMBERED] = Number.NaN;
    if (this.#expected === 0) this.sawStart = false;
    this.#expected = seq;
    this.#hasApplied = false;
  }
}

/**
 * One stream's messages, in order: decode, judge the sequence, count, and hand on what happened. No socket, no clock:
 * live subscriptions, replays and the command line all run through here, and benchmarks can.
 *
 * A live batch behind a gap is applied only once the gap is settled: when `onGap` takes it, `apply` answers `held`, and
 * the same message comes again later. So events reach the sink in the engine's order, each once.
 */
import { decodeMessage, type DecodeLimits, type MessageResult } from './decode-batch.ts';
import { mergeForm, type Encoding, type HashForm, type KvBatch, type KvEvent } from './kv-event.ts';
import { reuseWords } from './known-batch.ts';
import type { Notice } from './kv-row.ts';
import { StreamTracker, type GapRange } from './stream-tracker.ts';

/** What came with the frames. */
export interface Arrival {
  readonly receivedAtUnixMs: number;
  readonly isReconnected: boolean;
  /** See `ObserveHints`. Default false. */
  readonly isOvertaken?: boolean;
  /** Messages of this stream that pdscope's own queue refused just before; part of the gap that shows. */
  readonly droppedBefore: number;
}

/** The batch that events and notices belong to. `seq` is absent when the message did not tell. */
export interface BatchContext {
  readonly epoch: number;
  readonly seq: number | undefined;
  readonly tsUnixMs: number | undefined;
  readonly receivedAtUnixMs: number;
  /** It came from the replay socket, later than it was sent. */
  readonly isReplayed: boolean;
}

export interface EpochChange {
  /** The epoch that ended; 0 when there was none. */
  readonly ended: number;
  readonly reason: string;
}

export interface BatchSink {
  /** The engine started anew: its blocks are gone. Comes before the `restart` notice. */
  onEpoch(change: EpochChange): void;
  /** A gap and what became of it, a restart, or a message that could not be read. */
  onNotice(context: BatchContext, notice: Notice): void;
  /**
   * Batches are missing before the live one. True takes the gap: nothing is applied until it is settled, and the live
   * message must come again then. False lets the batches go.
   */
  onGap(gap: GapRange): boolean;
  /** Batches are gone for good. */
  onLost(gap: GapRange): void;
  /** A batch is about to be applied, event by event. The words of its events (hashes, tokens) are there until it was. */
  onBatch?(events: readonly KvEvent[]): void;
  onEvent(context: BatchContext, event: KvEvent): void;
  /** A batch came and could not be read, so that what it stored or removed is unknown. */
  onUnreadable?(context: BatchContext): void;
  /** A message is about to be taken, readable or not: what follows until the next one came in it. */
  onMessage?(context: BatchContext, frames: readonly Uint8Array[]): void;
}

/** `left`: a duplicate, or not readable. */
export type Applied = 'applied' | 'left' | 'held';
/** `left`: its payload is not readable. `unnumbered`: not even its sequence is. `seen`: before, identically. `other-life`: another batch had this number. */
export type ReplayApplied = 'applied' | 'left' | 'unnumbered' | 'seen' | 'other-life';

const MAX_TOPICS = 3;

export class BatchApplier {
  readonly tracker = new StreamTracker();
  /** Batches applied (duplicates are not). */
  batches = 0;
  /** Of these, from the replay socket. */
  replayedBatches = 0;
  /** The newest batch came from the replay socket. */
  isLastReplayed = false;
  /** Events applied, bad ones included. */
  events = 0;
  /** Payload bytes of decoded messages, duplicates included. */
  bytes = 0;
  badMessages = 0;
  badEvents = 0;
  /** Events of kinds that pdscope does not know. */
  unknownEvents = 0;
  unknownFields = 0;
  /** Batches without a timestamp that is a time. */
  badTimestamps = 0;
  /** Of the engine's current life: the next may be another version. */
  encoding: Encoding | undefined;
  hashForm: HashForm | undefined;
  /** Batches whose hashes came in another form than those of the batch before, or in both. */
  hashFormChanges = 0;
  lastReceivedAtUnixMs: number | undefined;
  /** Clock and receipt of the last live batch, unless it told no time: a replay says nothing about lag. */
  lastTsUnixMs: number | undefined;
  lastTsReceivedAtUnixMs: number | undefined;
  /** The rank the engine stamped last, when it stamps one. */
  lastRank: number | undefined;

  /** Topics seen of the engine's current life, the first few: more than one means that several publishers share this stream. */
  readonly topics = new Set<string>();

  #lastHashForm: HashForm | undefined;
  /** In which a stray was last told. */
  #strayEpoch = 0;
  readonly #sink: BatchSink;
  readonly #limits: DecodeLimits | undefined;

  constructor(sink: BatchSink, limits?: DecodeLimits) {
    this.#sink = sink;
    this.#limits = limits;
  }

  /** Takes one live message. */
  apply(frames: readonly Uint8Array[], arrival: Arrival): Applied {
    const result = decodeMessage(frames, this.#limits);
    const tsUnixMs = result.ok ? result.batch.tsUnixMs : undefined;
    const told = { seq: result.seq, tsUnixMs, receivedAtUnixMs: arrival.receivedAtUnixMs, isReplayed: false };
    const judged = result.seq === undefined ? 'applied' : this.#judge(result.seq, tsUnixMs, arrival);
    if (judged === 'held') return judged;
    for (const frame of frames) this.bytes += frame.length;
    this.lastReceivedAtUnixMs = arrival.receivedAtUnixMs;
    if (judged === 'left') return judged;
    if (result.ok) {
      this.lastTsUnixMs = tsUnixMs;
      // A batch that waited for a replay is not late by that.
      this.lastTsReceivedAtUnixMs = arrival.receivedAtUnixMs;
    }
    return this.#take(frames, result, { epoch: this.tracker.epoch, ...told });
  }

  /** Takes one message of a replay; it need not be asked for exactly. What lies before it and was not seen is lost. */
  applyReplayed(frames: readonly Uint8Array[], receivedAtUnixMs: number): ReplayApplied {
    const { tracker } = this;
    const result = decodeMessage(frames, this.#limits);
    const { seq } = result;
    const tsUnixMs = result.ok ? result.batch.tsUnixMs : undefined;
    const expected = tracker.expected;
    if (seq !== undefined && expected !== undefined && seq < expected) {
      const known = tracker.tsOf(seq);
      return known === undefined || tsUnixMs === undefined || known === tsUnixMs ? 'seen' : 'other-life';
    }
    for (const frame of frames) this.bytes += frame.length;
    this.lastReceivedAtUnixMs = receivedAtUnixMs;
    if (seq === undefined) {
      this.#take(frames, result, { epoch: tracker.epoch, seq, tsUnixMs, receivedAtUnixMs, isReplayed: true });
      return 'unnumbered';
    }
    if (expected !== undefined && seq > expected) this.lose({ from: expected, to: seq - 1, epoch: tracker.epoch });
    tracker.accept(seq, { tsUnixMs, receivedAtUnixMs });
    this.replayedBatches += 1;
    this.isLastReplayed = true;
    return this.#take(frames, result, { epoch: tracker.epoch, seq, tsUnixMs, receivedAtUnixMs, isReplayed: true });
  }

  /** Lets go of batches of the current epoch that are next to come; counting them is for the caller. */
  lose(gap: GapRange): void {
    this.tracker.skipTo(gap.to + 1);
    this.#sink.onLost(gap);
  }

  /** The engine was found to have started anew: its batches count from 0 again. */
  restart(reason: string, receivedAtUnixMs: number): void {
    const ended = this.tracker.epoch;
    this.tracker.begin(0);
    this.topics.clear();
    this.#endEpoch({ ended, reason });
    this.notice({ kind: 'restart', note: `${reason}: the engine started anew, its blocks are gone`, facts: { kind: 'ended', epoch: ended } }, receivedAtUnixMs);
  }

  /** Gives up the current epoch, whose batches may be of another life or publisher. The next batch makes first contact. */
  disown(reason: string, receivedAtUnixMs: number): void {
    const ended = this.tracker.epoch;
    this.tracker.disown();
    this.#endEpoch({ ended, reason });
    this.notice({ kind: 'restart', note: `${reason}: the blocks known so far are given up`, facts: { kind: 'ended', epoch: ended } }, receivedAtUnixMs);
  }

  /** A notice about the stream rather than about one message. */
  notice(notice: Notice, receivedAtUnixMs: number): void {
    const { epoch, lastSeq } = this.tracker;
    this.#sink.onNotice({ epoch, seq: lastSeq, tsUnixMs: undefined, receivedAtUnixMs, isReplayed: false }, notice);
  }

  #judge(seq: number, tsUnixMs: number | undefined, arrival: Arrival): Applied {
    const { tracker } = this;
    const { receivedAtUnixMs } = arrival;
    const hints = { tsUnixMs, receivedAtUnixMs, isReconnected: arrival.isReconnected, isOvertaken: arrival.isOvertaken === true };
    let verdict = tracker.judge(seq, hints);
    if (verdict.kind === 'restart') {
      const ended = tracker.epoch;
      const { reason, lastSeq } = verdict;
      // The new life began at 0 while this stream was watched, so whatever lies before is missed, not unseen.
      tracker.begin(0);
      if (arrival.isReconnected) this.topics.clear();
      this.#endEpoch({ ended, reason });
      const note = `sequence went back from ${lastSeq} to ${seq} and ${reason}: the engine started anew, its blocks are gone`;
      this.#sink.onNotice({ epoch: tracker.epoch, seq, tsUnixMs, receivedAtUnixMs, isReplayed: false }, { kind: 'restart', note, facts: { kind: 'ended', epoch: ended } });
      verdict = tracker.judge(seq, hints);
    }
    if (verdict.kind === 'duplicate') {
      tracker.duplicateBatches += 1;
      return 'left';
    }
    if (verdict.kind === 'stray') {
      this.#stray({ epoch: tracker.epoch, seq, tsUnixMs, receivedAtUnixMs, isReplayed: false });
      return 'left';
    }
    if (verdict.kind === 'gap') {
      const { gap } = verdict;
      const isTaken = this.#sink.onGap(gap);
      tracker.found(gap);
      const context: BatchContext = { epoch: tracker.epoch, seq, tsUnixMs, receivedAtUnixMs, isReplayed: false };
      const note = gapNote(gap, arrival.droppedBefore) + (isTaken ? '; asking for them' : '');
      this.#sink.onNotice(context, { kind: 'gap', note, facts: { kind: 'found', gap, refused: arrival.droppedBefore, isAsked: isTaken } });
      if (isTaken) return 'held';
      tracker.settle(0, gap.to - gap.from + 1);
      this.lose(gap);
    }
    tracker.accept(seq, hints);
    this.isLastReplayed = false;
    return 'applied';
  }

  /** Told once in an engine's life; there may be thousands. */
  #stray(context: BatchContext): void {
    const { tracker } = this;
    tracker.strayBatches += 1;
    if (this.#strayEpoch === tracker.epoch) return;
    this.#strayEpoch = tracker.epoch;
    const note = `batch ${context.seq ?? ''} was left out: its number was there before, the batch was not, and its clock is no newer; the engine may have started anew with its clock put back, or another publisher shares this stream`;
    this.#sink.onNotice(context, { kind: 'error', note });
  }

  #endEpoch(change: EpochChange): void {
    this.encoding = undefined;
    this.hashForm = undefined;
    this.lastTsUnixMs = undefined;
    this.lastTsReceivedAtUnixMs = undefined;
    this.#sink.onEpoch(change);
  }

  #take(frames: readonly Uint8Array[], result: MessageResult, context: BatchContext): 'applied' | 'left' {
    this.#sink.onMessage?.(context, frames);
    if (!result.ok) {
      this.badMessages += 1;
      this.#sink.onUnreadable?.(context);
      this.#sink.onNotice(context, { kind: 'error', note: `message not readable (${result.reason}): ${result.detail}` });
      return 'left';
    }
    if (this.topics.size < MAX_TOPICS && !(context.isReplayed && result.topic === '')) this.topics.add(result.topic);
    this.#batch(result.batch, context);
    return 'applied';
  }

  #batch(batch: KvBatch, context: BatchContext): void {
    this.batches += 1;
    this.events += batch.events.length;
    this.unknownFields += batch.unknownFields;
    if (batch.tsUnixMs === undefined) this.badTimestamps += 1;
    this.encoding = mergeForm(this.encoding, batch.encoding);
    this.hashForm = mergeForm(this.hashForm, batch.hashForm);
    if (batch.hashForm !== undefined) {
      if (batch.hashForm === 'mixed' || batch.hashForm !== (this.#lastHashForm ?? batch.hashForm)) this.hashFormChanges += 1;
      this.#lastHashForm = batch.hashForm;
    }
    if (batch.rank !== undefined) this.lastRank = batch.rank;
    this.#sink.onBatch?.(batch.events);
    for (const event of batch.events) {
      if (event.kind === 'bad') this.badEvents += 1;
      else if (event.kind === 'unknown') this.unknownEvents += 1;
      this.#sink.onEvent(context, event);
    }
    reuseWords();
  }
}

function gapNote(gap: GapRange, dropped: number): string {
  const count = gap.to - gap.from + 1;
  const range = batchRange(gap, 'is missing', 'are missing');
  if (dropped === 0) return range;
  // More may have been refused than are missing: the queue also refuses what would have been a duplicate.
  return `${range}; ${dropped >= count ? 'all' : dropped} refused by pdscope's own full queue`;
}

/** `batch 4 is missing`, `3 batches (4 to 6) are missing`. */
export function batchRange({ from, to }: Pick<GapRange, 'from' | 'to'>, one: string, many: string): string {
  return from === to ? `batch ${from} ${one}` : `${to - from + 1} batches (${from} to ${to}) ${many}`;
}

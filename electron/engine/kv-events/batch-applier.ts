/**
 * One stream's messages, in order: decode, judge the sequence, count, and hand on what happened. No socket, no clock:
 * live subscriptions, replays and the command line all run through here, and benchmarks can.
 */
import { decodeMessage, type DecodeLimits, type MessageResult } from './decode-batch.ts';
import { mergeForm, type Encoding, type HashForm, type KvBatch, type KvEvent } from './kv-event.ts';
import type { Notice } from './kv-row.ts';
import { StreamTracker, type GapRange } from './stream-tracker.ts';

/** What came with the frames. */
export interface Arrival {
  readonly receivedAtUnixMs: number;
  readonly isReconnected: boolean;
  /** Messages of this stream that pdscope's own queue refused just before; part of the gap that shows. */
  readonly droppedBefore: number;
}

/** The batch that events and notices belong to. `seq` is absent when the message did not tell. */
export interface BatchContext {
  readonly epoch: number;
  readonly seq: number | undefined;
  readonly tsUnixMs: number | undefined;
  readonly receivedAtUnixMs: number;
}

export interface BatchSink {
  /** The engine started anew: its blocks are gone. Comes before the `restart` notice. */
  onRestart(): void;
  /** A gap, a restart, or a message that could not be read. */
  onNotice(context: BatchContext, notice: Notice): void;
  /** Batches that are missing, for whoever can ask a replay for them. */
  onGap(gap: GapRange): void;
  onEvent(context: BatchContext, event: KvEvent): void;
}

const MAX_TOPICS = 3;

export class BatchApplier {
  readonly tracker = new StreamTracker();
  /** Batches applied (duplicates are not). */
  batches = 0;
  /** Events applied, bad ones included. */
  events = 0;
  /** Payload bytes of decoded messages, duplicates included. */
  bytes = 0;
  badMessages = 0;
  badEvents = 0;
  unknownFields = 0;
  encoding: Encoding | undefined;
  hashForm: HashForm | undefined;
  lastTsUnixMs: number | undefined;
  lastReceivedAtUnixMs: number | undefined;
  /** The rank the engine stamped last, when it stamps one. */
  lastRank: number | undefined;

  /** Topics seen, the first few: more than one means that several publishers share this stream. */
  readonly topics = new Set<string>();

  readonly #sink: BatchSink;
  readonly #limits: DecodeLimits | undefined;

  constructor(sink: BatchSink, limits?: DecodeLimits) {
    this.#sink = sink;
    this.#limits = limits;
  }

  /** Takes one message. Answers the number of events applied. */
  apply(frames: readonly Uint8Array[], arrival: Arrival): number {
    for (const frame of frames) this.bytes += frame.length;
    const result = decodeMessage(frames, this.#limits);
    this.lastReceivedAtUnixMs = arrival.receivedAtUnixMs;
    const tsUnixMs = result.ok ? result.batch.tsUnixMs : undefined;
    if (result.seq !== undefined && !this.#judge(result.seq, tsUnixMs, arrival)) return 0;
    const context: BatchContext = { epoch: this.tracker.epoch, seq: result.seq, tsUnixMs, receivedAtUnixMs: arrival.receivedAtUnixMs };
    if (!result.ok) {
      this.#bad(result, context);
      return 0;
    }
    if (this.topics.size < MAX_TOPICS) this.topics.add(result.topic);
    this.#batch(result.batch, context);
    return result.batch.events.length;
  }

  /** Answers whether the batch is to be applied. */
  #judge(seq: number, tsUnixMs: number | undefined, arrival: Arrival): boolean {
    const verdict = this.tracker.observe(seq, { tsUnixMs, isReconnected: arrival.isReconnected });
    if (verdict.kind === 'duplicate') return false;
    if (verdict.kind === 'next') return true;
    const context: BatchContext = { epoch: this.tracker.epoch, seq, tsUnixMs, receivedAtUnixMs: arrival.receivedAtUnixMs };
    if (verdict.kind === 'restart') {
      this.#sink.onRestart();
      const note = `sequence went back from ${verdict.lastSeq} to ${seq} and ${verdict.reason}: the engine started anew, its blocks are gone`;
      this.#sink.onNotice(context, { kind: 'restart', note });
    }
    if (verdict.gap !== undefined) {
      this.#sink.onNotice(context, { kind: 'gap', note: gapNote(verdict.gap, arrival.droppedBefore) });
      this.#sink.onGap(verdict.gap);
    }
    return true;
  }

  #bad(result: Extract<MessageResult, { ok: false }>, context: BatchContext): void {
    this.badMessages += 1;
    this.#sink.onNotice(context, { kind: 'error', note: `message not readable (${result.reason}): ${result.detail}` });
  }

  #batch(batch: KvBatch, context: BatchContext): void {
    this.batches += 1;
    this.events += batch.events.length;
    this.unknownFields += batch.unknownFields;
    this.encoding = mergeForm(this.encoding, batch.encoding);
    this.hashForm = mergeForm(this.hashForm, batch.hashForm);
    if (batch.tsUnixMs !== undefined) this.lastTsUnixMs = batch.tsUnixMs;
    if (batch.rank !== undefined) this.lastRank = batch.rank;
    for (const event of batch.events) {
      if (event.kind === 'bad') this.badEvents += 1;
      this.#sink.onEvent(context, event);
    }
  }
}

function gapNote(gap: GapRange, dropped: number): string {
  const count = gap.to - gap.from + 1;
  const range = count === 1 ? `batch ${gap.from} is missing` : `${count} batches (${gap.from} to ${gap.to}) are missing`;
  if (dropped === 0) return range;
  // More may have been refused than are missing: the queue also refuses what would have been a duplicate.
  return `${range}; ${dropped >= count ? 'all' : dropped} refused by pdscope's own full queue`;
}

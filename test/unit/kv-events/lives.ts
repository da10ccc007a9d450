/**
 * A made-up engine and its network for the receiver: lives that follow each other, batches that are lost, come twice, or
 * can be replayed from a bounded buffer; no sockets. And the same in its plainest form, as the model of what a receiver
 * must have applied.
 */
import { encode } from '@msgpack/msgpack';
import type { ReplayOutcome, ReplayRequest } from '#engine/kv-events/replay-client.ts';
import type { SubSocketOptions } from '#engine/kv-events/sub-socket.ts';

export type ReplayMode =
  | { readonly kind: 'complete' }
  /** Ends after so many replies, without an end marker. */
  | { readonly kind: 'partial'; readonly replies: number }
  | { readonly kind: 'none' };

export interface Batch {
  readonly life: number;
  readonly seq: number;
}

export interface Sent extends Batch {
  readonly ts: number;
  /** Events as they go on the wire. Default: one that names the batch. */
  readonly events?: readonly unknown[];
}

/** What the engine still has, oldest first. */
export class EngineBuffer {
  life = 1;
  readonly #capacity: number;
  #clock = 1000;
  #seq = 0;
  #sent: Sent[] = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  publish(events?: readonly unknown[]): Sent {
    this.#clock += 1;
    const sent = { life: this.life, seq: this.#seq, ts: this.#clock, ...(events !== undefined && { events }) };
    this.#seq += 1;
    this.#sent = this.#capacity === 0 ? [] : [...this.#sent, sent].slice(-this.#capacity);
    return sent;
  }

  restart(): void {
    this.life += 1;
    this.#seq = 0;
    this.#sent = [];
  }

  /** The replies to a question, and whether the end marker follows. */
  replies(from: number, mode: ReplayMode): { readonly batches: readonly Sent[]; readonly isWhole: boolean } {
    if (mode.kind === 'none') return { batches: [], isWhole: false };
    const batches = this.#sent.filter(({ seq }) => seq >= from);
    return mode.kind === 'complete' ? { batches, isWhole: true } : { batches: batches.slice(0, mode.replies), isWhole: false };
  }
}

/** Topic, sequence and payload. */
export function framesOf({ life, seq, ts, events }: Sent): [Uint8Array, Uint8Array, Uint8Array] {
  const sequence = new Uint8Array(8);
  new DataView(sequence.buffer).setBigUint64(0, BigInt(seq));
  const event = ['BlockStored', [life * 1000 + seq], null, [life, seq], 2, null, 'GPU'];
  return [new Uint8Array(0), sequence, encode([ts, events ?? [event], 0], { useBigInt64: true })];
}

/** The network between the engine and one receiver. */
export class Network {
  mode: ReplayMode = { kind: 'complete' };
  asked = 0;
  /** Called before the reply with that index of a question is handed on. */
  onReply: ((index: number) => void) | undefined;

  readonly #engine: EngineBuffer;
  #socket: SubSocketOptions | undefined;

  constructor(engine: EngineBuffer) {
    this.#engine = engine;
  }

  readonly subscribe = (options: SubSocketOptions): { open(): void; close(): Promise<void> } => ({
    open: () => {
      this.#socket = options;
    },
    close: () => Promise.resolve(),
  });

  readonly request = async ({ from, signal, onMessage }: ReplayRequest): Promise<ReplayOutcome> => {
    this.asked += 1;
    const { batches, isWhole } = this.#engine.replies(from, this.mode);
    let messages = 0;
    for (const sent of batches) {
      await new Promise((resolve) => setImmediate(resolve));
      if (signal?.aborted === true) return { status: 'aborted', messages, badReplies: 0 };
      this.onReply?.(messages);
      messages += 1;
      if (onMessage({ topic: undefined, frames: framesOf(sent) }) === false) return { status: 'stopped', messages, badReplies: 0 };
    }
    await new Promise((resolve) => setImmediate(resolve));
    if (signal?.aborted === true) return { status: 'aborted', messages, badReplies: 0 };
    if (isWhole) return { status: 'complete', messages, badReplies: 0 };
    return { status: messages === 0 ? 'silent' : 'partial', messages, badReplies: 0, reason: 'it stopped' };
  };

  connect(): void {
    this.#socket?.onHandshake?.();
    this.#socket?.onPhase('connected', undefined);
  }

  disconnect(): void {
    this.#socket?.onPhase('lost', undefined);
  }

  deliver(sent: Sent): void {
    this.#socket?.onMessage(framesOf(sent));
  }
}

/** What a receiver must have applied when it comes to rest after every step. Written for plainness. */
export class Model {
  /** Batches applied, by epoch. */
  readonly epochs: Batch[][] = [];
  missed = 0;
  lost = 0;
  duplicates = 0;
  #expected: number | undefined;
  #newest: Batch | undefined;
  #hasBroken = false;
  readonly #engine: EngineBuffer;

  constructor(engine: EngineBuffer) {
    this.#engine = engine;
  }

  /** As `epochs`, with an empty one at the end when what is known was given up and nothing has come since. */
  get lives(): readonly (readonly Batch[])[] {
    const isGivenUp = this.#expected === undefined && (this.epochs.at(-1)?.length ?? 0) > 0;
    return isGivenUp ? [...this.epochs, []] : this.epochs;
  }

  connected(mode: ReplayMode, isNew: boolean): void {
    this.#hasBroken ||= isNew;
    this.#fill(mode);
  }

  live(sent: Sent, mode: ReplayMode): void {
    if (this.#expected !== undefined && sent.seq < this.#expected && this.#isNewer(sent)) this.#begin(0);
    if (this.#expected !== undefined && sent.seq > this.#expected) {
      const { length } = this.epochs;
      const from = this.#expected;
      this.missed += sent.seq - from;
      const filled = this.#fill(mode, { from, to: sent.seq - 1 });
      this.lost += sent.seq - from - filled;
      // What is missing of another life is another gap.
      if (this.epochs.length !== length) {
        this.live(sent, mode);
        return;
      }
      if (this.#expected < sent.seq) this.#expected = sent.seq;
    }
    if (this.#expected !== undefined && sent.seq < this.#expected) {
      this.duplicates += 1;
      return;
    }
    this.#apply(sent);
    this.#hasBroken = false;
  }

  #isNewer(sent: Sent): boolean {
    return this.#newest !== undefined && this.#newest.life !== sent.life;
  }

  #begin(seq: number | undefined): void {
    this.epochs.push([]);
    this.#expected = seq;
    this.#newest = undefined;
  }

  #apply(batch: Batch): void {
    if (this.#expected === undefined && (this.epochs.length === 0 || this.epochs.at(-1)?.length !== 0)) this.#begin(batch.seq);
    this.epochs.at(-1)?.push({ life: batch.life, seq: batch.seq });
    this.#expected = batch.seq + 1;
    this.#newest = batch;
  }

  /** Answers how many batches of the gap came. */
  #fill(mode: ReplayMode, gap = { from: Infinity, to: -Infinity }): number {
    const anchor = this.#newest;
    const epochsBefore = this.epochs.length;
    const { batches, isWhole } = this.#engine.replies(anchor?.seq ?? this.#expected ?? 0, mode);
    const [first] = batches;
    if (anchor !== undefined && (first === undefined ? isWhole : first.seq === anchor.seq && first.life !== anchor.life)) {
      this.#begin(0);
      return this.#fill(mode);
    }
    if (anchor !== undefined && first !== undefined && first.seq > anchor.seq && this.#hasBroken) {
      this.#expected = undefined;
      this.#newest = undefined;
    }
    let filled = 0;
    for (const batch of batches) {
      if (this.#expected !== undefined && batch.seq < this.#expected) continue;
      if (this.#expected !== undefined && batch.seq > this.#expected && !(this.#expected >= gap.from && this.#expected <= gap.to)) {
        this.missed += batch.seq - this.#expected;
        this.lost += batch.seq - this.#expected;
      }
      this.#apply(batch);
      if (this.epochs.length === epochsBefore && batch.seq >= gap.from && batch.seq <= gap.to) filled += 1;
    }
    if (isWhole || first !== undefined) this.#hasBroken = false;
    if (isWhole && this.#expected === undefined) this.#begin(0);
    return filled;
  }
}

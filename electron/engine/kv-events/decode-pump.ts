/**
 * The bounded queue between the sockets and the decoder. Sockets offer messages and return; the pump hands them on in
 * slices of a fraction of a millisecond, one per turn of the event loop, each lane in its turn, so that neither a flood
 * nor one busy stream delays tokens or starves a quiet stream. What comes from a decode instance waits for a slice at most.
 *
 * The limit is shared: a lane is refused when the queue is full and the lane already has its fair share of it. So the
 * queue never holds more than twice the limit, and refused messages are counted by the lane. One message that is larger
 * than all of that is taken by a queue with room, for the decoder to say what is wrong with it.
 */
import { BlockPool, FrameSlab, framesAt, type Block } from './frame-slab.ts';

export interface QueueLimit {
  readonly messages: number;
  readonly bytes: number;
}

export interface QueuedMessage {
  /** Running number of the lane's accepted messages, from 1. */
  readonly number: number;
  /** There until the message was handled, unless it is put back. */
  readonly frames: readonly Uint8Array[];
  readonly bytes: number;
  readonly receivedAtUnixMs: number;
  /** The connection was made anew since the message before. */
  readonly isReconnected: boolean;
  /** Messages of this lane that were refused since the message before. */
  readonly droppedBefore: number;
}

/** A message while it waits: one flat object, since thousands of them may. */
interface Waiting extends Omit<QueuedMessage, 'frames'> {
  /** The frames themselves, or the block that they were copied to. */
  readonly source: readonly Uint8Array[] | Block;
  /** Where in the block. */
  readonly start: number;
}

export type Handle = (message: QueuedMessage) => void;

/** Messages of one lane handled before the next lane has its turn. */
const TURN_MESSAGES = 8;
/** Default time of one slice, ms: a turn costs some ten microseconds, so that shorter ones would buy little where nobody waits. */
const SLICE_MS = 0.5;

export class DecodePump {
  readonly #limit: QueueLimit;
  readonly #sliceMs: () => number;
  readonly #blocks = new BlockPool();
  readonly #lanes = new Set<PumpLane>();
  #isScheduled = false;
  #messages = 0;
  #bytes = 0;

  /** `sliceMs`: how long the slice that begins may take. Default: half a millisecond. */
  constructor(limit: QueueLimit, sliceMs: () => number = () => SLICE_MS) {
    this.#limit = limit;
    this.#sliceMs = sliceMs;
  }

  get queuedMessages(): number {
    return this.#messages;
  }

  /** Adds a lane. `handle` must not throw. */
  open(handle: Handle): PumpLane {
    const lane = new PumpLane(handle, this, this.#blocks);
    this.#lanes.add(lane);
    return lane;
  }

  /** For lanes only: whether a message fits, and if so, its booking. */
  book(lane: PumpLane, bytes: number): boolean {
    const lanes = this.#lanes.size;
    const isFull = this.#messages >= this.#limit.messages || this.#bytes + bytes > this.#limit.bytes;
    const hasShare = lane.queued >= this.#limit.messages / lanes || lane.queuedBytes + bytes > this.#limit.bytes / lanes;
    const isOversize = bytes > this.#limit.bytes && lane.queued === 0 && this.#bytes < this.#limit.bytes;
    if (isFull && hasShare && !isOversize) return false;
    this.#messages += 1;
    this.#bytes += bytes;
    this.#schedule();
    return true;
  }

  /** For lanes only: messages left the queue (or came back, when negative). */
  unbook(messages: number, bytes: number): void {
    this.#messages -= messages;
    this.#bytes -= bytes;
  }

  /** For lanes only: a held lane may go on, or a lane is gone. */
  changed(lane: PumpLane): void {
    if (lane.isClosed) this.#lanes.delete(lane);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#runSlice()) this.#schedule();
    });
  }

  /** Answers whether work is left. */
  #runSlice(): boolean {
    const until = performance.now() + this.#sliceMs();
    for (let isWorking = true; isWorking; ) {
      isWorking = false;
      for (const lane of this.#lanes) {
        for (let turn = 0; turn < TURN_MESSAGES && lane.handleNext(); turn += 1) {
          isWorking = true;
          if (performance.now() >= until) {
            // The next slice begins with the lanes after this one.
            this.#lanes.delete(lane);
            if (!lane.isClosed) this.#lanes.add(lane);
            return true;
          }
        }
      }
    }
    return false;
  }
}

export class PumpLane {
  isClosed = false;
  /** Messages refused because the queue was full. */
  dropped = 0;
  queuedBytes = 0;
  /** Number of the message accepted last. */
  lastNumber = 0;

  readonly #handle: Handle;
  readonly #pump: DecodePump;
  readonly #slab: FrameSlab;
  #messages: Waiting[] = [];
  #head = 0;
  isHeld = false;
  /** Handed on before, and put back by `hold`. */
  #again: QueuedMessage | undefined;
  /** Where the frames of the message taken out last are, until it was handled. */
  #block: Block | undefined;
  #droppedBefore = 0;

  constructor(handle: Handle, pump: DecodePump, blocks: BlockPool) {
    this.#handle = handle;
    this.#pump = pump;
    this.#slab = new FrameSlab(blocks);
  }

  get queued(): number {
    return this.#messages.length - this.#head + (this.#again === undefined ? 0 : 1);
  }

  /** Refused since the last accepted message, which no message has told yet. */
  get droppedSince(): number {
    return this.#droppedBefore;
  }

  /** Queues a message. False, and counted, when it was refused. */
  offer(frames: readonly Uint8Array[], isReconnected: boolean): boolean {
    let bytes = 0;
    for (const frame of frames) bytes += frame.length;
    if (this.isClosed) return false;
    if (!this.#pump.book(this, bytes)) {
      this.dropped += 1;
      this.#droppedBefore += 1;
      return false;
    }
    this.queuedBytes += bytes;
    this.lastNumber += 1;
    const copy = this.#slab.add(frames, bytes);
    this.#messages.push({
      number: this.lastNumber, bytes, receivedAtUnixMs: Date.now(), isReconnected, droppedBefore: this.#droppedBefore,
      source: copy?.block ?? frames, start: copy?.start ?? 0,
    });
    this.#droppedBefore = 0;
    return true;
  }

  /** Keeps messages in the queue until `release()`. `again`: the message being handled, to come once more, before the others. */
  hold(again?: QueuedMessage): void {
    this.isHeld = true;
    if (again === undefined) return;
    this.#again = again;
    this.queuedBytes += again.bytes;
    this.#pump.unbook(-1, -again.bytes);
  }

  release(): void {
    this.isHeld = false;
    this.#pump.changed(this);
  }

  /** For the pump only. False when there is nothing to handle. */
  handleNext(): boolean {
    if (this.isHeld) return false;
    const message = this.#again ?? this.#next();
    if (message === undefined) return false;
    this.#again = undefined;
    this.queuedBytes -= message.bytes;
    this.#pump.unbook(1, message.bytes);
    this.#handle(message);
    if (this.#again === undefined && this.#block !== undefined) {
      this.#slab.release(this.#block);
      this.#block = undefined;
    }
    return true;
  }

  /** Takes the oldest message out. */
  #next(): QueuedMessage | undefined {
    const waiting = this.#messages[this.#head];
    if (waiting === undefined) return undefined;
    this.#advance();
    const { number, bytes, receivedAtUnixMs, isReconnected, droppedBefore, source, start } = waiting;
    const isCopied = 'bytes' in source;
    if (isCopied) this.#block = source;
    return { number, bytes, receivedAtUnixMs, isReconnected, droppedBefore, frames: isCopied ? framesAt(source, start) : source };
  }

  #advance(): void {
    this.#head += 1;
    if (this.#head === this.#messages.length) {
      this.#messages = [];
      this.#head = 0;
    } else if (this.#head >= 1024) {
      // Handled messages must not be pinned; in steps, so that the copying stays cheap.
      this.#messages = this.#messages.slice(this.#head);
      this.#head = 0;
    }
  }

  /** Forgets what is queued. */
  close(): void {
    this.isClosed = true;
    this.#pump.unbook(this.queued, this.queuedBytes);
    this.#again = undefined;
    this.#messages = [];
    this.#head = 0;
    this.queuedBytes = 0;
    this.#pump.changed(this);
  }
}

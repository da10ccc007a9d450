/**
 * The raw frames of recent messages, for whoever wants to see what an event came in. One block of bytes, written round
 * and round: every frame is copied, because a reference to a received buffer may pin the pool it was cut from, and
 * because one block is one object to the garbage collector whatever the traffic.
 *
 * A message is found by the number of the first row that was made from it: rows are numbered in the order in which
 * messages are applied. Invariants: kept messages lie one after the other in the order they came; at most `maxBytes` of
 * bytes and `maxMessages` of messages are kept, the oldest go first; a message that is too large for a quarter of the
 * bytes is kept in part and says so.
 */
export interface FrameRingOptions {
  /** Default 16 MiB. The memory is reserved at once and touched only as it fills. */
  readonly maxBytes?: number;
  /** Default 65,536. */
  readonly maxMessages?: number;
}

export interface KeptFrame {
  /** Its whole length. */
  readonly length: number;
  /** A copy; shorter than `length` when not all of it was kept. */
  readonly bytes: Buffer;
}

export interface KeptMessage {
  /** The first row made from it, if any was. */
  readonly firstRow: number;
  readonly receivedAtUnixMs: number;
  readonly frames: readonly KeptFrame[];
}

/** Real messages have three frames, replayed ones up to five; what a stranger sends beyond that is counted only. */
const MAX_FRAMES = 8;
/** Length of a frame, and how much of it is kept. */
const HEADER_BYTES = 8;
const MIB = 1024 * 1024;

export class FrameRing {
  readonly #maxBytes: number;
  readonly #maxMessages: number;
  #bytes: Buffer | undefined;
  readonly #firstRow: Float64Array;
  readonly #receivedAtUnixMs: Float64Array;
  readonly #start: Float64Array;
  readonly #size: Float64Array;
  readonly #frames: Uint8Array;
  /** Messages ever put in; the kept ones are the last `#kept` of them. */
  #total = 0;
  #kept = 0;
  /** Where the next message goes. */
  #at = 0;
  #used = 0;

  constructor(options: FrameRingOptions = {}) {
    this.#maxBytes = options.maxBytes ?? 16 * MIB;
    this.#maxMessages = options.maxMessages ?? 65_536;
    this.#firstRow = new Float64Array(this.#maxMessages);
    this.#receivedAtUnixMs = new Float64Array(this.#maxMessages);
    this.#start = new Float64Array(this.#maxMessages);
    this.#size = new Float64Array(this.#maxMessages);
    this.#frames = new Uint8Array(this.#maxMessages);
  }

  /** Messages kept. */
  get kept(): number {
    return this.#kept;
  }

  /** Bytes in use, with what tells frames apart. */
  get bytes(): number {
    return this.#used;
  }

  /** Messages that were given up for room. */
  get evicted(): number {
    return this.#total - this.#kept;
  }

  /** Copies a message. @param firstRow the number that the first row made from it will have. */
  add(firstRow: number, receivedAtUnixMs: number, frames: readonly Uint8Array[]): void {
    const count = Math.min(frames.length, MAX_FRAMES);
    let left = Math.floor(this.#maxBytes / 4) - count * HEADER_BYTES;
    let size = count * HEADER_BYTES;
    for (let index = 0; index < count; index += 1) {
      const taken = Math.min(frames[index]?.length ?? 0, left);
      left -= taken;
      size += taken;
    }
    const start = this.#makeRoom(size);
    const into = (this.#bytes ??= Buffer.allocUnsafeSlow(this.#maxBytes));
    const slot = this.#total % this.#maxMessages;
    this.#firstRow[slot] = firstRow;
    this.#receivedAtUnixMs[slot] = receivedAtUnixMs;
    this.#start[slot] = start;
    this.#size[slot] = size;
    this.#frames[slot] = count;
    let at = start;
    let room = Math.floor(this.#maxBytes / 4) - count * HEADER_BYTES;
    for (let index = 0; index < count; index += 1) {
      const frame = frames[index];
      if (frame === undefined) break;
      const taken = Math.min(frame.length, room);
      room -= taken;
      into.writeUInt32LE(frame.length, at);
      into.writeUInt32LE(taken, at + 4);
      into.set(taken === frame.length ? frame : frame.subarray(0, taken), at + HEADER_BYTES);
      at += HEADER_BYTES + taken;
    }
    this.#at = at;
    this.#used += size;
    this.#total += 1;
    this.#kept += 1;
  }

  /** The message that row `n` was made from: the newest whose first row is not past it. `evicted`: it was given up. */
  find(n: number): KeptMessage | 'evicted' {
    let low = this.#total - this.#kept;
    let high = this.#total;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if ((this.#firstRow[middle % this.#maxMessages] ?? 0) <= n) low = middle + 1;
      else high = middle;
    }
    // Several messages without rows may share a first row: it belongs to the last of them.
    const number = low - 1;
    return number < this.#total - this.#kept ? 'evicted' : this.#read(number % this.#maxMessages);
  }

  #read(slot: number): KeptMessage {
    const frames: KeptFrame[] = [];
    let at = this.#start[slot] ?? 0;
    const bytes = this.#bytes ?? Buffer.alloc(0);
    for (let index = 0; index < (this.#frames[slot] ?? 0); index += 1) {
      const taken = bytes.readUInt32LE(at + 4);
      frames.push({ length: bytes.readUInt32LE(at), bytes: Buffer.from(bytes.subarray(at + HEADER_BYTES, at + HEADER_BYTES + taken)) });
      at += HEADER_BYTES + taken;
    }
    return { firstRow: this.#firstRow[slot] ?? 0, receivedAtUnixMs: this.#receivedAtUnixMs[slot] ?? 0, frames };
  }

  /** Gives up the oldest until `size` bytes in a row are free. Answers where. */
  #makeRoom(size: number): number {
    if (this.#kept === this.#maxMessages) this.#dropOldest();
    let start = this.#at;
    if (start + size > this.#maxBytes) {
      // What lies between here and the end is older than what lies at the beginning.
      while (this.#kept > 0 && this.#oldestStart() >= start) this.#dropOldest();
      start = 0;
    }
    while (this.#kept > 0 && this.#oldestStart() >= start && this.#oldestStart() < start + size) this.#dropOldest();
    return start;
  }

  #oldestStart(): number {
    return this.#start[(this.#total - this.#kept) % this.#maxMessages] ?? 0;
  }

  #dropOldest(): void {
    this.#used -= this.#size[(this.#total - this.#kept) % this.#maxMessages] ?? 0;
    this.#kept -= 1;
  }
}

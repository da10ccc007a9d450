/**
 * Reads msgpack whose types are known beforehand, straight from bytes. Made for one thing: KV events as engines send
 * them, millions a second. Whatever has another type, or is cut off, makes it give up by a throw; the caller then takes the
 * general way, which judges and reports. So nothing here explains, and nothing is accepted that the general way would not
 * read as the same value.
 */
import type { WordRun } from './word-run.ts';

/** Thrown when the bytes are not what was expected; made once, as it carries nothing. */
export class OtherMsgpack extends Error {}
const OTHER = new OtherMsgpack('not the expected msgpack');

/** Longest text that is read here. */
const MAX_TEXT_BYTES = 128;
/** Texts remembered: media, kinds, adapters. */
const TEXTS = 64;
const NOTHING: Uint8Array = new Uint8Array(0);

interface KnownText {
  readonly bytes: AsciiBytes;
  readonly text: string;
}

export class MsgpackCursor {
  /** A negative integer was among the last hashes. */
  isSigned = false;
  #bytes: Uint8Array = NOTHING;
  #view = new DataView(NOTHING.buffer);
  #at = 0;
  /** By a mix of their bytes; a text takes the place of the one before. */
  readonly #texts: (KnownText | undefined)[] = Array.from<undefined>({ length: TEXTS });

  open(bytes: Uint8Array): void {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#at = 0;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** @throws OtherMsgpack always. */
  giveUp(): never {
    throw OTHER;
  }

  /** The first byte of the next value; tells its type. */
  peek(): number {
    return this.#bytes[this.#at] ?? this.giveUp();
  }

  /** Skips a nil. False, and nothing skipped, when there is another value. */
  nil(): boolean {
    if (this.#bytes[this.#at] !== 0xc0) return false;
    this.#at += 1;
    return true;
  }

  /** Length of an array. What it claims fits into the bytes that are left. */
  array(): number {
    const head = this.#next();
    const length = head >= 0x90 && head <= 0x9f ? head & 0x0f : head === 0xdc ? this.#unsigned(2) : head === 0xdd ? this.#unsigned(4) : this.giveUp();
    return length <= this.#bytes.length - this.#at ? length : this.giveUp();
  }

  /** Pairs of a map. */
  map(): number {
    const head = this.#next();
    return head >= 0x80 && head <= 0x8f ? head & 0x0f : head === 0xde ? this.#unsigned(2) : this.giveUp();
  }

  float64(): number {
    if (this.#next() !== 0xcb) this.giveUp();
    const at = this.#at;
    this.#at += 8;
    if (this.#at > this.#bytes.length) this.giveUp();
    return this.#view.getFloat64(at);
  }

  /** An integer of at most 32 bits. */
  integer(): number {
    const head = this.#next();
    if (head <= 0x7f) return head;
    if (head >= 0xe0) return head - 0x100;
    switch (head) {
      case 0xcc: return this.#unsigned(1);
      case 0xcd: return this.#unsigned(2);
      case 0xce: return this.#unsigned(4);
      case 0xd0: return (this.#unsigned(1) << 24) >> 24;
      case 0xd1: return (this.#unsigned(2) << 16) >> 16;
      case 0xd2: return this.#unsigned(4) | 0;
      default: return this.giveUp();
    }
  }

  /** An ASCII text of at most 128 bytes. Texts that repeat are one string. */
  text(): string {
    const head = this.#next();
    const length = head >= 0xa0 && head <= 0xbf ? head & 0x1f : head === 0xd9 ? this.#unsigned(1) : this.giveUp();
    const bytes = this.#bytes;
    const start = this.#at;
    this.#at += length;
    if (length > MAX_TEXT_BYTES || this.#at > bytes.length) this.giveUp();
    const slot = (length * 31 + (bytes[start] ?? 0) * 7 + (bytes[this.#at - 1] ?? 0)) % TEXTS;
    const known = this.#texts[slot];
    if (known !== undefined && known.bytes.length === length && known.bytes.areAt(this.#view, start)) return known.text;
    return this.#newText(slot, start, length);
  }

  /** The number of a short text among `names`, which it must be. */
  name(names: NameTable): number {
    const head = this.#next();
    const start = this.#at;
    const length = head & 0x1f;
    this.#at = start + length;
    if (head < 0xa0 || head > 0xbf || this.#at > this.#bytes.length) this.giveUp();
    const number = names.guess(length, this.#bytes[start] ?? 0);
    const name = names.bytes[number];
    if (name === undefined || name.length !== length || !name.areAt(this.#view, start)) this.giveUp();
    return number;
  }

  /** Integers of 32 bits without a sign; fills a run. */
  words({ words: into, start, length }: WordRun): void {
    const bytes = this.#bytes;
    const view = this.#view;
    const end = bytes.length;
    let at = this.#at;
    for (let index = start; index < start + length; index += 1) {
      const head = bytes[at] ?? 0xc1;
      if (head <= 0x7f) {
        into[index] = head;
        at += 1;
      } else if (head === 0xce && at + 5 <= end) {
        into[index] = view.getInt32(at + 1);
        at += 5;
      } else if (head === 0xcd && at + 3 <= end) {
        into[index] = view.getUint16(at + 1);
        at += 3;
      } else if (head === 0xcc && at + 2 <= end) {
        into[index] = view.getUint8(at + 1);
        at += 2;
      } else {
        this.giveUp();
      }
    }
    this.#at = at;
  }

  /** Integers of up to 64 bits, as two words each, high then low, two's complement; fills a run. Says in `isSigned` whether one was negative. */
  longs({ words: into, start, length }: WordRun): void {
    this.isSigned = false;
    for (let index = start; index < start + length; index += 2) {
      const head = this.#bytes[this.#at];
      if (head === 0xcf || head === 0xd3) {
        const at = this.#at;
        this.#at = at + 9;
        if (this.#at > this.#bytes.length) this.giveUp();
        const high = this.#view.getInt32(at + 1);
        into[index] = high;
        into[index + 1] = this.#view.getInt32(at + 5);
        if (head === 0xd3 && high < 0) this.isSigned = true;
      } else {
        const value = this.integer();
        into[index] = value < 0 ? 0xffff_ffff : 0;
        into[index + 1] = value;
        if (value < 0) this.isSigned = true;
      }
    }
  }

  /** A copy of bytes, at most `longest` of them. */
  binary(longest: number): Uint8Array {
    if (this.#next() !== 0xc4) this.giveUp();
    const length = this.#unsigned(1);
    const start = this.#at;
    this.#at += length;
    if (length > longest || this.#at > this.#bytes.length) this.giveUp();
    // A plain array, also of a Buffer.
    return new Uint8Array(this.#bytes.subarray(start, this.#at));
  }

  #next(): number {
    const head = this.#bytes[this.#at] ?? this.giveUp();
    this.#at += 1;
    return head;
  }

  #unsigned(size: 1 | 2 | 4): number {
    const at = this.#at;
    this.#at = at + size;
    if (this.#at > this.#bytes.length) this.giveUp();
    if (size === 4) return this.#view.getUint32(at);
    return size === 2 ? this.#view.getUint16(at) : this.#view.getUint8(at);
  }

  #newText(slot: number, start: number, length: number): string {
    const bytes = new Uint8Array(length);
    for (let index = 0; index < length; index += 1) {
      const byte = this.#bytes[start + index] ?? 0;
      if (byte >= 0x80) this.giveUp();
      bytes[index] = byte;
    }
    const text = String.fromCharCode(...bytes);
    this.#texts[slot] = { bytes: new AsciiBytes(bytes), text };
    return text;
  }
}

/** Short names that are told apart by their length and first letter, by their place in the list. */
export class NameTable {
  readonly bytes: readonly AsciiBytes[];
  readonly #guesses = new Uint8Array(32 * 256);

  constructor(names: readonly string[]) {
    this.bytes = names.map((name) => new AsciiBytes(Buffer.from(name, 'latin1')));
    for (const [number, name] of names.entries()) this.#guesses[name.length * 256 + name.charCodeAt(0)] = number;
  }

  /** The only name that it can be; 0 when there is none. */
  guess(length: number, first: number): number {
    return this.#guesses[length * 256 + first] ?? 0;
  }
}

/** Bytes to compare with, four at a time. */
class AsciiBytes {
  readonly length: number;
  readonly #words: Int32Array;
  /** After the words. */
  readonly #rest: Uint8Array;

  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.length = bytes.length;
    this.#words = Int32Array.from({ length: bytes.length >>> 2 }, (_, index) => view.getInt32(index * 4));
    this.#rest = Uint8Array.from(bytes.subarray(this.#words.length * 4));
  }

  /** Whether they stand at `start`. So many bytes must be there. */
  areAt(view: DataView, start: number): boolean {
    const words = this.#words;
    let at = start;
    for (let index = 0; index < words.length; index += 1, at += 4) if (view.getInt32(at) !== words[index]) return false;
    const rest = this.#rest;
    for (let index = 0; index < rest.length; index += 1) if (view.getUint8(at + index) !== rest[index]) return false;
    return true;
  }
}

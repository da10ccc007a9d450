/**
 * Packs plain values (what JSON can say, and undefined and every number) into bytes, so that history costs one run of
 * bytes instead of hundreds of objects for the garbage collector to keep and to mark. Exact: value-reader.ts gives an
 * equal value back. What repeats within a value is written once, what repeats among records goes to the shared texts,
 * and lists of numbers become differences.
 */
import { TAG, THOUSAND } from './packed-tags.ts';
import { FIELD_SEPARATOR, MAX_SHARED_CHARS, type SharedTexts } from './shared-texts.ts';

const FIRST_BYTES = 16 * 1024;
const GROUP = 128;
/** Shorter lists gain nothing. */
const MIN_RUN = 4;
/** Differences of numbers below it are safe integers when doubled. */
const MAX_RUN_NUMBER = 2 ** 50;
/** Texts shorter than a reference to them would be. */
const MIN_REPEATED_CHARS = 3;

export class ValuePacker {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;
  /** Where the value begins; repetitions are told relative to it. */
  #start = 0;
  #record = 0;
  #texts: SharedTexts;
  readonly #places = new Map<string | number, number>();

  constructor(texts: SharedTexts) {
    this.#texts = texts;
  }

  /** Starts over. `record`: a number of its own for each record, to tell which texts repeat among them. */
  begin(texts: SharedTexts, record: number): void {
    this.#texts = texts;
    this.#record = record;
    this.#at = 0;
  }

  /**
   * Appends a value. @returns where it ends.
   * @throws TypeError for what is not plain: a function, a symbol, a bigint, an object of a class.
   */
  add(value: unknown): number {
    this.#start = this.#at;
    this.#places.clear();
    this.#value(value);
    return this.#at;
  }

  /** What was added since `begin`; valid until the next call. */
  get packed(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  #value(value: unknown): void {
    switch (typeof value) {
      case 'string':
        this.#text(value);
        return;
      case 'number':
        this.#number(value);
        return;
      case 'boolean':
        this.#byte(value ? TAG.true : TAG.false);
        return;
      case 'undefined':
        this.#byte(TAG.undefined);
        return;
      case 'object':
        if (value === null) this.#byte(TAG.null);
        else if (Array.isArray(value)) this.#list(value);
        else this.#object(value);
        return;
      default:
        throw new TypeError(`a ${typeof value} cannot be packed`);
    }
  }

  #number(value: number): void {
    if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
      if (value >= 0 && value < GROUP) {
        this.#byte(value);
      } else {
        this.#byte(value < 0 ? TAG.negative : TAG.whole);
        this.#whole(Math.abs(value));
      }
      return;
    }
    if (this.#again(value)) return;
    this.#room(9);
    this.#bytes[this.#at] = TAG.double;
    this.#bytes.writeDoubleLE(value, this.#at + 1);
    this.#at += 9;
  }

  #text(text: string): void {
    if (text.length >= MIN_REPEATED_CHARS) {
      const number = text.length <= MAX_SHARED_CHARS ? this.#texts.numberOf(text) : undefined;
      if (number !== undefined) {
        this.#byte(TAG.shared);
        this.#whole(number);
        return;
      }
      if (this.#again(text)) return;
    }
    this.#room(2 * text.length + 16);
    const start = this.#at;
    this.#byte(TAG.latin1);
    this.#whole(text.length);
    let hash = 0x811c_9dc5;
    for (let index = 0; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      if (unit > 0xff) {
        this.#at = start;
        this.#wideText(text);
        return;
      }
      hash = Math.imul(hash ^ unit, 0x0100_0193);
      this.#bytes[this.#at + index] = unit;
    }
    this.#at += text.length;
    if (text.length < MIN_REPEATED_CHARS || text.length > MAX_SHARED_CHARS || !this.#texts.isRepeated(hash, this.#record)) return;
    this.#texts.add(this.#bytes.toString('latin1', this.#at - text.length, this.#at));
  }

  #wideText(text: string): void {
    this.#byte(TAG.utf16);
    this.#whole(2 * text.length);
    this.#at += this.#bytes.write(text, this.#at, 'utf16le');
  }

  /** Refers to where the same was written before in this value; else remembers that it is written now. */
  #again(value: string | number): boolean {
    const place = this.#places.get(value);
    if (place === undefined) {
      this.#places.set(value, this.#at - this.#start);
      return false;
    }
    this.#byte(TAG.again);
    this.#whole(place);
    return true;
  }

  #list(list: readonly unknown[]): void {
    const scale = list.length < MIN_RUN ? undefined : scaleOf(list);
    if (scale !== undefined) {
      this.#run(list as readonly number[], scale);
      return;
    }
    this.#byte(TAG.list);
    this.#whole(list.length);
    // Not forEach, which skips holes.
    for (let index = 0; index < list.length; index += 1) this.#value(list[index]);
  }

  #run(numbers: readonly number[], scale: number): void {
    this.#byte(scale === 1 ? TAG.wholes : TAG.thousandths);
    this.#whole(numbers.length);
    let before = 0;
    for (const number of numbers) {
      const scaled = Math.round(number * scale);
      const difference = scaled - before;
      this.#whole(difference >= 0 ? 2 * difference : -2 * difference - 1);
      before = scaled;
    }
  }

  #object(object: object): void {
    const prototype: unknown = Object.getPrototypeOf(object);
    if (prototype !== Object.prototype && prototype !== null) throw new TypeError('an object of a class cannot be packed');
    const names = Object.keys(object);
    const values: readonly unknown[] = Object.values(object);
    if (this.#fields(names)) {
      for (let index = 0; index < values.length; index += 1) this.#value(values[index]);
      return;
    }
    this.#byte(TAG.pairs);
    this.#whole(names.length);
    for (let index = 0; index < names.length; index += 1) {
      this.#text(names[index] ?? '');
      this.#value(values[index]);
    }
  }

  /** Begins an object of these fields. False when it must be told in pairs. */
  #fields(names: readonly string[]): boolean {
    const known = this.#texts.numberOfFields(names);
    if (known !== undefined) {
      this.#byte(TAG.object);
      this.#byte(TAG.shared);
      this.#whole(known);
      return true;
    }
    const joined = names.join(FIELD_SEPARATOR);
    if (names.length === 0 || joined.length > MAX_SHARED_CHARS || names.some((name) => name.includes(FIELD_SEPARATOR))) return false;
    this.#byte(TAG.object);
    this.#text(joined);
    const number = this.#texts.numberOf(joined);
    if (number !== undefined) this.#texts.knowFields(names, number);
    return true;
  }

  #whole(value: number): void {
    this.#room(8);
    let left = value;
    while (left >= GROUP) {
      const rest = left % GROUP;
      this.#bytes[this.#at] = GROUP + rest;
      this.#at += 1;
      left = (left - rest) / GROUP;
    }
    this.#bytes[this.#at] = left;
    this.#at += 1;
  }

  #byte(byte: number): void {
    this.#room(1);
    this.#bytes[this.#at] = byte;
    this.#at += 1;
  }

  #room(count: number): void {
    if (this.#at + count <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, this.#at + count));
    this.#bytes.copy(grown, 0, 0, this.#at);
    this.#bytes = grown;
  }
}

/** 1 when all are whole numbers, 1000 when all are whole thousandths, undefined when neither. */
function scaleOf(list: readonly unknown[]): number | undefined {
  let scale = 1;
  for (let index = 0; index < list.length; index += 1) {
    const value = list[index];
    if (typeof value !== 'number' || Object.is(value, -0) || !(Math.abs(value) < MAX_RUN_NUMBER / THOUSAND)) return undefined;
    if (Number.isInteger(value)) continue;
    if (Math.round(value * THOUSAND) / THOUSAND !== value) return undefined;
    scale = THOUSAND;
  }
  return scale;
}

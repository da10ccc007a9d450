/** Reads what value-packer.ts packed. Bytes are pdscope's own: broken ones are a broken invariant, and throw. */
import { TAG, THOUSAND } from './packed-tags.ts';
import { FIELD_SEPARATOR, type SharedTexts } from './shared-texts.ts';

const GROUP = 128;

/** The value that begins at `start`. `texts`: the table that it was packed with. */
export function readValue(bytes: Buffer, start: number, texts: SharedTexts): unknown {
  return new ValueReader(bytes, start, texts).read();
}

class ValueReader {
  readonly #bytes: Buffer;
  readonly #start: number;
  readonly #texts: SharedTexts;
  #at: number;

  constructor(bytes: Buffer, start: number, texts: SharedTexts) {
    this.#bytes = bytes;
    this.#start = start;
    this.#texts = texts;
    this.#at = start;
  }

  read(): unknown {
    const tag = this.#byte();
    if (tag < GROUP) return tag;
    switch (tag) {
      case TAG.undefined:
        return undefined;
      case TAG.null:
        return null;
      case TAG.false:
        return false;
      case TAG.true:
        return true;
      case TAG.whole:
        return this.#whole();
      case TAG.negative:
        return -this.#whole();
      case TAG.double: {
        const value = this.#bytes.readDoubleLE(this.#at);
        this.#at += 8;
        return value;
      }
      case TAG.latin1:
      case TAG.utf16:
        return this.#text(tag);
      case TAG.shared:
        return this.#texts.textOf(this.#whole());
      case TAG.again:
        return this.#again();
      case TAG.list:
        return this.#list();
      case TAG.wholes:
        return this.#run(1);
      case TAG.thousandths:
        return this.#run(THOUSAND);
      case TAG.object:
        return this.#object();
      case TAG.pairs:
        return this.#pairs();
      default:
        throw new Error(`byte ${tag} begins no packed value`);
    }
  }

  #byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw new Error('a packed value goes beyond its bytes');
    this.#at += 1;
    return byte;
  }

  #whole(): number {
    let value = 0;
    let weight = 1;
    for (let byte = this.#byte(); ; byte = this.#byte()) {
      if (byte < GROUP) return value + byte * weight;
      value += (byte - GROUP) * weight;
      weight *= GROUP;
    }
  }

  #text(tag: number): string {
    const length = this.#whole();
    const start = this.#at;
    this.#at += length;
    return this.#bytes.toString(tag === TAG.latin1 ? 'latin1' : 'utf16le', start, this.#at);
  }

  #again(): unknown {
    const place = this.#whole();
    const back = this.#at;
    this.#at = this.#start + place;
    const value = this.read();
    this.#at = back;
    return value;
  }

  #list(): unknown[] {
    const count = this.#whole();
    const list: unknown[] = [];
    for (let index = 0; index < count; index += 1) list.push(this.read());
    return list;
  }

  #run(scale: number): number[] {
    const count = this.#whole();
    const numbers: number[] = [];
    let before = 0;
    for (let index = 0; index < count; index += 1) {
      const coded = this.#whole();
      before += coded % 2 === 0 ? coded / 2 : -(coded + 1) / 2;
      numbers.push(before / scale);
    }
    return numbers;
  }

  #object(): unknown {
    const object: Record<string, unknown> = {};
    for (const name of this.#fields()) set(object, name, this.read());
    return object;
  }

  #fields(): readonly string[] {
    if (this.#bytes[this.#at] !== TAG.shared) return (this.read() as string).split(FIELD_SEPARATOR);
    this.#at += 1;
    return this.#texts.fieldsOf(this.#whole());
  }

  #pairs(): unknown {
    const object: Record<string, unknown> = {};
    for (let left = this.#whole(); left > 0; left -= 1) {
      const name = this.read() as string;
      set(object, name, this.read());
    }
    return object;
  }
}

/** A field of that name which came from outside must not become the object's prototype. */
function set(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__') Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  else object[name] = value;
}

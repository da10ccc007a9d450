/**
 * Texts that many packed values have in common, each kept once: names of fields, instances, URLs, headers. A text is
 * taken in when a second record has it, so that ids of single requests stay where they are. A table never changes what a
 * number stands for and takes a bounded number of texts; when it is full its owner begins another, and this one lives as
 * long as a record that refers to it.
 */
const MAX_TEXTS = 4096;
const MAX_SEEN = 8192;
/** Characters of a text that is shared; long ones hardly repeat. */
export const MAX_SHARED_CHARS = 512;

/** Names of fields in their order, letter by letter as it were: found without joining them. */
interface FieldNode {
  number: number | undefined;
  readonly next: Map<string, FieldNode>;
}

/** Between the names of the fields of one object. */
export const FIELD_SEPARATOR = '\0';

export class SharedTexts {
  readonly #texts: string[] = [];
  readonly #fields: (readonly string[] | undefined)[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #root: FieldNode = { number: undefined, next: new Map() };
  /** Hashes of texts seen once, and in which record. Not the texts: one may be a part of a large body. */
  #seen = new Map<number, number>();

  get isFull(): boolean {
    return this.#texts.length >= MAX_TEXTS;
  }

  numberOf(text: string): number | undefined {
    return this.#numbers.get(text);
  }

  textOf(number: number): string {
    const text = this.#texts[number];
    if (text === undefined) throw new Error(`no text has the number ${number}`);
    return text;
  }

  /** The names of the fields that a text lists. */
  fieldsOf(number: number): readonly string[] {
    return (this.#fields[number] ??= this.textOf(number).split(FIELD_SEPARATOR));
  }

  /** The number of the text that lists these fields, if `knowFields` told it. */
  numberOfFields(names: readonly string[]): number | undefined {
    let node: FieldNode | undefined = this.#root;
    for (const name of names) {
      node = node.next.get(name);
      if (node === undefined) return undefined;
    }
    return node.number;
  }

  knowFields(names: readonly string[], number: number): void {
    let node = this.#root;
    for (const name of names) {
      let next = node.next.get(name);
      if (next === undefined) {
        next = { number: undefined, next: new Map() };
        node.next.set(name, next);
      }
      node = next;
    }
    node.number = number;
  }

  /** Record number `record` holds a text with this hash: whether it should be shared from now on. */
  isRepeated(hash: number, record: number): boolean {
    const before = this.#seen.get(hash);
    if (before === record || this.isFull) return false;
    if (before !== undefined) {
      this.#seen.delete(hash);
      return true;
    }
    if (this.#seen.size >= MAX_SEEN) this.#seen = new Map();
    this.#seen.set(hash, record);
    return false;
  }

  /** Takes a text in, which must be one of its own and not a part of another. */
  add(text: string): void {
    if (this.#numbers.has(text)) return;
    this.#numbers.set(text, this.#texts.length);
    this.#texts.push(text);
  }
}

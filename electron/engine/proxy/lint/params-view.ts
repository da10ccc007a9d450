/**
 * A look at the JSON text of kv_transfer_params without parsing it: which fields are there, small values, and how many
 * blocks are named. A prompt of 100,000 tokens names 6000 blocks; making numbers of them to look at ten other fields
 * would cost more than the rest of the proxy.
 *
 * Never throws. Text that is no object, or that was cut for the record, gives what was readable and `isWhole` false:
 * then nothing may be concluded from what is not there.
 */

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
/** Protocols have about twenty fields; an object with more than this is not read further. */
const MAX_FIELDS = 128;
/** Characters. */
const MAX_REFERENCE = 1024;

/** How many blocks `remote_block_ids` names: one list per KV-cache group, or one flat list (before 2026-03-06). */
export interface BlockCount {
  readonly groups: number;
  /** Of the group with the most. */
  readonly largest: number;
}

export class ParamsView {
  readonly text: string;
  /** Whether the text is one complete JSON object. */
  readonly isWhole: boolean;
  readonly #values = new Map<string, string>();
  #blocks: BlockCount | undefined;
  #engineId: string | false | undefined;
  #reference: string | false | undefined;

  constructor(text: string) {
    this.text = text;
    this.isWhole = this.#scan();
  }

  /** There, and not null. */
  has(field: string): boolean {
    const value = this.#values.get(field);
    return value !== undefined && value !== 'null';
  }

  /** A value's JSON text. */
  raw(field: string): string | undefined {
    return this.#values.get(field);
  }

  isTrue(field: string): boolean {
    return this.#values.get(field) === 'true';
  }

  /** undefined unless the value is a string. */
  string(field: string): string | undefined {
    const value = this.#values.get(field);
    if (value?.charCodeAt(0) !== QUOTE) return undefined;
    return unquote(value);
  }

  /** undefined unless the value is a number. */
  number(field: string): number | undefined {
    const value = this.#values.get(field);
    if (value === undefined) return undefined;
    const first = value.charCodeAt(0);
    if (first !== 0x2d && (first < 0x30 || first > 0x39)) return undefined;
    const number = Number(value);
    return Number.isFinite(number) ? number : undefined;
  }

  /** What Python takes for false: missing, null, false, 0, and empty text, list or object. */
  isFalsy(field: string): boolean {
    const value = this.#values.get(field);
    return value === undefined || value === 'null' || value === 'false' || value === '0' || value === '""' || isEmptyCollection(value);
  }

  /** Blocks of `remote_block_ids`; undefined when that is no list. */
  get blocks(): BlockCount | undefined {
    return this.#blocks;
  }

  get engineId(): string | undefined {
    this.#engineId ??= this.string('remote_engine_id') ?? false;
    return this.#engineId === false ? undefined : this.#engineId;
  }

  /** What names the kept KV: engine and request; undefined when it is not named by both. */
  get reference(): string | undefined {
    this.#reference ??= this.#makeReference() ?? false;
    return this.#reference === false ? undefined : this.#reference;
  }

  #makeReference(): string | undefined {
    const { engineId } = this;
    const request = this.string('remote_request_id');
    const isUsable = engineId !== undefined && request !== undefined && engineId.length + request.length <= MAX_REFERENCE;
    return isUsable ? `${engineId}/${request}` : undefined;
  }

  /** @returns whether the object is complete. */
  #scan(): boolean {
    const { text } = this;
    const values = this.#values;
    let at = skipSpace(text, 0);
    if (text.charCodeAt(at) !== OPEN_BRACE) return false;
    at = skipSpace(text, at + 1);
    if (text.charCodeAt(at) === CLOSE_BRACE) return skipSpace(text, at + 1) === text.length;
    for (;;) {
      if (text.charCodeAt(at) !== QUOTE || values.size >= MAX_FIELDS) return false;
      const keyEnd = endOfString(text, at);
      if (keyEnd < 0) return false;
      const key = unquote(text.slice(at, keyEnd));
      at = skipSpace(text, keyEnd);
      if (key === undefined || text.charCodeAt(at) !== COLON) return false;
      const start = skipSpace(text, at + 1);
      const end = key === 'remote_block_ids' && text.charCodeAt(start) === OPEN_BRACKET ? this.#readBlocks(start) : endOfValue(text, start);
      if (end <= start) return false;
      values.set(key, text.slice(start, end));
      at = skipSpace(text, end);
      const next = text.charCodeAt(at);
      if (next === CLOSE_BRACE) return skipSpace(text, at + 1) === text.length;
      if (next !== COMMA) return false;
      at = skipSpace(text, at + 1);
    }
  }

  /** Counts the elements of `[1,2]`, or of each list in `[[1,2],[3]]`, on the way to its end. @returns as endOfValue. */
  #readBlocks(from: number): number {
    const { text } = this;
    let groups = 0;
    let largest = 0;
    let depth = 0;
    let count = 0;
    let isElement = false;
    for (let at = from; at < text.length; at++) {
      const code = text.charCodeAt(at);
      // Digits first: nearly everything here is one.
      if (code >= 0x30 && code <= 0x39) {
        isElement = true;
      } else if (code === COMMA) {
        if (isElement) count++;
        isElement = false;
      } else if (code === OPEN_BRACKET) {
        depth++;
        if (depth === 2) groups++;
        count = 0;
        isElement = false;
      } else if (code === CLOSE_BRACKET) {
        if (isElement) count++;
        if (count > largest) largest = count;
        count = 0;
        isElement = false;
        if (--depth === 0) {
          this.#blocks = { groups: Math.max(1, groups), largest };
          return at + 1;
        }
      } else if (code > 0x20) {
        // No block ids: nothing is counted, and the general way finds the end.
        return endOfValue(text, from);
      }
    }
    return -1;
  }
}

function unquote(json: string): string | undefined {
  if (!json.includes('\\')) return json.slice(1, -1);
  try {
    return JSON.parse(json) as string;
  } catch {
    // A bad escape: not JSON, so the engine will refuse it too.
    return undefined;
  }
}

function isEmptyCollection(value: string): boolean {
  const first = value.charCodeAt(0);
  if (first !== OPEN_BRACKET && first !== OPEN_BRACE) return false;
  return skipSpace(value, 1) === value.length - 1;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at;
    at++;
  }
}

/** Offset after the closing quote of the string that opens at `open`; -1 when it never closes. */
function endOfString(text: string, open: number): number {
  for (let at = open + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code === BACKSLASH) at++;
  }
  return -1;
}

/** Offset after the value that begins at `from`; `from` itself when there is none, -1 when it never ends. */
function endOfValue(text: string, from: number): number {
  const first = text.charCodeAt(from);
  if (first === QUOTE) return endOfString(text, from);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return endOfScalar(text, from);
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
      if (at < 0) return -1;
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if ((code === CLOSE_BRACE || code === CLOSE_BRACKET) && --depth === 0) return at + 1;
    at++;
  }
  return -1;
}

function endOfScalar(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    if (Number.isNaN(code) || code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code <= 0x20) return at;
    at++;
  }
}

/**
 * Editing of a JSON object's top-level members on its bytes. JSON.parse + JSON.stringify would lose 64-bit integers,
 * number spelling (`1.0`), key order and duplicate keys; the prompt is rendered from such details (tool schemas), and
 * `kv_transfer_params` must be relayed untouched. Only the edited members change here, every other byte stays.
 *
 * The scanner finds member borders; it does not validate values. Callers that need validity parse the text as well.
 */

export interface JsonMember {
  readonly key: string;
  /** Offset of the key's opening quote. */
  readonly start: number;
  readonly valueStart: number;
  /** Offset after the value's last byte. */
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
/** Up to here a plain loop beats the call into the native search. */
const SHORT_STRING = 48;

/** The members of the object that `json` holds, or undefined when it is no complete JSON object. */
export function scanMembers(json: Buffer): readonly JsonMember[] | undefined {
  const members: JsonMember[] = [];
  let at = skipSpace(json, 0);
  if (json[at] !== OPEN_BRACE) return undefined;
  at = skipSpace(json, at + 1);
  if (json[at] === CLOSE_BRACE) return skipSpace(json, at + 1) === json.length ? members : undefined;
  for (;;) {
    const start = at;
    if (json[at] !== QUOTE) return undefined;
    const keyEnd = endOfString(json, at);
    if (keyEnd < 0) return undefined;
    const key = readKey(json, start, keyEnd);
    at = skipSpace(json, keyEnd);
    if (key === undefined || json[at] !== COLON) return undefined;
    const valueStart = skipSpace(json, at + 1);
    const end = endOfValue(json, valueStart);
    if (end <= valueStart) return undefined;
    members.push({ key, start, valueStart, end });
    at = skipSpace(json, end);
    const next = json[at];
    if (next === CLOSE_BRACE) return skipSpace(json, at + 1) === json.length ? members : undefined;
    if (next !== COMMA) return undefined;
    at = skipSpace(json, at + 1);
  }
}

/** The elements of the array that `json` holds, as bytes of `json` (not copies), or undefined when it is no complete JSON array. */
export function scanElements(json: Buffer): readonly Buffer[] | undefined {
  const elements: Buffer[] = [];
  let at = skipSpace(json, 0);
  if (json[at] !== OPEN_BRACKET) return undefined;
  at = skipSpace(json, at + 1);
  if (json[at] === CLOSE_BRACKET) return skipSpace(json, at + 1) === json.length ? elements : undefined;
  for (;;) {
    const end = endOfValue(json, at);
    if (end <= at) return undefined;
    elements.push(json.subarray(at, end));
    at = skipSpace(json, end);
    const next = json[at];
    if (next === CLOSE_BRACKET) return skipSpace(json, at + 1) === json.length ? elements : undefined;
    if (next !== COMMA) return undefined;
    at = skipSpace(json, at + 1);
  }
}

/** The value of the last member called `key`, as bytes of `json` (not a copy). */
export function memberValue(json: Buffer, members: readonly JsonMember[], key: string): Buffer | undefined {
  const member = members.findLast((candidate) => candidate.key === key);
  return member === undefined ? undefined : json.subarray(member.valueStart, member.end);
}

/** A key as it stands in JSON, colon included. */
export type JsonKey = Buffer & { readonly __jsonKey: never };

/** Made once per key: searching for bytes is cheaper than for a text. */
export function jsonKey(name: string): JsonKey {
  return Buffer.from(`"${name}":`) as JsonKey;
}

/**
 * The value of the last `"key":` anywhere in `json`, which may be cut off at its start. Exact for keys that occur once:
 * inside strings the quotes would be escaped.
 */
export function lastValueOf(json: Buffer, key: JsonKey): Buffer | undefined {
  const at = json.lastIndexOf(key);
  if (at < 0) return undefined;
  const start = skipSpace(json, at + key.length);
  const end = endOfValue(json, start);
  return end > start ? json.subarray(start, end) : undefined;
}

/**
 * `json` with members replaced (a value's JSON text or bytes), removed (`undefined`) or, when the key is new, added at
 * the end. `members` must come from `scanMembers(json)`. A key that occurs twice is replaced in both places.
 */
export function editMembers(
  json: Buffer,
  members: readonly JsonMember[],
  edits: ReadonlyMap<string, string | Buffer | undefined>,
): Buffer {
  const out = new ObjectWriter(json, roomFor(members, edits));
  let runStart = -1;
  let runEnd = -1;
  for (const member of members) {
    if (!edits.has(member.key)) {
      if (runStart < 0) runStart = member.start;
      runEnd = member.end;
      continue;
    }
    if (runStart >= 0) out.copy(runStart, runEnd);
    runStart = -1;
    const value = edits.get(member.key);
    if (value === undefined) continue;
    out.copy(member.start, member.valueStart);
    out.value(value);
  }
  if (runStart >= 0) out.copy(runStart, runEnd);
  for (const [key, value] of edits) {
    if (value === undefined || members.some((member) => member.key === key)) continue;
    out.add(key);
    out.value(value);
  }
  return out.finish();
}

/** Writes an object out of pieces of another and new ones, straight into a buffer that is large enough. */
class ObjectWriter {
  readonly #source: Buffer;
  readonly #out: Buffer;
  #at: number;

  /** @param extraBytes what values and new keys may take beside the source. */
  constructor(source: Buffer, extraBytes: number) {
    this.#source = source;
    this.#out = Buffer.allocUnsafe(source.length + extraBytes);
    this.#out[0] = OPEN_BRACE;
    this.#at = 1;
  }

  /** Begins a member, or several, with bytes of the source. */
  copy(start: number, end: number): void {
    this.#separate();
    this.#at += this.#source.copy(this.#out, this.#at, start, end);
  }

  /** Begins a member with a new key. */
  add(key: string): void {
    this.#separate();
    this.#at += this.#out.write(`${JSON.stringify(key)}:`, this.#at);
  }

  /** Ends a member. */
  value(value: string | Buffer): void {
    this.#at += typeof value === 'string' ? this.#out.write(value, this.#at) : value.copy(this.#out, this.#at);
  }

  finish(): Buffer {
    this.#out[this.#at] = CLOSE_BRACE;
    return this.#out.subarray(0, this.#at + 1);
  }

  #separate(): void {
    if (this.#at > 1) this.#out[this.#at++] = COMMA;
  }
}

/** At most what `edits` add to an object: values as often as their keys occur, new keys with quotes, colon and comma, the braces. */
function roomFor(members: readonly JsonMember[], edits: ReadonlyMap<string, string | Buffer | undefined>): number {
  let bytes = 2;
  for (const [key, value] of edits) {
    if (value === undefined) continue;
    let count = 0;
    for (const member of members) if (member.key === key) count++;
    bytes += count === 0 ? Buffer.byteLength(JSON.stringify(key)) + 2 : 0;
    bytes += Math.max(1, count) * (typeof value === 'string' ? Buffer.byteLength(value) : value.length);
  }
  return bytes;
}

function readKey(json: Buffer, start: number, end: number): string | undefined {
  const text = json.toString('utf8', start + 1, end - 1);
  if (!text.includes('\\')) return text;
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return undefined;
  }
}

function skipSpace(json: Buffer, from: number): number {
  let at = from;
  for (;;) {
    const byte = json[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
    at++;
  }
}

/** Offset after the closing quote of the string that opens at `open`; -1 when it never closes. */
function endOfString(json: Buffer, open: number): number {
  let at = open + 1;
  const near = Math.min(json.length, at + SHORT_STRING);
  while (at < near) {
    const byte = json[at];
    if (byte === QUOTE) return at + 1;
    at += byte === BACKSLASH ? 2 : 1;
  }
  // `at` is never in the middle of an escape here, so backslashes before a quote are counted back to `at` at most.
  let from = at;
  for (;;) {
    const quote = json.indexOf(QUOTE, from);
    if (quote < 0) return -1;
    let slashes = 0;
    while (quote - 1 - slashes >= at && json[quote - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    from = quote + 1;
  }
}

/** Offset after the value that begins at `from`; `from` itself when there is none, -1 when it never ends. */
function endOfValue(json: Buffer, from: number): number {
  const first = json[from];
  if (first === QUOTE) return endOfString(json, from);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return endOfScalar(json, from);
  let depth = 0;
  let at = from;
  while (at < json.length) {
    const byte = json[at];
    if (byte === QUOTE) {
      at = endOfString(json, at);
      if (at < 0) return -1;
      continue;
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) return at + 1;
    at++;
  }
  return -1;
}

/** Numbers, `true`, `false`, `null`: letters, digits, signs and dots. */
function endOfScalar(json: Buffer, from: number): number {
  let at = from;
  for (;;) {
    const byte = json[at];
    if (byte === undefined || byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || byte <= 0x20) return at;
    at++;
  }
}

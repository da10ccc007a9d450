/**
 * A reversible tokenizer without state: every id stands for fixed bytes, so any simulated instance, in any process, reads
 * and writes the same ids. Ids: 0-255 single bytes; then known words; then runs of one to three lower-case letters; then
 * one to three digits; then the special tokens with the ids Qwen3 uses, so that a table of tokens looks familiar.
 */
import { WORDS } from './words.ts';

export const SPECIAL_TOKENS = {
  '<|endoftext|>': 151643,
  '<|im_start|>': 151644,
  '<|im_end|>': 151645,
  '<|vision_start|>': 151652,
  '<|vision_end|>': 151653,
  '<|image_pad|>': 151655,
  '<think>': 151667,
  '</think>': 151668,
} as const;

/** Ends a generated answer. */
export const EOS_TOKEN = SPECIAL_TOKENS['<|im_end|>'];
/** Opens reasoning; stands at the end of a prompt whose template opened it. */
export const THINK_TOKEN = SPECIAL_TOKENS['<think>'];
/** Ends reasoning; the answer follows. */
export const THINK_END_TOKEN = SPECIAL_TOKENS['</think>'];
/** One placeholder position of a media item. */
export const MEDIA_TOKEN = SPECIAL_TOKENS['<|image_pad|>'];
/** Ids at or above this do not exist. */
export const VOCABULARY_SIZE = 151936;

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const MAX_RUN = 3;

const pieces: (string | undefined)[] = [];
const ids = new Map<string, number>();

function define(piece: string): void {
  if (ids.has(piece)) return;
  ids.set(piece, pieces.length);
  pieces.push(piece);
}

function defineRuns(prefix: string, length: number): void {
  if (length === 0) {
    define(prefix);
    return;
  }
  for (const letter of LETTERS) defineRuns(prefix + letter, length - 1);
}

// The first 256 ids are bytes; they have no text of their own.
pieces.length = 256;
for (const word of WORDS) {
  define(word);
  define(` ${word}`);
}
for (const word of WORDS) define(`${word.charAt(0).toUpperCase()}${word.slice(1)}`);
for (const mark of ['.', ',', '!', '?', ':', ';', '\n', '\n\n', ' ', '": "', '", "', '{"', '"}']) define(mark);
for (const prefix of ['', ' ']) for (let length = 1; length <= MAX_RUN; length += 1) defineRuns(prefix, length);
for (let digits = 1; digits <= MAX_RUN; digits += 1) {
  for (let value = 0; value < 10 ** digits; value += 1) define(String(value).padStart(digits, '0'));
}

const SPACE = tokenId(' ');
const specials = new Map<string, number>(Object.entries(SPECIAL_TOKENS));
const specialTexts = new Map<number, string>([...specials].map(([text, id]) => [id, text]));

const SPLIT = /<\|[a-z_]+\|>|<\/?think>| ?[A-Za-z]+|\d{1,3}|\n\n|\n|": "|", "|\{"|"\}|[.,!?:; ]|[^]/gu;

function pushBytes(text: string, out: number[]): void {
  for (const byte of Buffer.from(text, 'utf8')) out.push(byte);
}

function pushLetters(piece: string, out: number[]): void {
  let rest = piece;
  while (rest !== '') {
    const lead = rest.startsWith(' ') ? 1 : 0;
    let length = Math.min(rest.length, MAX_RUN + lead);
    while (length > lead && !ids.has(rest.slice(0, length))) length -= 1;
    const id = length > lead ? ids.get(rest.slice(0, length)) : undefined;
    if (id === undefined) {
      pushBytes(rest.charAt(0), out);
      rest = rest.slice(1);
    } else {
      out.push(id);
      rest = rest.slice(length);
    }
  }
}

/** Token ids of a text. Special markers such as `<|im_start|>` become their own ids. */
export function encodeText(text: string): number[] {
  const out: number[] = [];
  for (const [piece] of text.matchAll(SPLIT)) {
    const known = ids.get(piece) ?? specials.get(piece);
    const word = piece.startsWith(' ') ? ids.get(piece.slice(1)) : undefined;
    if (known !== undefined) out.push(known);
    // What the simulated model writes at the start of a sentence, so that its answers come back as the tokens they were.
    else if (word !== undefined) out.push(SPACE, word);
    else if (/^ ?[A-Za-z]/u.test(piece)) pushLetters(piece, out);
    else pushBytes(piece, out);
  }
  return out;
}

/** The text of one id; bytes that are not ASCII, and unknown ids, give U+FFFD, as engines print them. */
export function tokenText(id: number): string {
  return pieces[id] ?? specialTexts.get(id) ?? (id < 128 ? String.fromCodePoint(id) : '\uFFFD');
}

/** The exact inverse of `encodeText`; unknown ids give U+FFFD. */
export function decodeTokens(tokens: readonly number[]): string {
  const parts: Buffer[] = [];
  for (const id of tokens) parts.push(id >= 0 && id < 256 ? Buffer.of(id) : Buffer.from(tokenText(id), 'utf8'));
  return Buffer.concat(parts).toString('utf8');
}

/** The id of a piece that is one token. Throws on anything else: callers name constants. */
export function tokenId(piece: string): number {
  const id = ids.get(piece);
  if (id === undefined) throw new Error(`'${piece}' is not a single token`);
  return id;
}

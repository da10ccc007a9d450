/**
 * Rows of the KV events view, made from decoded events and from what pdscope noticed about a stream. A kept row is
 * packed: a shape it shares with others, a few numbers, a run of words, and extras only where an event has any. Text
 * is made when somebody reads the row.
 */
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { BlockHashHex, KvRow } from '#shared/kv.ts';
import { hashCount, keyHex, type BlockHashes } from './block-hashes.ts';
import type { ExtraKey, KvEvent, UnreadFields } from './kv-event.ts';
import { RAW_JSON_CHARS, rawJson } from './raw-json.ts';
import type { RowShape } from './row-shape.ts';
import type { GapRange } from './stream-tracker.ts';
import { copyOfRun, runOf, type WordRun } from './word-run.ts';

/** Which stream, as rows and views name it. */
export interface StreamIdentity {
  readonly id: StreamId;
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly rank: number;
}

/** What the rows of one batch share. */
export interface RowSource {
  readonly stream: StreamIdentity;
  readonly epoch: number;
  readonly seq: number | undefined;
  readonly tsUnixMs: number | undefined;
  readonly receivedAtUnixMs: number;
}

/** Something that pdscope noticed; not an event of the engine. */
export interface Notice {
  readonly kind: 'gap' | 'filled' | 'lost' | 'restart' | 'error';
  readonly note: string;
  /** What the sentence says of a gap or of the engine's life, for the notes of the stream (stream-notes.ts). */
  readonly facts?: NoticeFacts;
}

export type NoticeFacts =
  /** `refused` by pdscope's own queue, just before; may be more than are missing. */
  | { readonly kind: 'found'; readonly gap: GapRange; readonly refused: number; readonly isAsked: boolean }
  /** So many of the gap's batches came by replay; the others are lost. */
  | { readonly kind: 'came'; readonly gap: GapRange; readonly batches: number }
  | { readonly kind: 'gone'; readonly gap: GapRange; readonly batches: number; readonly reason: string }
  /** It was none: sent before the stream was joined. */
  | { readonly kind: 'unseen'; readonly gap: GapRange; readonly reason: string }
  /** The epoch is over. */
  | { readonly kind: 'ended'; readonly epoch: number };

export type RowEvent = KvEvent | Notice;

/** What few events have. */
export interface RowExtras {
  /** Of the hashes shown. */
  readonly digests: readonly (string | undefined)[] | undefined;
  readonly parentDigest: string | undefined;
  readonly sessionId: string | undefined;
  readonly cacheSalt: string | undefined;
  /** As JSON text. */
  readonly extraKeys: string | undefined;
  readonly note: string | undefined;
}

export interface PackedRow {
  readonly n: number;
  readonly shape: RowShape;
  /** NaN when absent. */
  readonly seq: number;
  /** NaN when absent. */
  readonly tsUnixMs: number;
  readonly receivedAtUnixMs: number;
  readonly hashCount: number;
  readonly tokenCount: number;
  readonly hasParent: boolean;
  /** The hashes kept, two words each; two of the parent if there is one; the tokens shown. */
  readonly words: Uint32Array;
  readonly extras: RowExtras | undefined;
}

const MAX_ROW_HASHES = 16;
/** Those shown and others for filters: of a prompt of 16k tokens all. */
const MAX_KEPT_HASHES = 1024;
const MAX_ROW_TOKENS = 32;
/** The object. */
const EXTRAS_BYTES = 72;
const STRING_BYTES = 24;

type RowDraft = { -readonly [Key in keyof KvRow]: KvRow[Key] };

/** Words of the hashes that a row shows. */
export function shownHashWords(hashCount: number): number {
  return 2 * Math.min(MAX_ROW_HASHES, hashCount);
}

/** Words kept of an event's hashes: of those shown the 64-bit keys, of others the first 64 bits, with which filters begin. */
export function keptHashWords(hashCount: number): number {
  return 2 * Math.min(MAX_KEPT_HASHES, hashCount);
}

/** What `keptHashWords` counts. */
export function keptHashes(hashes: BlockHashes): WordRun {
  const { digests } = hashes;
  const count = Math.min(MAX_KEPT_HASHES, hashCount(hashes));
  if (digests === undefined || count <= MAX_ROW_HASHES) return hashes;
  const words = copyOfRun(hashes, 2 * count);
  for (let index = MAX_ROW_HASHES; index < count; index += 1) {
    const digest = digests[index]?.padEnd(16, '0');
    if (digest === undefined) continue;
    words[2 * index] = Number.parseInt(digest.slice(0, 8), 16);
    words[2 * index + 1] = Number.parseInt(digest.slice(8, 16), 16);
  }
  return runOf(words);
}

/** Words of the tokens that a row shows. */
export function shownTokens(tokenCount: number): number {
  return Math.min(MAX_ROW_TOKENS, tokenCount);
}

export function toRow(packed: PackedRow): KvRow {
  const { shape, words, extras } = packed;
  const { stream } = shape;
  const hashWords = keptHashWords(packed.hashCount);
  const row: RowDraft = {
    n: packed.n,
    stream: stream.id,
    instance: stream.instance,
    instanceName: stream.instanceName,
    rank: stream.rank,
    epoch: shape.epoch,
    receivedAtUnixMs: packed.receivedAtUnixMs,
    kind: shape.kind,
    hashes: hexOf(words, shownHashWords(packed.hashCount), extras?.digests),
    hashCount: packed.hashCount,
  };
  if (!Number.isNaN(packed.seq)) row.seq = packed.seq;
  if (packed.hasParent) row.parent = extras?.parentDigest ?? keyHex(words[hashWords] ?? 0, words[hashWords + 1] ?? 0);
  if (shape.blockSize !== undefined) row.blockSize = shape.blockSize;
  if (shape.kind === 'stored') {
    row.tokenCount = packed.tokenCount;
    row.tokens = Array.from(words.subarray(hashWords + (packed.hasParent ? 2 : 0)));
  }
  if (shape.loraName !== undefined) row.loraName = shape.loraName;
  if (shape.loraId !== undefined) row.loraId = shape.loraId;
  if (shape.specKind !== undefined) row.specKind = shape.specKind;
  if (shape.slidingWindow !== undefined) row.slidingWindow = shape.slidingWindow;
  if (extras !== undefined) addExtras(row, extras);
  if (!shape.isNotice && !Number.isNaN(packed.tsUnixMs)) row.engineTsUnixMs = packed.tsUnixMs;
  if (shape.medium !== undefined) row.medium = shape.medium;
  if (shape.groupIdx !== undefined) row.groupIdx = shape.groupIdx;
  if (shape.locality !== undefined) row.locality = shape.locality;
  if (shape.ownership !== undefined) row.ownership = shape.ownership;
  return row;
}

function addExtras(row: RowDraft, extras: RowExtras): void {
  if (extras.sessionId !== undefined) row.sessionId = extras.sessionId;
  if (extras.extraKeys !== undefined) row.extraKeys = extras.extraKeys;
  if (extras.cacheSalt !== undefined) row.note = joined(`cache_salt ${JSON.stringify(extras.cacheSalt)}`, extras.note);
  else if (extras.note !== undefined) row.note = extras.note;
}

function hexOf(words: Uint32Array, count: number, digests: readonly (string | undefined)[] | undefined): BlockHashHex[] {
  const hashes: BlockHashHex[] = [];
  for (let at = 0; at < count; at += 2) hashes.push(digests?.[at / 2] ?? keyHex(words[at] ?? 0, words[at + 1] ?? 0));
  return hashes;
}

const NO_EXTRAS: RowExtras = {
  digests: undefined, parentDigest: undefined, sessionId: undefined, cacheSalt: undefined, extraKeys: undefined, note: undefined,
};

/** What an event has besides its shape, its numbers and its words. Absent for most events. */
export function extrasOf(event: RowEvent): RowExtras | undefined {
  switch (event.kind) {
    case 'stored': {
      const { parent, sessionId, cacheSalt } = event;
      const parentDigest = parent?.digests?.[0];
      const { digests } = event.hashes;
      const extraKeys = event.extraKeys?.some((keys) => keys !== null) === true ? keysText(event.extraKeys) : undefined;
      const note = unreadText(event);
      if (extraKeys === undefined && digests === undefined && parentDigest === undefined && sessionId === undefined && cacheSalt === undefined && note === undefined) return undefined;
      return { digests: shownDigests(digests), parentDigest, sessionId, cacheSalt, extraKeys, note };
    }
    case 'removed': {
      const { remainingCopies } = event;
      const { digests } = event.hashes;
      const unread = unreadText(event);
      if (digests === undefined && remainingCopies === undefined && unread === undefined) return undefined;
      const note = remainingCopies === undefined ? unread : joined(`copies left: ${remainingCopies.slice(0, MAX_ROW_HASHES).join(', ')}`, unread);
      return { ...NO_EXTRAS, digests: shownDigests(digests), note };
    }
    case 'unknown': return { ...NO_EXTRAS, digests: shownDigests(event.hashes.digests), note: copyText(`${event.tag}: ${event.raw}`) };
    case 'bad': return { ...NO_EXTRAS, note: copyText(`${event.reason}: ${event.raw}`) };
    case 'gap': case 'filled': case 'lost': case 'restart': case 'error': return { ...NO_EXTRAS, note: copyText(event.note) };
    case 'cleared': break;
  }
  return undefined;
}

function unreadText({ unread }: UnreadFields): string | undefined {
  return unread === undefined ? undefined : copyText(`fields not known: ${unread}`);
}

function joined(first: string, second: string | undefined): string {
  return second === undefined ? first : `${first}; ${second}`;
}

/** Memory that extras take, at most, bytes. */
export function extrasBytes(extras: RowExtras | undefined): number {
  if (extras === undefined) return 0;
  const { sessionId, cacheSalt, extraKeys, note, parentDigest, digests } = extras;
  let bytes = EXTRAS_BYTES + textBytes(sessionId) + textBytes(cacheSalt) + textBytes(extraKeys) + textBytes(note) + textBytes(parentDigest);
  if (digests !== undefined) for (const digest of digests) bytes += 8 + textBytes(digest);
  return bytes;
}

/** At most two bytes a character. */
function textBytes(text: string | undefined): number {
  return text === undefined ? 0 : STRING_BYTES + 2 * text.length;
}

function shownDigests(digests: readonly (string | undefined)[] | undefined): readonly (string | undefined)[] | undefined {
  return digests?.slice(0, MAX_ROW_HASHES);
}

/** What `rawJson` says; adapter names and salts, which are most keys, do without its replacer, whose calls cost more than the rest. */
function keysText(keys: readonly ExtraKey[]): string {
  if (keys.every(isPlain)) {
    const text = JSON.stringify(keys);
    if (text.length <= RAW_JSON_CHARS) return text;
  }
  return copyText(rawJson(keys));
}

function isPlain(key: ExtraKey): boolean {
  return Array.isArray(key) ? (key as readonly ExtraKey[]).every(isPlain) : typeof key !== 'bigint' && !(key instanceof Uint8Array);
}

/**
 * A flat copy: a text cut from a longer one, or joined from several, keeps those alive (V8's sliced and cons strings).
 * Exact for lone surrogates too, which a cut may leave.
 */
function copyText(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}

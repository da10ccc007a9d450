/**
 * Batches of well-formed BlockStored, BlockRemoved and AllBlocksCleared, positional or named, from bytes to events without
 * generic values in between: at one block per event those cost more than all that follows. Anything else (kinds and fields
 * that are not known, odd types, bad events, non-ASCII text, SGLang's own slots) is left to decode-batch.ts; what is read here
 * is what it would have read. Layouts: decode-event.ts.
 */
import { NO_HASHES, isNoParent, type BlockHashes } from './block-hashes.ts';
import { mergeForm, timeOf, type Encoding, type ExtraKey, type HashForm, type KvBatch, type KvEvent } from './kv-event.ts';
import { MsgpackCursor, NameTable, OtherMsgpack } from './msgpack-cursor.ts';
import type { GuardLimits } from './msgpack-guard.ts';
import { NO_WORDS, WordSlab, type WordRun } from './word-run.ts';

/** Of positional BlockStored in the order of their slots, then those that only named events have. */
const NAMES = [
  'type', 'block_hashes', 'parent_block_hash', 'token_ids', 'block_size', 'lora_id', 'medium', 'lora_name', 'extra_keys', 'group_idx',
  'kv_cache_spec_kind', 'kv_cache_spec_sliding_window', 'locality', 'ownership', 'session_id', 'cache_salt',
] as const;
type Field = (typeof NAMES)[number];
const FIELDS = new NameTable(NAMES);
const numberOf = (field: Field): number => NAMES.indexOf(field);
const maskOf = (...fields: readonly Field[]): number => fields.reduce((mask, field) => mask | (1 << numberOf(field)), 0);

const TYPE = numberOf('type');
const REMOVED_SLOTS = [TYPE, numberOf('block_hashes'), numberOf('medium'), numberOf('group_idx')];
/** Slots of the widest positional BlockStored, tag included. */
const STORED_WIDTH = 12;
const OF_REMOVED = maskOf('type', 'block_hashes', 'medium', 'group_idx', 'locality', 'ownership');
const NEEDED_BY_STORED = maskOf('block_hashes', 'token_ids', 'block_size');
const NEEDED_BY_REMOVED = maskOf('block_hashes');
/** SGLang's events have 8 or 9 slots, and a salt where vLLM has the adapter's name. */
const LORA_NAME_SLOT = numberOf('lora_name');
/** Batch, events, event, extra keys, keys of a block, one of them. */
const DEPTH = 6;
const MAX_DIGEST_BYTES = 64;

/** The batch, or undefined when it is not one of those read here. */
export function readKnownBatch(payload: Uint8Array, limits: GuardLimits & { readonly maxEvents: number }): KvBatch | undefined {
  // Every value takes a byte at least.
  if (limits.maxDepth < DEPTH || payload.length > limits.maxNodes) return undefined;
  cursor.open(payload);
  try {
    const batch = readBatch(limits.maxEvents);
    return cursor.isAtEnd ? batch : undefined;
  } catch (error) {
    if (error instanceof OtherMsgpack) return undefined;
    throw error;
  }
}

const cursor = new MsgpackCursor();
const slab = new WordSlab();

/** Whoever decoded batches so far is done with their words: those of the next batch may take their place. */
export function reuseWords(): void {
  slab.reuse();
}

function readBatch(maxEvents: number): KvBatch {
  const slots = cursor.array();
  if (slots !== 2 && slots !== 3) cursor.giveUp();
  const seconds = cursor.float64();
  const count = cursor.array();
  if (count > maxEvents) cursor.giveUp();
  const events: KvEvent[] = [];
  let encoding: Encoding | undefined;
  let hashForm: HashForm | undefined;
  for (let index = 0; index < count; index += 1) {
    const head = cursor.peek();
    const isMap = (head & 0xf0) === 0x80 || head === 0xde;
    const event = readEvent(isMap);
    events.push(event);
    encoding = mergeForm(encoding, isMap ? 'map' : 'array');
    if (event.kind === 'stored' || event.kind === 'removed') {
      const { length, digests } = event.hashes;
      if (length > 0) hashForm = mergeForm(hashForm, digests === undefined ? 'int' : 'bytes');
    }
  }
  const rank = slots === 2 || cursor.nil() ? undefined : cursor.integer();
  return { tsUnixMs: timeOf(seconds), rank, events, encoding, hashForm, unknownFields: 0 };
}

/** One event. Fields are locals, not an object's: what an old object is made to point at costs the garbage collector. */
function readEvent(isMap: boolean): KvEvent {
  const size = isMap ? cursor.map() : cursor.array();
  if (isMap && cursor.name(FIELDS) !== TYPE) cursor.giveUp();
  const tag = cursor.text();
  if (tag === 'AllBlocksCleared') return size === 1 ? { kind: 'cleared' } : cursor.giveUp();
  const isStored = tag === 'BlockStored';
  if (!isStored && tag !== 'BlockRemoved') cursor.giveUp();
  if (!isMap && size > (isStored ? STORED_WIDTH : REMOVED_SLOTS.length)) cursor.giveUp();
  let seen = 0;
  let hashes = NO_HASHES;
  let parent: BlockHashes | undefined;
  let tokens = NO_WORDS;
  let blockSize = 0;
  let loraId: number | undefined;
  let medium: string | undefined;
  let loraName: string | undefined;
  let extraKeys: readonly ExtraKey[] | undefined;
  let groupIdx: number | undefined;
  let specKind: string | undefined;
  let slidingWindow: number | undefined;
  let locality: string | undefined;
  let ownership: string | undefined;
  let sessionId: string | undefined;
  let cacheSalt: string | undefined;
  for (let slot = 1; slot < size; slot += 1) {
    const field = isMap ? cursor.name(FIELDS) : isStored ? slot : (REMOVED_SLOTS[slot] ?? TYPE);
    if ((seen & (1 << field)) !== 0) cursor.giveUp();
    seen |= 1 << field;
    // By the places of the names in NAMES.
    switch (field) {
      case 1: hashes = readHashes(cursor.array()); break;
      case 2: parent = cursor.nil() ? undefined : readHashes(1); break;
      case 3: tokens = readTokens(); break;
      case 4: blockSize = cursor.integer(); break;
      case 5: loraId = integerOrNil(); break;
      case 6: medium = textOrNil(); break;
      case 7: loraName = textOrNil(); break;
      case 8: extraKeys = cursor.nil() ? undefined : readKeysOfBlocks(); break;
      case 9: groupIdx = integerOrNil(); break;
      case 10: specKind = textOrNil(); break;
      case 11: slidingWindow = integerOrNil(); break;
      case 12: locality = textOrNil(); break;
      case 13: ownership = textOrNil(); break;
      case 14: sessionId = textOrNil(); break;
      case 15: cacheSalt = textOrNil(); break;
      default: cursor.giveUp();
    }
  }
  if (!isStored) {
    if ((seen & NEEDED_BY_REMOVED) === 0 || (seen & ~OF_REMOVED) !== 0) cursor.giveUp();
    return { kind: 'removed', hashes, medium, groupIdx, locality, ownership, remainingCopies: undefined };
  }
  if ((seen & NEEDED_BY_STORED) !== NEEDED_BY_STORED || blockSize < 0) cursor.giveUp();
  if (parent !== undefined && isNoParent(parent)) parent = undefined;
  if (!isMap && loraName !== undefined && size > LORA_NAME_SLOT && size <= LORA_NAME_SLOT + 2) cursor.giveUp();
  return {
    kind: 'stored', hashes, parent, tokens, blockSize, loraId, loraName, medium, groupIdx, specKind, slidingWindow, locality, ownership, sessionId, cacheSalt, extraKeys, isBigram: false,
  };
}

function readHashes(count: number): BlockHashes {
  const run = slab.take(count * 2);
  const { words, start, length } = run;
  if (count > 0 && cursor.peek() === 0xc4) return { words, start, length, digests: readDigests(run), isSigned: false };
  cursor.longs(run);
  return { words, start, length, digests: undefined, isSigned: cursor.isSigned };
}

function readDigests({ words, start, length }: WordRun): string[] {
  const digests: string[] = [];
  for (let index = start; index < start + length; index += 2) {
    const bytes = cursor.binary(MAX_DIGEST_BYTES);
    if (bytes.length === 0) cursor.giveUp();
    digests.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex'));
    words[index] = bigEndian(bytes, bytes.length - 8);
    words[index + 1] = bigEndian(bytes, bytes.length - 4);
  }
  return digests;
}

/** Four bytes; those before the first count as 0. */
function bigEndian(bytes: Uint8Array, from: number): number {
  let word = 0;
  for (let at = Math.max(0, from); at < from + 4; at += 1) word = (word << 8) | (bytes[at] ?? 0);
  return word;
}

function readTokens(): WordRun {
  const tokens = slab.take(cursor.array());
  cursor.words(tokens);
  return tokens;
}

function textOrNil(): string | undefined {
  return cursor.nil() ? undefined : cursor.text();
}

function integerOrNil(): number | undefined {
  return cursor.nil() ? undefined : cursor.integer();
}

function readKeysOfBlocks(): ExtraKey[] {
  const keys: ExtraKey[] = [];
  for (let left = cursor.array(); left > 0; left -= 1) keys.push(cursor.nil() ? null : readKeys(2));
  return keys;
}

/** Texts, small integers, bytes, and lists of them, `depth` deep. */
function readKeys(depth: number): ExtraKey[] {
  const keys: ExtraKey[] = [];
  for (let left = cursor.array(); left > 0; left -= 1) keys.push(readKey(depth));
  return keys;
}

function readKey(depth: number): ExtraKey {
  const head = cursor.peek();
  if (head >= 0xa0 && head <= 0xd9 && (head <= 0xbf || head === 0xd9)) return cursor.text();
  if (head === 0xc4) return cursor.binary(0xff);
  if (head >= 0x90 && head <= 0x9f) return depth > 1 ? readKeys(depth - 1) : cursor.giveUp();
  return cursor.nil() ? null : cursor.integer();
}

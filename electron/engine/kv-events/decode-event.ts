/**
 * One event of a batch, from its generic msgpack value. Positional events (msgpack arrays, vLLM until 2026-06 and
 * SGLang) and named ones (maps) are brought to one list of fields first; the era is told by what is there, not by a
 * version. Pure, and never throws: what cannot be read becomes a `bad` event.
 *
 * Required fields must have their type. An optional field of an unexpected type is treated like an unknown field:
 * counted and kept as text, because one odd field must not cost the blocks.
 */
import { NO_HASHES, describe, isNoParent, readHashes, type BlockHashes } from './block-hashes.ts';
import type { ExtraKey, KvEvent, UnreadFields } from './kv-event.ts';
import { rawJson } from './raw-json.ts';
import { runOf } from './word-run.ts';

export interface DecodedEvent {
  readonly event: KvEvent;
  readonly encoding: 'array' | 'map' | undefined;
  readonly unknownFields: number;
}

/** Fields after the tag, by the slot they have in positional events (vllm/distributed/kv_events.py, 2025-04 to 2026-05). */
const STORED_SLOTS = [
  'block_hashes', 'parent_block_hash', 'token_ids', 'block_size', 'lora_id', 'medium', 'lora_name', 'extra_keys',
  'group_idx', 'kv_cache_spec_kind', 'kv_cache_spec_sliding_window',
] as const;
const REMOVED_SLOTS = ['block_hashes', 'medium', 'group_idx'] as const;

type Fields = Readonly<Record<string, unknown>>;

/** Decodes one event. `value` is what the msgpack decoder made of it, with 64-bit integers as BigInt. */
export function decodeEvent(value: unknown): DecodedEvent {
  if (Array.isArray(value)) {
    const slots = value as readonly unknown[];
    const tag = slots[0];
    if (typeof tag !== 'string') return bad(value, 'array', `event tag is ${describe(tag)}`);
    if (tag === 'BlockStored') return stored(positional(slots, isSglang(slots) ? SGLANG_SLOTS : STORED_SLOTS), 'array', value);
    if (tag === 'BlockRemoved') return removed(positional(slots, REMOVED_SLOTS), 'array', value);
    if (tag === 'AllBlocksCleared') return cleared('array', slots.length - 1);
    return unknown(tag, { block_hashes: slots[1] }, 'array', value);
  }
  if (isMap(value)) {
    const tag = value['type'];
    if (typeof tag !== 'string') return bad(value, 'map', `event type is ${describe(tag)}`);
    if (tag === 'BlockStored') return stored(value, 'map', value);
    if (tag === 'BlockRemoved') return removed(value, 'map', value);
    if (tag === 'AllBlocksCleared') return cleared('map', Object.keys(value).length - 1);
    return unknown(tag, value, 'map', value);
  }
  return bad(value, undefined, `event is ${describe(value)}`);
}

/** A msgpack map as the decoder makes it. */
export function isMap(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

/** An integer that a JS number holds exactly; encoders of other languages send small numbers in 64 bits too. */
export function asInteger(value: unknown): number | undefined {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) ? number : undefined;
}

/** SGLang's slots 7 and 8 (python/sglang/srt/disaggregation/kv_events.py); `metadata` is an object with both. */
const SGLANG_SLOTS = [...STORED_SLOTS.slice(0, 6), 'cache_salt', 'session_id'] as const;

/**
 * SGLang's positional events have the cache salt (or an object with salt and session) where vLLM has the LoRA name.
 * Certain when slot 7 is an object or slot 8 a string. Otherwise a string in slot 7 is a salt only if a hash is
 * negative (SGLang's are signed; vLLM's are not since before it had LoRA names) and no LoRA id goes with it.
 */
function isSglang(slots: readonly unknown[]): boolean {
  if (slots.length < 8 || slots.length > 9) return false;
  if (isMap(slots[7]) || typeof slots[8] === 'string') return true;
  if (typeof slots[7] !== 'string' || (slots[5] !== null && slots[5] !== undefined)) return false;
  const hashes = Array.isArray(slots[1]) ? (slots[1] as readonly unknown[]) : [];
  return hashes.some(isNegative) || isNegative(slots[2]);
}

function isNegative(value: unknown): boolean {
  return (typeof value === 'bigint' || typeof value === 'number') && value < 0;
}

/** Names the slots. Slots past the last known one get names that nobody reads, so that they count as unknown. */
function positional(slots: readonly unknown[], names: readonly string[]): Fields {
  const fields: Record<string, unknown> = {};
  for (let slot = 1; slot < slots.length; slot += 1) fields[names[slot - 1] ?? `slot_${slot}`] = slots[slot];
  const salt = fields['cache_salt'];
  if (isMap(salt)) {
    fields['cache_salt'] = salt['cache_salt'];
    fields['session_id'] = salt['session_id'];
  }
  return fields;
}

const STORED_FIELDS: ReadonlySet<string> = new Set([...STORED_SLOTS, 'type', 'locality', 'ownership', 'session_id', 'cache_salt']);
const REMOVED_FIELDS: ReadonlySet<string> = new Set([...REMOVED_SLOTS, 'type', 'locality', 'ownership', 'remaining_copy_counts']);

/** Reads optional fields, and keeps those that are not what they should be. */
class Reader {
  readonly #fields: Fields;
  #unread: Record<string, unknown> | undefined;
  odd = 0;

  constructor(fields: Fields, known: ReadonlySet<string>) {
    this.#fields = fields;
    for (const name in fields) if (!known.has(name)) this.#leave(name);
  }

  /** What was left, for the event. */
  unread(): UnreadFields {
    return this.#unread === undefined ? {} : { unread: rawJson(this.#unread) };
  }

  text(name: string): string | undefined {
    const value = this.#fields[name];
    if (value === null || value === undefined) return undefined;
    return typeof value === 'string' ? intern(value) : this.#leave(name);
  }

  integer(name: string): number | undefined {
    const value = this.#fields[name];
    if (value === null || value === undefined) return undefined;
    return asInteger(value) ?? this.#leave(name);
  }

  list(name: string): readonly unknown[] | undefined {
    const value = this.#fields[name];
    if (value === null || value === undefined) return undefined;
    return Array.isArray(value) ? (value as readonly unknown[]) : this.#leave(name);
  }

  #leave(name: string): undefined {
    this.odd += 1;
    this.#unread ??= {};
    this.#unread[name] = this.#fields[name];
    return undefined;
  }
}

function stored(fields: Fields, encoding: 'array' | 'map', value: unknown): DecodedEvent {
  const hashes = requiredHashes(fields['block_hashes']);
  if (typeof hashes === 'string') return bad(value, encoding, `BlockStored: ${hashes}`);
  const parentValue = fields['parent_block_hash'];
  const told = parentValue === null || parentValue === undefined ? undefined : readHashes([parentValue]);
  if (typeof told === 'string') return bad(value, encoding, 'BlockStored: parent_block_hash is neither nil nor a hash');
  const parent = told === undefined || isNoParent(told) ? undefined : told;
  const tokens = readTokens(fields['token_ids']);
  if (typeof tokens === 'string') return bad(value, encoding, `BlockStored: ${tokens}`);
  const blockSize = asInteger(fields['block_size']);
  if (blockSize === undefined || blockSize < 0) return bad(value, encoding, `BlockStored: block_size is ${describe(fields['block_size'])}`);
  const read = new Reader(fields, STORED_FIELDS);
  return {
    event: {
      kind: 'stored',
      hashes,
      parent,
      tokens: runOf(tokens.ids),
      blockSize,
      loraId: read.integer('lora_id'),
      loraName: read.text('lora_name'),
      medium: read.text('medium'),
      groupIdx: read.integer('group_idx'),
      specKind: read.text('kv_cache_spec_kind'),
      slidingWindow: read.integer('kv_cache_spec_sliding_window'),
      locality: read.text('locality'),
      ownership: read.text('ownership'),
      sessionId: read.text('session_id'),
      cacheSalt: read.text('cache_salt'),
      extraKeys: read.list('extra_keys')?.map(copyExtraKey),
      isBigram: tokens.isBigram,
      ...read.unread(),
    },
    encoding,
    unknownFields: read.odd,
  };
}

function removed(fields: Fields, encoding: 'array' | 'map', value: unknown): DecodedEvent {
  const hashes = requiredHashes(fields['block_hashes']);
  if (typeof hashes === 'string') return bad(value, encoding, `BlockRemoved: ${hashes}`);
  const read = new Reader(fields, REMOVED_FIELDS);
  const copies = read.list('remaining_copy_counts')?.map(asInteger);
  return {
    event: {
      kind: 'removed',
      hashes,
      medium: read.text('medium'),
      groupIdx: read.integer('group_idx'),
      locality: read.text('locality'),
      ownership: read.text('ownership'),
      remainingCopies: copies?.every((count) => count !== undefined) === true ? copies : undefined,
      ...read.unread(),
    },
    encoding,
    unknownFields: read.odd,
  };
}

function cleared(encoding: 'array' | 'map', extraFields: number): DecodedEvent {
  return { event: { kind: 'cleared' }, encoding, unknownFields: extraFields };
}

function unknown(tag: string, fields: Fields, encoding: 'array' | 'map', value: unknown): DecodedEvent {
  const hashes = requiredHashes(fields['block_hashes']);
  const medium = fields['medium'];
  return {
    event: {
      kind: 'unknown',
      tag: tag.slice(0, MAX_INTERNED_CHARS),
      hashes: typeof hashes === 'string' ? NO_HASHES : hashes,
      medium: typeof medium === 'string' ? intern(medium) : undefined,
      groupIdx: asInteger(fields['group_idx']),
      raw: rawJson(value),
    },
    encoding,
    unknownFields: 0,
  };
}

function bad(value: unknown, encoding: 'array' | 'map' | undefined, reason: string): DecodedEvent {
  return { event: { kind: 'bad', reason, raw: rawJson(value) }, encoding, unknownFields: 0 };
}

function requiredHashes(value: unknown): BlockHashes | string {
  return Array.isArray(value) ? readHashes(value as readonly unknown[]) : `block_hashes is ${describe(value)}`;
}

function readTokens(value: unknown): { readonly ids: Uint32Array; readonly isBigram: boolean } | string {
  if (!Array.isArray(value)) return `token_ids is ${describe(value)}`;
  const values = value as readonly unknown[];
  const isBigram = Array.isArray(values[0]);
  const ids = new Uint32Array(values.length);
  for (let index = 0; index < values.length; index += 1) {
    let token = values[index];
    if (isBigram && Array.isArray(token)) token = (token as readonly unknown[])[0];
    const id = typeof token === 'number' ? token : asInteger(token);
    if (id === undefined || !(id >= 0 && id <= 0xffff_ffff) || !Number.isInteger(id)) return `token ${index} is no token id`;
    ids[index] = id;
  }
  return { ids, isBigram };
}

/** Bytes are views on the frame; what is kept must not pin it. */
function copyExtraKey(value: unknown): ExtraKey {
  if (value instanceof Uint8Array) return value.slice();
  if (Array.isArray(value)) return (value as readonly unknown[]).map(copyExtraKey);
  switch (typeof value) {
    case 'string': case 'number': case 'bigint': case 'boolean': return value;
    default: return value === null || value === undefined ? null : rawJson(value);
  }
}

/** Media, kinds and adapter names repeat in every event: one string each instead of one per event. */
const interned = new Map<string, string>();
const MAX_INTERNED = 1024;
const MAX_INTERNED_CHARS = 128;

function intern(text: string): string {
  const known = interned.get(text);
  if (known !== undefined) return known;
  if (text.length <= MAX_INTERNED_CHARS && interned.size < MAX_INTERNED) interned.set(text, text);
  return text;
}

/**
 * What besides tokens makes blocks differ: adapter, cache salt, media, prompt embeddings. Each distinct combination
 * has a number while some block uses it; 0 is none. vLLM sends the parts of a block's key as a list without labels
 * (vllm/v1/core/kv_cache_utils.py, generate_block_hash_extra_keys): LoRA name, one [identifier, offset] per media item,
 * the cache salt on the block at token 0, a digest of prompt embeddings.
 */
import { createHash } from 'node:crypto';
import type { BlockKey } from './answers.ts';
import type { ExtraKey, StoredEvent } from '../kv-events/kv-event.ts';

/** Parts of a key, in the order in which they are compared as JSON. */
const KINDS = ['lora', 'media', 'embeds', 'other', 'salt'] as const;
type Part = readonly [(typeof KINDS)[number], string, number?];

export const NO_EXTRA = 0;
/** Of one key, as text; vLLM's have some hundred. A longer one is kept as its beginning and a digest of all of it. */
const MAX_CHARS = 4096;
const KEPT_CHARS = 256;

export class ExtraKeys {
  readonly #numbers = new Map<string, number>();
  readonly #texts: (string | undefined)[] = [''];
  readonly #uses: number[] = [0];
  readonly #free: number[] = [];
  #chars = 0;
  /** The adapter seen last, whose key most blocks of its events share. */
  #recent: { readonly lora: string; readonly number: number } | undefined;

  /** Memory of the keys, about. */
  get bytes(): number {
    return this.#chars * 2 + this.#numbers.size * 100;
  }

  /**
   * The number of a block's key: retain it before anything else is looked up, or it may be given to another.
   * `index`: which block of the event. `isFirst`: the block begins at token 0. `owner`: tells apart what has meaning
   * within one engine process only (a LoRA id without a name).
   */
  ofBlock(event: StoredEvent, index: number, where: { readonly isFirst: boolean; readonly owner: string }): number {
    const lora = loraOf(event, where.owner);
    const keys = event.extraKeys?.[index];
    const salt = where.isFirst ? event.cacheSalt : undefined;
    if (!Array.isArray(keys) || keys.length === 0) {
      if (salt === undefined) return lora === undefined ? NO_EXTRA : this.#ofLora(lora);
      return this.#number(textOf(lora, [['salt', salt]]));
    }
    if (keys.length === 1 && keys[0] === event.loraName && lora !== undefined && salt === undefined) return this.#ofLora(lora);
    const parts = readParts(keys as readonly ExtraKey[], event.loraName, where.isFirst);
    return this.#number(textOf(lora, salt === undefined ? parts : [...parts, ['salt', salt]]));
  }

  /** The number of a key put together from its parts, or `undefined` when no block has it. */
  find(key: BlockKey): number | undefined {
    const parts: Part[] = [];
    for (const [identifier, offset] of key.media ?? []) parts.push(offset === undefined ? ['media', identifier] : ['media', identifier, offset]);
    if (key.embeds !== undefined) parts.push(['embeds', key.embeds]);
    for (const text of key.other ?? []) parts.push(['other', text]);
    if (key.salt !== undefined) parts.push(['salt', key.salt]);
    const text = textOf(key.lora, parts);
    return text === '' ? NO_EXTRA : this.#numbers.get(text);
  }

  /** The parts of a key. */
  read(number: number): BlockKey {
    const text = this.#texts[number];
    if (text === undefined || text === '') return {};
    const parts = JSON.parse(text) as readonly Part[];
    const ofKind = (kind: Part[0]): readonly Part[] => parts.filter((part) => part[0] === kind);
    const [lora] = ofKind('lora');
    const [salt] = ofKind('salt');
    const [embeds] = ofKind('embeds');
    const media = ofKind('media').map(([, identifier, offset]): readonly [string, number?] => (offset === undefined ? [identifier] : [identifier, offset]));
    const other = ofKind('other').map((part) => part[1]);
    return {
      ...(lora !== undefined && { lora: lora[1] }),
      ...(salt !== undefined && { salt: salt[1] }),
      ...(media.length > 0 && { media }),
      ...(embeds !== undefined && { embeds: embeds[1] }),
      ...(other.length > 0 && { other }),
    };
  }

  retain(number: number): void {
    if (number !== NO_EXTRA) this.#uses[number] = (this.#uses[number] ?? 0) + 1;
  }

  release(number: number): void {
    if (number === NO_EXTRA) return;
    const uses = (this.#uses[number] ?? 1) - 1;
    this.#uses[number] = uses;
    if (uses > 0) return;
    this.#drop(number);
  }

  /** Drops a key that `ofBlock` made and nothing retained. */
  discard(number: number): void {
    if (number !== NO_EXTRA && this.#uses[number] === 0 && this.#texts[number] !== undefined) this.#drop(number);
  }

  #drop(number: number): void {
    const text = this.#texts[number] ?? '';
    this.#numbers.delete(text);
    this.#texts[number] = undefined;
    this.#chars -= text.length;
    this.#free.push(number);
    if (this.#recent?.number === number) this.#recent = undefined;
  }

  #ofLora(lora: string): number {
    if (this.#recent?.lora === lora) return this.#recent.number;
    const number = this.#number(textOf(lora, []));
    this.#recent = { lora, number };
    return number;
  }

  #number(text: string): number {
    if (text === '') return NO_EXTRA;
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    const number = this.#free.pop() ?? this.#texts.length;
    this.#texts[number] = text;
    this.#uses[number] = 0;
    this.#numbers.set(text, number);
    this.#chars += text.length;
    return number;
  }
}

function textOf(lora: string | undefined, parts: readonly Part[]): string {
  const all: Part[] = lora === undefined ? [...parts] : [['lora', lora], ...parts];
  if (all.length === 0) return '';
  if (all.length > 1) all.sort((a, b) => KINDS.indexOf(a[0]) - KINDS.indexOf(b[0]));
  const text = JSON.stringify(all);
  if (text.length <= MAX_CHARS) return text;
  const digest = createHash('sha256').update(text).digest('hex');
  return JSON.stringify([['other', `${text.slice(0, KEPT_CHARS)} ... sha256 ${digest}`]]);
}

/** An adapter's name; before 2025-12 engines sent an id only, which counts from 1 in each process. */
function loraOf(event: StoredEvent, owner: string): string | undefined {
  if (event.loraName !== undefined) return event.loraName;
  return event.loraId === undefined ? undefined : `id ${event.loraId} of ${owner}`;
}

function readParts(keys: readonly ExtraKey[], lora: string | undefined, isFirst: boolean): Part[] {
  const parts: Part[] = [];
  let salt: Part | undefined;
  for (const [position, key] of keys.entries()) {
    if (typeof key === 'string') {
      if (position === 0 && key === lora) continue;
      // Not labelled: a bare string on the block at token 0 is the salt, of which there is one.
      if (isFirst && salt === undefined) salt = ['salt', key];
      else parts.push(['other', key]);
    } else if (key instanceof Uint8Array) {
      parts.push(['embeds', Buffer.from(key.buffer, key.byteOffset, key.length).toString('hex')]);
    } else if (Array.isArray(key) && typeof key[0] === 'string' && isOffset(key[1])) {
      parts.push(key[1] === undefined ? ['media', key[0]] : ['media', key[0], Number(key[1])]);
    } else {
      parts.push(['other', JSON.stringify(key, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))]);
    }
  }
  if (salt !== undefined) parts.push(salt);
  return parts;
}

function isOffset(value: unknown): value is number | bigint | undefined {
  return value === undefined || typeof value === 'number' || typeof value === 'bigint';
}

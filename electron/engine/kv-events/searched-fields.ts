/**
 * What filters can ask about rows where these are kept: as everywhere, and what is kept of an event's hashes and tokens
 * (kv-row.ts, token-tails.ts) instead of the first ones, which are all that a row carries to a page. A block deep in a
 * prompt is found by the event that stored it.
 */
import type { KvRow } from '#shared/kv.ts';
import type { FilterField } from '#shared/filter/field.ts';
import { KV_FILTER_FIELDS } from '#shared/filter/kv-fields.ts';

/** Hex digits of 64 bits. */
const KEY_DIGITS = 16;

/** Of one row: what it does not show. Views of the log's memory, valid until its next row is appended. */
export interface Unshown {
  /** Two words a hash; of digests the first 64 bits. */
  readonly hashes: Uint32Array;
  readonly areDigests: boolean;
  readonly tokens: Uint32Array;
}

/** Beside the rows, not in them, as rows cross borders. */
const unshown = new WeakMap<KvRow, Unshown>();

export function setUnshown(row: KvRow, rest: Unshown): void {
  unshown.set(row, rest);
}

export const SEARCHED_KV_FIELDS: readonly FilterField<KvRow>[] = KV_FILTER_FIELDS.map((field) => {
  if (field.key === 'hash' && field.type === 'string') return { ...field, get: allHashes };
  return field.key === 'token' && field.type === 'numbers' ? { ...field, get: allTokens } : field;
});

function allHashes(row: KvRow): readonly string[] {
  const { hashes: rest, areDigests } = unshown.get(row) ?? {};
  if (rest === undefined || rest.length === 0) return row.hashes;
  const ending = areDigests === true ? '…' : '';
  const hashes = [...row.hashes];
  // Made in one go: thousands of rows with a thousand hashes each are searched.
  const bytes = Buffer.allocUnsafe(4 * rest.length);
  for (let index = 0; index < rest.length; index += 1) bytes.writeUInt32BE(rest[index] ?? 0, 4 * index);
  const hex = bytes.toString('hex');
  for (let at = 0; at < hex.length; at += KEY_DIGITS) hashes.push(hex.slice(at, at + KEY_DIGITS) + ending);
  return hashes;
}

function allTokens(row: KvRow): readonly number[] | undefined {
  const rest = unshown.get(row)?.tokens;
  return rest === undefined || rest.length === 0 ? row.tokens : [...(row.tokens ?? []), ...rest];
}

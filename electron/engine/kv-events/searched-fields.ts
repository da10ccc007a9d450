/**
 * What filters can ask about rows where these are kept: as everywhere, and all hashes and tokens of an event instead of the
 * first ones, which are all that a row carries to a page. A block deep in a prompt is found by the event that stored it.
 */
import type { KvRow } from '#shared/kv.ts';
import type { FilterField } from '#shared/filter/field.ts';
import { KV_FILTER_FIELDS } from '#shared/filter/kv-fields.ts';
import { keyHex } from './block-hashes.ts';

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
  return [...row.hashes, ...Array.from({ length: rest.length / 2 }, (_, index) => keyHex(rest[index * 2] ?? 0, rest[index * 2 + 1] ?? 0) + ending)];
}

function allTokens(row: KvRow): readonly number[] | undefined {
  const rest = unshown.get(row)?.tokens;
  return rest === undefined || rest.length === 0 ? row.tokens : [...(row.tokens ?? []), ...rest];
}

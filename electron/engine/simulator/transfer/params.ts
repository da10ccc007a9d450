/** Reading kv_transfer_params: foreign JSON, in which a missing member and null mean the same. */
import type { TransferParams } from './transfer.ts';

/** The `kv_transfer_params` member of a body, as it is; undefined: nothing asked of the connector. */
export function readTransferParams(value: unknown): TransferParams | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as TransferParams) : undefined;
}

export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Names of `keys` that are missing or null. */
export function missingOf(params: TransferParams, keys: readonly string[]): readonly string[] {
  return keys.filter((key) => !isGiven(params[key]));
}

/** Flat (before 2026-03-06) or one list per KV group; the simulator has one group. */
export function readBlockIds(value: unknown): number[] {
  if (!Array.isArray(value)) return [];
  return value.flat().filter((id): id is number => typeof id === 'number');
}

/** Numbers may come as text; undefined for anything that is not a number. */
export function readNumber(value: unknown): number | undefined {
  if (typeof value !== 'number' && (typeof value !== 'string' || value.trim() === '')) return undefined;
  const number = Number(value);
  return Number.isFinite(number) ? number : undefined;
}

/** Ids may be numbers, for a proxy that makes them so; undefined when missing or null. */
export function readId(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}

/** Undefined for anything but a text with something in it. */
export function readText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

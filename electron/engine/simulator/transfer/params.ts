/** Reading kv_transfer_params: foreign JSON, in which a missing member and null mean the same. */
import type { TransferParams } from './transfer.ts';

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

/** Undefined for anything but a text with something in it. */
export function readText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

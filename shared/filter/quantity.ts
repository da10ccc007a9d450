/**
 * Numbers as people write them: `500`, `0.5s`, `1.5k`, `2MiB`, `40%`. Decimal prefixes are powers of 1000 (SI), the
 * `i` forms powers of 1024 (IEC 80000-13).
 */
import type { QuantityUnit } from './field.ts';

export interface Quantity {
  /** In the base unit of the field. */
  readonly value: number;
  /** Half of the last digit written, in the base unit: `1.2s` means 1150..1250 ms when asked for equality. */
  readonly tolerance: number;
  /** Written out for the reading, e.g. `0.5 s`. */
  readonly label: string;
}

const FACTORS: Readonly<Record<QuantityUnit, Readonly<Record<string, number>>>> = {
  ms: { us: 0.001, 'µs': 0.001, ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000 },
  bytes: { b: 1, k: 1e3, kb: 1e3, m: 1e6, mb: 1e6, g: 1e9, gb: 1e9, kib: 1024, mib: 1_048_576, gib: 1_073_741_824 },
  count: { k: 1e3, m: 1e6, g: 1e9 },
  percent: { '%': 1 },
};

const DEFAULT_SUFFIX: Readonly<Record<QuantityUnit, string>> = { ms: 'ms', bytes: 'B', count: '', percent: '%' };

const NUMBER = /^([+-]?\d[\d_]*(?:\.(\d+))?)([a-zµ%]*)$/iu;

/** Reads a number with an optional unit; `undefined` when it is not one. */
export function parseQuantity(text: string, unit: QuantityUnit): Quantity | undefined {
  const match = NUMBER.exec(text);
  const digits = match?.[1]?.replaceAll('_', '');
  if (match === null || digits === undefined) return undefined;
  const suffix = match[3] ?? '';
  const factor = suffix === '' ? 1 : factorOf(unit, suffix.toLowerCase());
  const number = Number(digits);
  if (factor === undefined || !Number.isFinite(number)) return undefined;
  const shown = suffix === '' ? DEFAULT_SUFFIX[unit] : suffix;
  // In a count the suffix belongs to the digits ("1.2k"); a unit stands apart from them ("0.5 s").
  const gap = shown === '' || unit === 'count' ? '' : ' ';
  return {
    value: number * factor,
    tolerance: 0.5 * 10 ** -(match[2]?.length ?? 0) * factor,
    label: `${digits}${gap}${shown}`,
  };
}

/** The suffixes to name in an error. */
export const UNIT_HINTS: Readonly<Record<QuantityUnit, string>> = {
  ms: 'us, ms, s, min, h',
  bytes: 'kB, MB, GB, KiB, MiB, GiB',
  count: 'k, M',
  percent: '%',
};

function factorOf(unit: QuantityUnit, suffix: string): number | undefined {
  const factors = FACTORS[unit];
  return Object.hasOwn(factors, suffix) ? factors[suffix] : undefined;
}

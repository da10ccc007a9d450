/**
 * The one time axis that all phase bars of the list share, so that bars can be compared by eye. It changes rarely: a
 * scale that breathes with every row would move all bars.
 */
import type { RequestRow } from '#shared/request.ts';

/** Newest rows that decide. */
const LOOKED_AT = 300;
const STEPS = [1, 2, 5] as const;
export const DEFAULT_SCALE_MS = 1000;

/** Smallest of 1, 2, 5 x 10^n that is at least `ms`. */
export function niceCeil(ms: number): number {
  if (!(ms > 0) || !Number.isFinite(ms)) return DEFAULT_SCALE_MS;
  const base = 10 ** Math.floor(Math.log10(ms));
  const step = STEPS.find((candidate) => candidate * base >= ms * (1 - 1e-9));
  return step === undefined ? 10 * base : step * base;
}

/** The scale that suits these rows: 95 of 100 fit. */
export function suitableScale(rows: readonly RequestRow[]): number | undefined {
  const ends = rows
    .slice(-LOOKED_AT)
    .flatMap((row) => (row.e2elMs === undefined ? [] : [row.e2elMs]))
    .sort((a, b) => a - b);
  const p95 = ends[Math.min(ends.length - 1, Math.floor(ends.length * 0.95))];
  return p95 === undefined ? undefined : niceCeil(p95);
}

/** Keeps the present scale until it is clearly wrong: too small now, or three times too large. */
export function nextScale(present: number | undefined, suitable: number | undefined): number {
  if (suitable === undefined) return present ?? DEFAULT_SCALE_MS;
  if (present === undefined || suitable > present || suitable * 3 < present) return suitable;
  return present;
}

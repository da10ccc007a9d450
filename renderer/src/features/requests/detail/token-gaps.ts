/** Gaps between the chunks of a stream: percentiles and stalls. */

export interface Stall {
  /** Index of the chunk after the gap. */
  readonly chunk: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly gapMs: number;
}

export interface GapStats {
  readonly n: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** Longest first. */
  readonly stalls: readonly Stall[];
}

/** A gap is a stall from this many medians on, and never below `LEAST_STALL_MS`: jitter of a fast stream is none. */
const STALL_FACTOR = 3;
const LEAST_STALL_MS = 15;
const MOST_STALLS = 10;

/** Nearest-rank percentile of sorted values (no interpolation: a value that was measured). */
export function percentileOf(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

/** Gap statistics of arrival times; undefined with fewer than two chunks. */
export function gapStats(timesMs: readonly number[]): GapStats | undefined {
  const gaps = timesMs.slice(1).map((time, index) => time - (timesMs[index] ?? time));
  const sorted = gaps.toSorted((a, b) => a - b);
  const p50 = percentileOf(sorted, 0.5);
  const p99 = percentileOf(sorted, 0.99);
  const max = sorted.at(-1);
  if (p50 === undefined || p99 === undefined || max === undefined) return undefined;
  const least = Math.max(LEAST_STALL_MS, STALL_FACTOR * p50);
  const stalls = gaps
    .map((gapMs, index): Stall => ({ chunk: index + 1, gapMs, startMs: timesMs[index] ?? 0, endMs: timesMs[index + 1] ?? 0 }))
    .filter((stall) => stall.gapMs >= least)
    .sort((a, b) => b.gapMs - a.gapMs)
    .slice(0, MOST_STALLS);
  return { n: gaps.length, p50, p99, max, stalls };
}

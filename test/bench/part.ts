/** What a part of the benchmark gets, and what all parts share. */
import { median, type Cell } from './figures.ts';
import type { MockCluster } from './mock-cluster.ts';
import type { Target } from './target.ts';

export interface BenchContext {
  /** Rounds per figure; medians are printed. */
  readonly rounds: number;
  /** Length of one measurement. */
  readonly seconds: number;
  /** Clients of the requests part, one figure each. */
  readonly concurrencies: readonly number[];
  /** Streams of the streams part, one figure each. */
  readonly streamCounts: readonly number[];
  /** Block stores a second that come in during the kv-load part; 0 for none. */
  readonly kvRates: readonly number[];
  readonly mocks: MockCluster;
  /** Other proxies, started by hand. */
  readonly peers: readonly Target[];
}

export interface Part {
  /** As `--only` takes it. */
  readonly name: string;
  /** Measures and prints; says so when it cannot. */
  run(context: BenchContext): Promise<void>;
}

export const TOKENS_PER_SECOND = 50;
export const WARM_UP_SECONDS = 2;

/** Tokens of an answer that takes `seconds`. */
export function tokensIn(seconds: number): number {
  return Math.round(seconds * TOKENS_PER_SECOND);
}

/** Median of each numeric field over the rounds; absent when no round had it. */
export function medianOf<F extends object>(figures: readonly F[]): F {
  const first = figures[0];
  if (first === undefined) throw new Error('no rounds');
  const keys = Object.keys(first) as (keyof F)[];
  return Object.fromEntries(
    keys.map((key) => [key, median(figures.map((f) => f[key]).filter((v): v is F[keyof F] & number => typeof v === 'number'))]),
  ) as F;
}

/** Every target measured once in each round, so that what else the machine does hits all of them. Answers medians. */
export async function inTurns<T, F extends object>(rounds: number, targets: readonly T[], measure: (target: T) => Promise<F>): Promise<readonly (readonly [T, F])[]> {
  const results = targets.map((): F[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [i, target] of targets.entries()) results[i]?.push(await measure(target));
  }
  return targets.map((target, i) => [target, medianOf(results[i] ?? [])] as const);
}

export function ratio(value: number | undefined, base: number | undefined): Cell {
  return value === undefined || base === undefined || base === 0 ? undefined : `${(value / base).toFixed(2)}x`;
}

export function difference(value: number | undefined, base: number | undefined): number | undefined {
  return value === undefined || base === undefined ? undefined : value - base;
}

export async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

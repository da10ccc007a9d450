/** Tokens asked for and found, per second, of one source. */
import { CounterSeries } from '../telemetry/windowed.ts';

export interface HitSum {
  readonly hitTokens: number;
  /** Never 0: what was not asked is absent. */
  readonly queryTokens: number;
}

/** Hits of the seconds `from`..`to`, both included; undefined when nothing was asked in them. */
export interface HitReader {
  sum(from: number, to: number): HitSum | undefined;
}

/** Sums two counters of the same seconds. */
export function hitsOf(queries: CounterSeries, hits: CounterSeries): HitReader {
  return {
    sum(from, to) {
      const queryTokens = queries.sum(from, to);
      return queryTokens > 0 ? { hitTokens: hits.sum(from, to), queryTokens } : undefined;
    },
  };
}

export class HitCounter implements HitReader {
  readonly #queries = new CounterSeries();
  readonly #hits = new CounterSeries();
  readonly #reader = hitsOf(this.#queries, this.#hits);

  add(second: number, { hitTokens, queryTokens }: HitSum): void {
    if (queryTokens <= 0) return;
    this.#queries.add(second, queryTokens);
    this.#hits.add(second, hitTokens);
  }

  sum(from: number, to: number): HitSum | undefined {
    return this.#reader.sum(from, to);
  }
}

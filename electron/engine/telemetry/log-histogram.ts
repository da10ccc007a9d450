/**
 * Sparse histogram with logarithmic buckets: quantiles within 1 % of the true value, and merging equal to having
 * recorded everything in one place. The mapping is DDSketch's (Masson, Rim, Lee: "DDSketch", VLDB 2019, section 2.1):
 * with g = (1+a)/(1-a), bucket i holds (m*g^(i-1), m*g^i] and stands for 2*m*g^i/(g+1).
 * Values are milliseconds; up to 1 us they count as 0 (bucket 0), beyond 1e8 ms they are clamped.
 */
import type { Quantiles } from '#shared/quantiles.ts';
import type { BucketBatch } from './bucket-batch.ts';

export const RELATIVE_ERROR = 0.01;
const MIN_VALUE = 1e-3;
const MAX_VALUE = 1e8;
const GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);
const LOG_GAMMA = Math.log(GAMMA);
/** Highest bucket; below 2048, so that an index fits 11 bits. */
export const MAX_BUCKET = Math.ceil(Math.log(MAX_VALUE / MIN_VALUE) / LOG_GAMMA);

/** Bucket of a value, 0..MAX_BUCKET. */
export function bucketOf(value: number): number {
  if (!(value > MIN_VALUE)) return 0;
  return Math.min(MAX_BUCKET, Math.ceil(Math.log(value / MIN_VALUE) / LOG_GAMMA));
}

/** The value that a bucket stands for. */
export function valueOfBucket(bucket: number): number {
  return bucket === 0 ? 0 : (MIN_VALUE * 2 * GAMMA ** bucket) / (GAMMA + 1);
}

export class LogHistogram {
  readonly #counts = new Map<number, number>();
  #n = 0;
  #sum = 0;
  #max = Number.NEGATIVE_INFINITY;

  get n(): number {
    return this.#n;
  }

  get sum(): number {
    return this.#sum;
  }

  /** Largest value recorded, exact; undefined without samples. */
  get max(): number | undefined {
    return this.#n === 0 ? undefined : this.#max;
  }

  /** Buckets with their counts, in no order. */
  buckets(): IterableIterator<[number, number]> {
    return this.#counts.entries();
  }

  /** Not-a-number is ignored. `bucket` saves the logarithm to who knows it. */
  record(value: number, bucket = bucketOf(value)): void {
    if (Number.isNaN(value)) return;
    this.add(bucket, 1);
    this.#sum += value;
    if (value > this.#max) this.#max = value;
  }

  /** Adds (or, with a negative count, takes out) samples of a bucket whose values are not known one by one. */
  add(bucket: number, count: number): void {
    const left = (this.#counts.get(bucket) ?? 0) + count;
    if (left === 0) this.#counts.delete(bucket);
    else this.#counts.set(bucket, left);
    this.#n += count;
  }

  /** For values that were `add`ed: makes `max` exact. */
  raiseMax(max: number): void {
    if (max > this.#max) this.#max = max;
  }

  merge(other: LogHistogram): void {
    for (const [bucket, count] of other.#counts) this.add(bucket, count);
    this.#sum += other.#sum;
    this.raiseMax(other.#max);
  }

  /** Adds all samples of a batch. */
  addBatch(batch: BucketBatch): void {
    if (batch.isEmpty) return;
    batch.forEach((bucket, count) => this.add(bucket, count));
    this.#sum += batch.sum;
    this.raiseMax(batch.max);
  }

  clear(): void {
    this.#counts.clear();
    this.#n = 0;
    this.#sum = 0;
    this.#max = Number.NEGATIVE_INFINITY;
  }

  /** Nearest-rank quantile, `q` in 0..1; undefined without samples. */
  quantile(q: number): number | undefined {
    return this.#quantiles([q], this.#max)?.[0];
  }

  /**
   * @param windowS what the caller merged, seconds.
   * @param max exact maximum where the histogram cannot know it (samples were taken out again).
   */
  summary(windowS: number, max = this.#max): Quantiles | undefined {
    const values = this.#quantiles([0.5, 0.95, 0.99], max);
    if (values === undefined) return undefined;
    const [p50 = 0, p95 = 0, p99 = 0] = values;
    return { n: this.#n, windowS, p50, p95, p99, max };
  }

  /** How many samples are at most each bound; bounds ascending. Samples of a bucket that a bound cuts go by its value. */
  cumulative(bounds: readonly number[]): number[] {
    const totals = bounds.map(() => 0);
    for (const [bucket, count] of this.#counts) {
      const value = valueOfBucket(bucket);
      const index = bounds.findIndex((bound) => value <= bound);
      if (index !== -1) totals[index] = (totals[index] ?? 0) + count;
    }
    let running = 0;
    return totals.map((count) => (running += count));
  }

  #quantiles(qs: readonly number[], max: number): number[] | undefined {
    if (this.#n === 0) return undefined;
    const sorted = [...this.#counts.keys()].sort((a, b) => a - b);
    const results: number[] = [];
    let seen = 0;
    let at = -1;
    for (const q of qs) {
      const rank = Math.max(1, Math.ceil(q * this.#n));
      while (seen < rank && at < sorted.length - 1) {
        at += 1;
        seen += this.#counts.get(sorted[at] ?? 0) ?? 0;
      }
      const value = valueOfBucket(sorted[at] ?? 0);
      // The last rank is the maximum itself, which is known exactly unless samples came as bare counts.
      if (max === Number.NEGATIVE_INFINITY) results.push(value);
      else results.push(rank >= this.#n ? max : Math.min(value, max));
    }
    return results;
  }
}

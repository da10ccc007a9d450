/**
 * Samples on their way into several histograms: each is put into its bucket once, and the buckets are handed on together.
 * For the gaps between chunks, of which there are tens of thousands a second.
 */
import { bucketOf, MAX_BUCKET } from './log-histogram.ts';

export class BucketBatch {
  readonly #counts = new Uint32Array(MAX_BUCKET + 1);
  readonly #touched: number[] = [];
  #sum = 0;
  #max = 0;

  get isEmpty(): boolean {
    return this.#touched.length === 0;
  }

  /** Total of the samples. */
  get sum(): number {
    return this.#sum;
  }

  /** Largest sample; 0 without any. */
  get max(): number {
    return this.#max;
  }

  /** @param value a number, 0 or more. */
  record(value: number): void {
    const bucket = bucketOf(value);
    const count = this.#counts[bucket] ?? 0;
    if (count === 0) this.#touched.push(bucket);
    this.#counts[bucket] = count + 1;
    this.#sum += value;
    if (value > this.#max) this.#max = value;
  }

  /** Calls `each` with every bucket that has samples. */
  forEach(each: (bucket: number, count: number) => void): void {
    for (const bucket of this.#touched) each(bucket, this.#counts[bucket] ?? 0);
  }

  clear(): void {
    for (const bucket of this.#touched) this.#counts[bucket] = 0;
    this.#touched.length = 0;
    this.#sum = 0;
    this.#max = 0;
  }
}

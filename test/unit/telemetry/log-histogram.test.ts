import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { bucketOf, LogHistogram, MAX_BUCKET, RELATIVE_ERROR, valueOfBucket } from '#engine/telemetry/log-histogram.ts';

/** From a microsecond to a day, as durations spread: evenly over the orders of magnitude. */
const duration = fc.double({ min: -2.99, max: 7.9, noNaN: true }).map((exponent) => 10 ** exponent);
const durations = fc.array(duration, { minLength: 1, maxLength: 400 });

function filled(values: readonly number[]): LogHistogram {
  const histogram = new LogHistogram();
  for (const value of values) histogram.record(value);
  return histogram;
}

function exactQuantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(1, Math.ceil(q * sorted.length)) - 1] ?? Number.NaN;
}

describe('LogHistogram', () => {
  it('gives every quantile within 1 % of the exact one', () => {
    fc.assert(
      fc.property(durations, fc.double({ min: 0, max: 1, noNaN: true }), (values, q) => {
        const exact = exactQuantile(values, q);
        const estimate = filled(values).quantile(q) ?? Number.NaN;
        expect(Math.abs(estimate - exact)).toBeLessThanOrEqual(exact * RELATIVE_ERROR * (1 + 1e-9));
      }),
    );
  });

  it('merges as if everything had been recorded in one place', () => {
    fc.assert(
      fc.property(durations, durations, (left, right) => {
        const merged = filled(left);
        merged.merge(filled(right));
        const whole = filled([...left, ...right]);
        expect(new Map(merged.buckets())).toEqual(new Map(whole.buckets()));
        expect(merged.summary(60)).toEqual(whole.summary(60));
        expect(merged.sum).toBeCloseTo(whole.sum, 6);
      }),
    );
  });

  it('can take samples out again', () => {
    fc.assert(
      fc.property(durations, durations, (stay, leave) => {
        const histogram = filled([...stay, ...leave]);
        for (const [bucket, count] of filled(leave).buckets()) histogram.add(bucket, -count);
        expect(new Map(histogram.buckets())).toEqual(new Map(filled(stay).buckets()));
        expect(histogram.n).toBe(stay.length);
      }),
    );
  });

  it('says nothing without samples', () => {
    const histogram = new LogHistogram();
    expect(histogram.quantile(0.5)).toBeUndefined();
    expect(histogram.summary(10)).toBeUndefined();
    expect(histogram.max).toBeUndefined();
    histogram.record(Number.NaN);
    expect(histogram.n).toBe(0);
  });

  it('keeps zero as zero, the maximum exact, and clamps beyond its range', () => {
    expect(filled([0, 0, 0, 5]).summary(10)).toEqual({ n: 4, windowS: 10, p50: 0, p95: 5, p99: 5, max: 5 });
    expect(bucketOf(1e12)).toBe(MAX_BUCKET);
    expect(MAX_BUCKET).toBeLessThan(2048);
    expect(filled([1e12]).max).toBe(1e12);
    expect(bucketOf(-1)).toBe(0);
  });

  it('puts each bucket’s value into that bucket', () => {
    for (let bucket = 1; bucket < MAX_BUCKET; bucket += 1) expect(bucketOf(valueOfBucket(bucket))).toBe(bucket);
  });

  it('counts up to bounds', () => {
    expect(filled([1, 2, 2, 50, 1000]).cumulative([1.5, 10, 100])).toEqual([1, 3, 4]);
  });
});

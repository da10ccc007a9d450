import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { LogHistogram } from '#engine/telemetry/log-histogram.ts';
import { CounterSeries, DistributionSeries, GaugeSeries, SERIES_SECONDS, SUMMARY_SECONDS } from '#engine/telemetry/windowed.ts';

const START = 1_800_000_000;

interface Sample {
  readonly second: number;
  readonly value: number;
}

/** Bursts with silences between them, some longer than any window. */
const samples = fc
  .array(fc.record({ wait: fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 0, max: 40 }) }, { weight: 1, arbitrary: fc.integer({ min: 250, max: 2500 }) }), value: fc.double({ min: 0.01, max: 1e5, noNaN: true }) }), { minLength: 1, maxLength: 150 })
  .map((steps) => {
    let second = START;
    return steps.map(({ wait, value }): Sample => ({ second: (second += wait), value }));
  });

function histogramOf(all: readonly Sample[], from: number, to: number): LogHistogram {
  const histogram = new LogHistogram();
  for (const sample of all) if (sample.second >= from && sample.second <= to) histogram.record(sample.value);
  return histogram;
}

describe('DistributionSeries', () => {
  it('merges any window to exactly what was recorded in it', () => {
    fc.assert(
      fc.property(samples, fc.integer({ min: 1, max: SERIES_SECONDS }), (all, length) => {
        const series = new DistributionSeries();
        for (const sample of all) series.record(sample.second, sample.value);
        const now = all.at(-1)?.second ?? START;
        const merged = new LogHistogram();
        series.mergeInto(merged, now - length + 1, now);
        const expected = histogramOf(all, now - length + 1, now);
        expect(new Map(merged.buckets())).toEqual(new Map(expected.buckets()));
        expect(merged.max).toBe(expected.max);
      }),
    );
  });

  it('has a running summary equal to a merge of its window, also after silence', () => {
    fc.assert(
      fc.property(samples, fc.integer({ min: 0, max: 1200 }), (all, silence) => {
        const series = new DistributionSeries();
        for (const sample of all) {
          series.record(sample.second, sample.value);
          expect(series.summary(sample.second)).toEqual(histogramOf(all.slice(0, all.indexOf(sample) + 1), sample.second - SUMMARY_SECONDS + 1, sample.second).summary(SUMMARY_SECONDS));
        }
        const now = (all.at(-1)?.second ?? START) + silence;
        expect(series.summary(now)).toEqual(histogramOf(all, now - SUMMARY_SECONDS + 1, now).summary(SUMMARY_SECONDS));
      }),
    );
  });

  it('forgets what is older than its ring', () => {
    const series = new DistributionSeries();
    series.record(START, 5);
    series.record(START + SERIES_SECONDS, 7);
    const merged = new LogHistogram();
    series.mergeInto(merged, START - 10, START + SERIES_SECONDS);
    expect(merged.n).toBe(1);
  });

  it('drops the oldest seconds when there is too much, and counts them', () => {
    const series = new DistributionSeries();
    for (let second = 0; second < 400; second += 1) {
      // 300 buckets in every second: 120,000 entries where 65,536 fit.
      for (let index = 0; index < 300; index += 1) series.record(START + second, 1.03 ** index);
    }
    const now = START + 399;
    expect(series.droppedSeconds).toBeGreaterThan(100);
    const merged = new LogHistogram();
    series.mergeInto(merged, now - 99, now);
    expect(merged.n).toBe(30_000);
    const summary = series.summary(now);
    expect(summary?.n).toBeLessThanOrEqual(218 * 300 + 300);
    const kept = new LogHistogram();
    series.mergeInto(kept, now - SUMMARY_SECONDS + 1, now);
    expect(summary?.n).toBe(kept.n);
  });

  it('ignores what is not a number', () => {
    const series = new DistributionSeries();
    series.record(START, Number.NaN);
    expect(series.summary(START)).toBeUndefined();
  });
});

describe('CounterSeries and GaugeSeries', () => {
  it('lets what comes late take no newer second\'s place, and a wrong clock keep none', () => {
    const counter = new CounterSeries(10);
    counter.add(105, 3);
    counter.add(95, 7);
    expect(counter.sum(100, 105)).toBe(3);
    counter.add(9_000_005, 1);
    counter.add(115, 2);
    expect(counter.sum(110, 115)).toBe(2);
  });

  it('sum and peak over the seconds asked for', () => {
    const counter = new CounterSeries();
    const gauge = new GaugeSeries();
    expect(counter.sum(START, START + 10)).toBe(0);
    expect(gauge.max(START, START + 10)).toBeUndefined();
    for (let second = 0; second < 5; second += 1) {
      counter.add(START + second, 2);
      counter.add(START + second, 1);
      gauge.record(START + second, second);
      gauge.record(START + second, 0);
    }
    expect(counter.sum(START + 1, START + 3)).toBe(9);
    expect(gauge.max(START + 1, START + 3)).toBe(3);
    expect(counter.has(START + 5, START + 9)).toBe(false);
    expect(counter.has(START + 4, START + 9)).toBe(true);
    counter.add(START + SERIES_SECONDS, 1);
    expect(counter.sum(START, START)).toBe(0);
  });
});

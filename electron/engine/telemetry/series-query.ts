/** Answers `series.query`: steps and the whole window are merged from the same seconds, never from each other's results. */
import type { ParsedOperationInput, Series, SeriesMetric, SeriesPoint } from '#shared/operations.ts';
import type { Instance } from '../fleet/instance.ts';
import type { InstanceStats } from './instance-stats.ts';
import { LogHistogram } from './log-histogram.ts';
import { SERIES_SECONDS, type CounterSeries, type DistributionSeries, type GaugeSeries } from './windowed.ts';

interface Window {
  /** First and last second, both included. Steps start at multiples of `stepS`, so that charts do not shimmer. */
  readonly from: number;
  readonly to: number;
  readonly stepS: number;
}

/** `second` is the current one; it is part of the answer as far as it has come. */
export function querySeries(
  input: ParsedOperationInput<'series.query'>,
  instances: readonly Instance[],
  find: { readonly stats: (id: Instance['id']) => InstanceStats | undefined; readonly second: number },
): Series[] {
  const { windowS, stepS } = input;
  const first = Math.max(find.second - windowS + 1, find.second - SERIES_SECONDS + 1);
  const window: Window = { from: first - (first % stepS), to: find.second, stepS };
  const wanted = input.instances === undefined ? undefined : new Set(input.instances);
  const series: Series[] = [];
  for (const instance of instances) {
    if (wanted !== undefined && !wanted.has(instance.id)) continue;
    const stats = find.stats(instance.id);
    for (const metric of input.metrics) {
      series.push({ instance: instance.id, instanceName: instance.name, metric, ...(stats === undefined ? { points: [] } : readMetric(stats, metric, window)) });
    }
  }
  return series;
}

function readMetric(stats: InstanceStats, metric: SeriesMetric, window: Window): Pick<Series, 'whole' | 'points'> {
  switch (metric) {
    case 'inFlight':
    case 'kvUsage':
      return { points: gaugePoints(stats[metric], window) };
    case 'requests':
    case 'errors':
      return { points: counterPoints(stats[metric], stats, { ...window, perSecond: false }) };
    case 'tokensPerSecond':
      return { points: stats.tokenCounter === undefined ? [] : counterPoints(stats.tokenCounter, stats, { ...window, perSecond: true }) };
    default:
      return distributionPoints(stats.series[metric], window);
  }
}

function* steps({ from, to, stepS }: Window): Generator<{ readonly start: number; readonly end: number }> {
  for (let start = from; start <= to; start += stepS) yield { start, end: Math.min(to, start + stepS - 1) };
}

function distributionPoints(source: DistributionSeries, window: Window): Pick<Series, 'whole' | 'points'> {
  const whole = new LogHistogram();
  const step = new LogHistogram();
  const points: SeriesPoint[] = [];
  for (const { start, end } of steps(window)) {
    step.clear();
    source.mergeInto(step, start, end);
    if (step.n === 0) continue;
    whole.merge(step);
    const summary = step.summary(window.stepS);
    if (summary !== undefined) points.push({ atUnixMs: start * 1000, n: summary.n, p50: summary.p50, p95: summary.p95, p99: summary.p99 });
  }
  const summary = whole.summary(window.to - window.from + 1);
  return { points, ...(summary !== undefined && { whole: summary }) };
}

/** The largest value of each step: a peak between two points is not hidden. */
function gaugePoints(source: GaugeSeries, window: Window): SeriesPoint[] {
  const points: SeriesPoint[] = [];
  for (const { start, end } of steps(window)) {
    const value = source.max(start, end);
    if (value !== undefined) points.push({ atUnixMs: start * 1000, value });
  }
  return points;
}

/** Zero is a value where the instance was watched (its in-flight gauge was sampled) and nothing happened. */
function counterPoints(source: CounterSeries, stats: InstanceStats, window: Window & { readonly perSecond: boolean }): SeriesPoint[] {
  const points: SeriesPoint[] = [];
  for (const { start, end } of steps(window)) {
    const wasWatched = stats.inFlight.max(start, end) !== undefined || source.has(start, end);
    if (!wasWatched) continue;
    const sum = source.sum(start, end);
    points.push({ atUnixMs: start * 1000, value: window.perSecond ? sum / (end - start + 1) : sum });
  }
  return points;
}

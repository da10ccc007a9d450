/**
 * Metrics whose values live elsewhere and are read when the page is asked for: nothing is counted twice, and the hot path
 * does not know of Prometheus. prom-client formats and escapes; these objects have the shape that its registry reads.
 */
import type { Metric, Registry } from 'prom-client';
import type { LogHistogram } from './log-histogram.ts';

type Labels = Readonly<Record<string, string | number>>;

export interface CollectedSample {
  readonly labels: Labels;
  readonly value: number;
}

export interface CollectedHistogram {
  readonly labels: Labels;
  /** Milliseconds. */
  readonly histogram: LogHistogram;
}

interface Family {
  readonly name: string;
  readonly help: string;
}

interface PageSample extends CollectedSample {
  readonly metricName?: string;
}

/** Upper bounds in seconds, from one token gap to a very long answer. */
const BOUNDS_SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300,
] as const;
const BOUNDS_MS = BOUNDS_SECONDS.map((seconds) => seconds * 1000);

/** Adds a counter or gauge to the page. A family without samples shows only its help. */
export function addCollected(registry: Registry, family: Family & { readonly type: 'counter' | 'gauge' }, read: () => Iterable<CollectedSample>): void {
  register(registry, family, family.type, () => [...read()]);
}

/** Adds a histogram in seconds. Samples within 1 % of a bound may be on either side of it (log-histogram.ts). */
export function addCollectedHistogram(registry: Registry, family: Family, read: () => Iterable<CollectedHistogram>): void {
  register(registry, family, 'histogram', () => [...read()].flatMap((item) => histogramSamples(family.name, item)));
}

function histogramSamples(name: string, { labels, histogram }: CollectedHistogram): PageSample[] {
  if (histogram.n === 0) return [];
  const counts = histogram.cumulative(BOUNDS_MS);
  const buckets = BOUNDS_SECONDS.map((le, index) => ({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: counts[index] ?? 0 }));
  return [
    ...buckets,
    { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: histogram.n },
    { metricName: `${name}_sum`, labels, value: histogram.sum / 1000 },
    { metricName: `${name}_count`, labels, value: histogram.n },
  ];
}

function register(registry: Registry, { name, help }: Family, type: 'counter' | 'gauge' | 'histogram', read: () => PageSample[]): void {
  const metric = {
    name,
    help,
    type,
    aggregator: 'sum',
    get: () => Promise.resolve({ name, help, type, aggregator: 'sum', values: read() }),
    reset: () => undefined,
  };
  // The registry uses no more of a metric than this (prom-client lib/registry.js).
  registry.registerMetric(metric as unknown as Metric);
}

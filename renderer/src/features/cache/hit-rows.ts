/** Hit series as the chart and the tables need them. A source that said nothing is absent, never 0 %. */
import { HIT_SOURCES, type CacheHits, type Confidence, type HitSeries, type HitSource } from '#shared/cache.ts';
import { evenly, type ChartRow } from '../../ui/chart-rows.ts';
import { formatCount, formatInteger } from '../../ui/format.ts';

/** 0..1; undefined when nothing was asked. */
export function hitRate(counted: { readonly hitTokens: number; readonly queryTokens: number } | undefined): number | undefined {
  return counted === undefined || counted.queryTokens <= 0 ? undefined : counted.hitTokens / counted.queryTokens;
}

/** Of how many requests a number speaks. */
export function sampleWords({ requests, of }: NonNullable<HitSeries['sample']>): string {
  return requests >= of ? `all ${formatCount(of, 'request')}` : `${formatInteger(requests)} of ${formatCount(of, 'request')}`;
}

/** The series of one scope: '' = the fleet, else an instance. In the order of the sources. */
export function seriesOf(hits: CacheHits, scope: string): readonly HitSeries[] {
  return HIT_SOURCES.flatMap((source) => hits.series.filter((series) => series.source === source && (series.instance ?? '') === scope));
}

/** Rows of per cent: one per step of the window, a key per source that was asked something in it. */
export function hitChartRows(hits: CacheHits, series: readonly HitSeries[]): readonly ChartRow[] {
  const { nowUnixMs, windowS, stepS } = hits;
  const lines = series.map((one) => [one.source, evenly(one.points, hits, (point) => hitRate(point))] as const);
  return Array.from({ length: Math.round(windowS / stepS) }, (_, index) => {
    const row: Record<string, number | undefined> & { atUnixMs: number } = { atUnixMs: nowUnixMs - windowS * 1000 + (index + 0.5) * stepS * 1000 };
    for (const [source, rates] of lines) {
      const rate = rates[index];
      if (rate !== undefined) row[source] = rate * 100;
    }
    return row;
  });
}

export interface HitTableRow {
  /** '' = the whole fleet. */
  readonly scope: string;
  readonly name: string;
  readonly cells: Readonly<Partial<Record<HitSource, { readonly rate?: number; readonly hitTokens: number; readonly queryTokens: number; readonly confidence?: Confidence; readonly sample?: HitSeries['sample'] }>>>;
}

/** One row per instance, the fleet first; a cell per source that exists for it. */
export function hitTableRows(hits: CacheHits): readonly HitTableRow[] {
  const rows = new Map<string, { name: string; cells: Record<string, NonNullable<HitTableRow['cells'][HitSource]>> }>();
  for (const { source, instance, instanceName, whole, confidence, sample } of hits.series) {
    const scope = instance ?? '';
    const row = rows.get(scope) ?? { name: scope === '' ? 'fleet' : (instanceName ?? scope), cells: {} };
    rows.set(scope, row);
    if (whole === undefined) continue;
    const rate = hitRate(whole);
    row.cells[source] = { ...whole, ...(rate !== undefined && { rate }), ...(confidence !== undefined && { confidence }), ...(sample !== undefined && { sample }) };
  }
  return [...rows].map(([scope, row]) => ({ scope, ...row })).sort((a, b) => Number(a.scope !== '') - Number(b.scope !== '') || a.name.localeCompare(b.name, 'en', { numeric: true }));
}

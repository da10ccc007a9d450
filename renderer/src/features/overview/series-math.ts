/** Instances' series as charts need them. */
import type { Series } from '#shared/operations.ts';
import { evenly, type ChartRow, type SeriesWindow } from '../../ui/chart-rows.ts';

export type Percentile = 'p50' | 'p95' | 'p99';

/** Rows for a multi-line chart: every step of the window, a key per series that has a value there. */
export function chartRows(series: readonly Series[], window: SeriesWindow, percentile: Percentile): readonly ChartRow[] {
  const { nowUnixMs, windowS, stepS } = window;
  const lines = series.map((one) => [one.instance, evenly(one.points, window, (point) => point.value ?? point[percentile])] as const);
  const startUnixMs = nowUnixMs - windowS * 1000;
  return Array.from({ length: Math.round(windowS / stepS) }, (_, index) => {
    const row: Record<string, number | undefined> & { atUnixMs: number } = { atUnixMs: startUnixMs + (index + 0.5) * stepS * 1000 };
    for (const [instance, values] of lines) {
      const value = values[index];
      if (value !== undefined) row[instance] = value;
    }
    return row;
  });
}

/** The `limit` series with the most samples, in their original order: lines beyond that cannot be told apart. */
export function busiest(series: readonly Series[], limit: number): readonly Series[] {
  const samples = (one: Series): number => one.whole?.n ?? one.points.reduce((sum, point) => sum + (point.n ?? 0), 0);
  const chosen = new Set(
    [...series]
      .filter((one) => one.points.length > 0)
      .sort((a, b) => samples(b) - samples(a))
      .slice(0, limit),
  );
  return series.filter((one) => chosen.has(one));
}

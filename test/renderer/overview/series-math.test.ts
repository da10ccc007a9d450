import { describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import type { Series, SeriesPoint } from '#shared/operations.ts';
import { busiest, chartRows } from '../../../renderer/src/features/overview/series-math.ts';
import { evenly, loneValues } from '../../../renderer/src/ui/chart-rows.ts';

const WINDOW = { nowUnixMs: 100_000, windowS: 10, stepS: 2 };
const series = (instance: string, points: readonly SeriesPoint[], n = 0): Series => ({
  instance: instance as InstanceId, instanceName: instance.toUpperCase(), metric: 'ttftMs', points,
  ...(n > 0 && { whole: { n, windowS: 10, p50: 1, p95: 1, p99: 1, max: 1 } }),
});

describe('series math', () => {
  it('puts each point into its step and keeps gaps as gaps', () => {
    const points = [{ atUnixMs: 90_000, p50: 1 }, { atUnixMs: 95_900, p50: 2 }, { atUnixMs: 99_999, p50: 3 }, { atUnixMs: 80_000, p50: 9 }, { atUnixMs: 100_000, p50: 9 }];
    expect(evenly(points, WINDOW, (point) => point.p50)).toEqual([1, undefined, 2, undefined, 3]);
  });

  it('makes one row per step with a key only where there is a value', () => {
    const rows = chartRows([series('d0', [{ atUnixMs: 90_000, p95: 5 }]), series('d1', [{ atUnixMs: 98_000, p95: 7 }])], WINDOW, 'p95');
    expect(rows).toEqual([{ atUnixMs: 91_000, d0: 5 }, { atUnixMs: 93_000 }, { atUnixMs: 95_000 }, { atUnixMs: 97_000 }, { atUnixMs: 99_000, d1: 7 }]);
  });

  it('finds the values that a line alone would not show', () => {
    const rows = [{ atUnixMs: 1, d0: 5 }, { atUnixMs: 2, d1: 1 }, { atUnixMs: 3, d0: 0, d1: 2 }, { atUnixMs: 4 }, { atUnixMs: 5, d1: 3 }];
    expect([...loneValues(rows, 'd0')]).toEqual([0, 2]);
    expect([...loneValues(rows, 'd1')]).toEqual([4]);
    expect([...loneValues([], 'd0')]).toEqual([]);
  });

  it('takes a gauge as it is, whatever the percentile', () => {
    expect(chartRows([series('d0', [{ atUnixMs: 90_000, value: 4 }])], WINDOW, 'p99')[0]).toEqual({ atUnixMs: 91_000, d0: 4 });
  });

  it('chooses the series with most samples, leaves out empty ones, keeps the order', () => {
    const point = [{ atUnixMs: 90_000, p50: 1 }];
    const chosen = busiest([series('a', point, 5), series('b', point, 50), series('c', [], 500), series('d', point, 20)], 2);
    expect(chosen.map((one) => one.instance)).toEqual(['b', 'd']);
  });
});

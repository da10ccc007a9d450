import { describe, expect, it } from 'vitest';
import { formatFloat, MetricsRegistry } from '#engine/simulator/metrics-registry.ts';

describe('Prometheus text as prometheus_client writes it', () => {
  it.each([
    [0, '0.0'],
    [0.005, '0.005'],
    [200, '200.0'],
    [524_288, '524288.0'],
    [2_097_152, '2.097152e+06'],
    [1_789_095_808.5, '1.7890958085e+09'],
    [Number.POSITIVE_INFINITY, '+Inf'],
  ])('formats %d as %s', (value, text) => {
    expect(formatFloat(value)).toBe(text);
  });

  it('writes cumulative buckets, sorted labels and _created families', () => {
    const registry = new MetricsRegistry();
    registry.counter('a_total', 'A.', { z: '1', b: 'x"y' }).inc(3);
    const histogram = registry.histogram('h', 'H.', {}, [1, 5]);
    for (const value of [0.5, 5, 7]) histogram.observe(value);
    registry.gauge('g', 'G.', {}, () => 0.25);
    const lines = registry.render().split('\n').filter((line) => !/_created [\d.e+]+$|_created\{/u.test(line));
    expect(lines).toEqual([
      '# HELP a_total A.', '# TYPE a_total counter', 'a_total{b="x\\"y",z="1"} 3.0',
      '# HELP a_created A.', '# TYPE a_created gauge',
      '# HELP h H.', '# TYPE h histogram',
      'h_bucket{le="1.0"} 1.0', 'h_bucket{le="5.0"} 2.0', 'h_bucket{le="+Inf"} 3.0', 'h_count 3.0', 'h_sum 12.5',
      '# HELP h_created H.', '# TYPE h_created gauge',
      '# HELP g G.', '# TYPE g gauge', 'g 0.25', '',
    ]);
  });

  it('refuses one name with two types', () => {
    const registry = new MetricsRegistry();
    registry.counter('x', 'X.', {});
    expect(() => registry.gauge('x', 'X.', {}, () => 1)).toThrow('metric x is a counter');
  });
});

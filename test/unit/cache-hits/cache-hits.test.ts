import { fc } from '../../support/properties.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Confidence, HitSource } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { EngineGauges } from '#shared/instance.ts';
import type { Role } from '#shared/vocabulary.ts';
import { CacheHits } from '#engine/cache-hits/cache-hits.ts';
import { EngineCounters } from '#engine/cache-hits/engine-counters.ts';
import { Findings } from '#engine/findings/findings.ts';
import { GaugeReducer } from '#engine/fleet/engine-gauges.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import { InstanceStats } from '#engine/telemetry/instance-stats.ts';

/** 2023-11-14 22:13:20 UTC, a multiple of 5 s. */
const T0 = 1_700_000_000_000;
const SURE: Confidence = { value: 1, reasons: [] };

function instance(id: string, role: Role): Instance {
  return { id, name: id.toUpperCase(), role, gauges: undefined } as unknown as Instance;
}

function scrape(one: Instance, atUnixMs: number, cacheTokens: NonNullable<EngineGauges['cacheTokens']>): void {
  one.gauges = { scrapedAtUnixMs: atUnixMs, cacheTokens };
}

let now = T0;
const p0 = instance('p0', 'prefill');
const d0 = instance('d0', 'decode');
const both = [p0, d0];

function create(): { readonly hits: CacheHits; readonly stats: readonly InstanceStats[]; readonly findings: Findings } {
  const stats = both.map(({ id, role, name }) => new InstanceStats(id, role, name));
  const findings = new Findings();
  return { hits: new CacheHits({ stats: () => stats, findings, now: () => now }), stats, findings };
}

beforeEach(() => {
  now = T0;
  p0.gauges = undefined;
  d0.gauges = undefined;
});

const ask = { windowS: 60, stepS: 5 };

describe('cache hits', () => {
  it('says of how many requests the index speaks', () => {
    const { hits } = create();
    hits.sample(both);
    for (let request = 0; request < 5; request += 1) hits.recordAsked('p0' as InstanceId);
    hits.recordAsked('d0' as InstanceId);
    hits.recordIndex({ instance: 'p0' as InstanceId, queryTokens: 100, hitTokens: 48, confidence: SURE });
    hits.recordIndex({ instance: 'p0' as InstanceId, queryTokens: 100, hitTokens: 48, confidence: SURE });
    const samples = hits.query(ask, both).series.map(({ source, instance: of, sample }) => [source, of, sample]);
    expect(samples).toEqual([['index', undefined, { requests: 2, of: 6 }], ['index', 'p0', { requests: 2, of: 5 }]]);
  });

  it('keeps sources apart, per instance and for the fleet, with steps that were not asked absent', () => {
    const { hits, stats } = create();
    hits.sample(both);
    scrape(p0, T0 + 1000, { prefixQueries: 1000, prefixHits: 400, localCompute: 600, localCacheHit: 300, externalKvTransfer: 100 });
    scrape(d0, T0 + 1000, { prefixQueries: 500, prefixHits: 0, externalQueries: 500, externalHits: 480 });
    hits.sample(both);
    hits.sample(both);
    now = T0 + 12_000;
    scrape(p0, T0 + 12_000, { prefixQueries: 1500, prefixHits: 800, localCompute: 700, localCacheHit: 700, externalKvTransfer: 100 });
    hits.sample(both);
    stats[0]?.countCached('prefill', (T0 + 2000) / 1000, { promptTokens: 100, cachedTokens: 40 });
    stats[0]?.countCached('prefill', (T0 + 2000) / 1000, { promptTokens: 100 });
    stats[1]?.countCached('decode', (T0 + 3000) / 1000, { promptTokens: 100, cachedTokens: 96 });
    hits.recordIndex({ instance: 'p0' as InstanceId, queryTokens: 100, hitTokens: 48, confidence: { value: 0.9, reasons: [{ code: 'joined-late', text: 'late' }] } });
    hits.recordIndex({ instance: 'gone' as InstanceId, queryTokens: 100, hitTokens: 48, confidence: SURE });
    const { series, nowUnixMs } = hits.query(ask, both);
    expect(nowUnixMs).toBe(now);
    const points = (source: HitSource, id?: string): unknown => series.find((one) => one.source === source && one.instance === id)?.points.map(({ atUnixMs, hitTokens, queryTokens }) => [(atUnixMs - T0) / 1000, hitTokens, queryTokens]);
    expect(points('engine-local', 'p0')).toEqual([[0, 400, 1000], [10, 400, 500]]);
    expect(points('engine-local', 'd0')).toEqual([[0, 0, 500]]);
    expect(points('engine-local')).toEqual([[0, 400, 1500], [10, 400, 500]]);
    expect(points('engine-external')).toEqual([[0, 480, 500]]);
    expect(points('engine-external', 'p0')).toBeUndefined();
    expect(points('by-source', 'p0')).toEqual([[0, 400, 1000], [10, 400, 500]]);
    expect(points('prefill-cached-tokens', 'p0')).toEqual([[0, 40, 100]]);
    expect(points('decode-cached-tokens', 'd0')).toEqual([[0, 96, 100]]);
    expect(series.filter(({ source }) => source === 'index')).toEqual([
      { source: 'index', points: [{ atUnixMs: T0 + 10_000, hitTokens: 48, queryTokens: 100 }], whole: { hitTokens: 48, queryTokens: 100 }, confidence: { value: 0.9, reasons: [{ code: 'joined-late', text: 'late' }] }, sample: { requests: 1, of: 1 } },
      expect.objectContaining({ instance: 'p0', instanceName: 'P0' }),
    ]);
    // An instance that left takes its past along.
    hits.sample([d0]);
    expect(hits.query(ask, [d0]).series.filter(({ source }) => source === 'engine-local').map(({ whole }) => whole?.queryTokens)).toEqual([500, 500]);
  });

  it('sums of steps are the whole, whatever the step', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ at: fc.integer({ min: 0, max: 50 }), query: fc.integer({ min: 1, max: 500 }), share: fc.double({ min: 0, max: 1, noNaN: true }) }), { minLength: 1, maxLength: 40 }), fc.integer({ min: 1, max: 60 }), (records, stepS) => {
        const { hits } = create();
        now = T0;
        hits.sample(both);
        let all = 0;
        for (const { at, query, share } of [...records].sort((a, b) => a.at - b.at)) {
          now = T0 + at * 1000;
          all += query;
          hits.recordIndex({ instance: 'p0' as InstanceId, queryTokens: query, hitTokens: Math.floor(query * share), confidence: SURE });
        }
        now = T0 + 50_000;
        const [fleet] = hits.query({ windowS: 60, stepS }, both).series;
        expect(fleet?.whole?.queryTokens).toBe(all);
        expect(fleet?.points.reduce((sum, { queryTokens }) => sum + queryTokens, 0)).toBe(all);
        expect(fleet?.points.reduce((sum, { hitTokens }) => sum + hitTokens, 0)).toBe(fleet?.whole?.hitTokens);
      }),
    );
  });

  it('shows disagreements of the window, and makes lasting ones findings', () => {
    const { hits, findings } = create();
    hits.sample(both);
    const tokens = { localCompute: 0, localCacheHit: 0, externalKvTransfer: 0 };
    for (let second = 1; second <= 20; second += 1) {
      now = T0 + second * 1000;
      tokens.localCompute += 900;
      tokens.localCacheHit += 100;
      scrape(p0, now, { ...tokens });
      hits.recordIndex({ instance: 'p0' as InstanceId, queryTokens: 1000, hitTokens: 700, confidence: SURE });
      hits.sample(both);
    }
    expect(hits.query(ask, both).disagreements).toEqual([
      { instance: 'p0', instanceName: 'P0', left: 'index', right: 'by-source', leftRate: 0.7, rightRate: 0.1, meaning: expect.stringContaining('local_compute') as string },
    ]);
    expect(findings.list().findings).toMatchObject([{ code: 'hits_promised_but_computed', instance: 'p0', instanceName: 'P0', severity: 'warning', count: 1 }]);
  });
});

describe('counters of an engine', () => {
  const page = (values: Readonly<Record<string, number>>) =>
    Object.entries(values).map(([key, value]) => {
      const [name = '', engine = '0', source] = key.split('|');
      return { name: `vllm:${name}`, labels: { engine, model_name: 'm', ...(source !== undefined && { source }) }, value };
    });

  it('grow from the first scrape on, over ranks and restarts, as a naive sum says', () => {
    const step = fc.record({ ranks: fc.array(fc.integer({ min: 0, max: 100 }), { minLength: 2, maxLength: 2 }), restarts: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 30 }), (steps) => {
        const reducer = new GaugeReducer();
        const counters = new EngineCounters();
        let values = [7000, 9000];
        let expected = 0;
        const look = (at: number): void => {
          const [a = 0, b = 0] = values;
          const samples = page({
            'prefix_cache_queries_total|0': 2 * a, 'prefix_cache_queries_total|1': 2 * b, 'prefix_cache_hits_total|0': a, 'prefix_cache_hits_total|1': b,
            'prompt_tokens_by_source_total|0|local_compute': a, 'prompt_tokens_by_source_total|0|local_cache_hit': b, 'prompt_tokens_by_source_total|1|external_kv_transfer': a,
          });
          counters.take({ gauges: reducer.reduce(samples, { monotonicMs: at * 1000, unixMs: T0 + at * 1000 }) });
        };
        look(0);
        for (const [index, { ranks, restarts }] of steps.entries()) {
          // A counter that starts anew and is past its old value before it is looked at cannot be told; these stay far below.
          values = values.map((value, rank) => (restarts ? (ranks[rank] ?? 0) % 7 : value + 100 + (ranks[rank] ?? 0)));
          expected += restarts ? ranks.reduce((sum, grown) => sum + (grown % 7), 0) : ranks.reduce((sum, grown) => sum + 100 + grown, 0);
          look(index + 1);
          if (restarts) {
            values = values.map((value) => value + 7000);
            expected += 14_000;
            look(index + 1);
          }
        }
        const from = T0 / 1000;
        expect(counters.sources['engine-local'].sum(from, from + 100)).toEqual(expected === 0 ? undefined : { hitTokens: expected, queryTokens: 2 * expected });
        expect(counters.sources['engine-external'].sum(from, from + 100)).toBeUndefined();
      }),
    );
  });

  it('tell local and fetched tokens as hits of by-source', () => {
    const reducer = new GaugeReducer();
    const counters = new EngineCounters();
    const at = (second: number, compute: number, local: number, external: number): EngineGauges =>
      reducer.reduce(page({ 'prompt_tokens_by_source_total|0|local_compute': compute, 'prompt_tokens_by_source_total|0|local_cache_hit': local, 'prompt_tokens_by_source_total|0|external_kv_transfer': external }), { monotonicMs: second * 1000, unixMs: T0 + second * 1000 });
    const first = at(0, 10, 20, 30);
    expect(first.cacheTokens).toBeUndefined();
    counters.take({ gauges: first });
    counters.take({ gauges: at(5, 11, 22, 33) });
    counters.take({ gauges: undefined });
    // Five minutes without a scrape: what grew is counted where it was learned.
    counters.take({ gauges: at(305, 111, 122, 133) });
    const second = T0 / 1000;
    expect(counters.sources['by-source'].sum(second, second + 10)).toEqual({ hitTokens: 5, queryTokens: 6 });
    expect(counters.sources['by-source'].sum(second + 11, second + 304)).toBeUndefined();
    expect(counters.sources['by-source'].sum(second + 305, second + 305)).toEqual({ hitTokens: 200, queryTokens: 300 });
  });
});

import { describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import type { RequestRow } from '#shared/request.ts';
import { breakdownParts, cachedSentence, gaugeSentences, slowestPhase } from '../../../renderer/src/features/requests/detail/breakdown.ts';
import { compareDetails } from '../../../renderer/src/features/requests/detail/compare.ts';
import { gapStats } from '../../../renderer/src/features/requests/detail/token-gaps.ts';
import { errorWords, failureWords } from '../../../renderer/src/features/requests/error-words.ts';
import { nextScale, niceCeil, suitableScale } from '../../../renderer/src/features/requests/phase-scale.ts';
import { percentiles, summarize } from '../../../renderer/src/features/requests/summary.ts';
import { failedRow, sampleChunks, sampleDetail, sampleRow } from './sample-requests.ts';

describe('the sum of the first token', () => {
  it('names every part, marks bounds, and always ends with the unattributed rest', () => {
    const parts = [{ phase: 'proxy', ms: 7, isExact: true }, { phase: 'prefill-queue', ms: 59, isExact: false }, { phase: 'kv-wait', ms: 718, isExact: false }] as const;
    const texts = (ttft: Parameters<typeof breakdownParts>[0]) => breakdownParts(ttft).map(({ text }) => text);
    expect(texts({ totalMs: 794, parts, unattributedMs: 10 })).toEqual(['proxy 7.0', 'P queue ≤ 59.0', 'remote-KV wait ≤ 718', 'unattributed 10.0']);
    expect(texts({ totalMs: 7, parts: [], unattributedMs: 0 })).toEqual(['unattributed 0.00']);
  });

  it('adds up to the total', () => {
    const { ttft } = sampleDetail(sampleRow(10));
    const sum = (ttft?.parts ?? []).reduce((total, part) => total + part.ms, ttft?.unattributedMs ?? 0);
    expect(sum).toBeCloseTo(ttft?.totalMs ?? -1, 9);
  });

  it('says what the instances were doing, and leaves out what was not scraped', () => {
    const detail = sampleDetail(sampleRow(10));
    expect(gaugeSentences(detail)[0]).toBe('P0 at send: 11 in flight, running 19, waiting 7, KV 83 %, scraped 812\u2009ms before');
    const [leg] = detail.legs;
    expect(leg && gaugeSentences({ ...detail, legs: [{ ...leg, gaugesAtSend: { inFlight: 2 } }] })).toEqual(['P0 at send: 2 in flight']);
    expect(cachedSentence(detail)).toBe('cached tokens: P0 says 208, D1 says 624 (decode counts what it pulled)');
    expect(cachedSentence({ ...detail, legs: [] })).toBeUndefined();
  });

  it('compares the longest phase with the same route only, and not with too few', () => {
    const slow = sampleRow(10);
    const route = Array.from({ length: 9 }, (_, index) => sampleRow(16 + index * 6));
    expect(route.every((row) => row.route.map((step) => step.name).join() === 'P0,D1')).toBe(true);
    const others = [...route, ...Array.from({ length: 9 }, (_, index) => sampleRow(11 + index * 6))];
    expect(slowestPhase(slow, others)).toMatchObject({ phase: 'kv-wait', ms: 718, n: 9 });
    expect(slowestPhase(slow, others)?.typicalMs).toBeLessThan(50);
    expect(slowestPhase(slow, route.slice(0, 4))).not.toHaveProperty('typicalMs');
  });
});

describe('gapStats', () => {
  it('finds percentiles and the stall', () => {
    const stats = gapStats(sampleChunks(100, 30, 10));
    expect(stats).toMatchObject({ n: 29, p50: 10, p99: 63, max: 63 });
    expect(stats?.stalls).toEqual([{ chunk: 15, gapMs: 63, startMs: 240, endMs: 303 }]);
  });

  it('is silent about one chunk and about small jitter', () => {
    expect(gapStats([5])).toBeUndefined();
    expect(gapStats([0, 1, 2, 9])?.stalls).toEqual([]);
  });
});

describe('compareDetails', () => {
  it('lists every phase that either has, and never subtracts what was not observed', () => {
    const lines = compareDetails(sampleDetail(sampleRow(10)), sampleDetail(failedRow(4)));
    expect(lines.find((line) => line.label === 'remote-KV wait')).toMatchObject({ left: 718, right: undefined, difference: undefined });
    expect(lines.find((line) => line.label === 'handoff')).toMatchObject({ left: 7, right: 7, difference: 0 });
    expect(lines.find((line) => line.label === 'TTFT')).toMatchObject({ left: 1112, right: undefined });
    expect(lines.find((line) => line.label === 'retries')?.difference).toBe(1);
    expect(lines.some((line) => line.label === 'encode')).toBe(false);
  });
});

describe('the shared scale of the phase bars', () => {
  it('is a round number that holds 95 of 100', () => {
    expect([0.7, 1, 1.1, 180, 501, 1000, 1001].map(niceCeil)).toEqual([1, 1, 2, 200, 1000, 1000, 2000]);
    expect(niceCeil(0)).toBe(1000);
    const rows = [...Array.from({ length: 99 }, () => sampleRow(1, { e2elMs: 400 })), sampleRow(2, { e2elMs: 90_000 })];
    expect(suitableScale(rows)).toBe(500);
    expect(suitableScale([])).toBeUndefined();
  });

  it('does not breathe: it grows when needed and shrinks only when far too large', () => {
    expect(nextScale(1000, 2000)).toBe(2000);
    expect(nextScale(1000, 500)).toBe(1000);
    expect(nextScale(1000, 200)).toBe(200);
    expect(nextScale(2000, undefined)).toBe(2000);
  });
});

describe('summarize', () => {
  it('counts states, takes percentiles of what was observed, and groups by route', () => {
    const summary = summarize([sampleRow(10), sampleRow(16), failedRow(4)]);
    expect(summary.byState).toEqual({ running: 0, ok: 2, error: 1, aborted: 0 });
    expect(summary.ttft?.n).toBe(2);
    expect(summary.phases.find(({ phase }) => phase === 'handoff')).toMatchObject({ isExact: true, ms: { n: 3, p50: 7 } });
    expect(summary.phases.find(({ phase }) => phase === 'kv-wait')).toMatchObject({ isExact: false, ms: { n: 2, p95: 718 } });
    expect(summary.pairs).toMatchObject([{ route: 'P0 → D1', requests: 3, errors: 1, ttft: { n: 2 } }]);
  });

  it('lists routes with errors before slow ones, and counts those that it leaves out', () => {
    const route = (index: number): Partial<RequestRow> => ({ route: [{ kind: 'prefill', instance: `p${index}` as InstanceId, name: `P${index}` }] });
    // The failing ones answered soonest, or not at all.
    const rows = [...Array.from({ length: 9 }, (_, index) => sampleRow(index, { ...route(index), ttftMs: 500 + index })), sampleRow(20, { ...route(20), state: 'error', ttftMs: 3 }), { ...failedRow(21), ...route(21) }, { ...failedRow(22), ...route(21) }];
    const summary = summarize(rows);
    expect(summary.pairs.map((pair) => [pair.route, pair.errors])).toEqual([['P21', 2], ['P20', 1], ['P8', 0], ['P7', 0], ['P6', 0], ['P5', 0], ['P4', 0], ['P3', 0]]);
    expect(summary.pairsOmitted).toBe(3);
    expect(summarize(rows.slice(0, 8)).pairsOmitted).toBe(0);
  });

  it('takes a phase in pieces as one sample per request', () => {
    const row = sampleRow(10);
    const again = { ...row, phases: [...row.phases, { phase: 'proxy' as const, startMs: 2000, endMs: 2006, isExact: true }] };
    expect(summarize([again]).phases.find(({ phase }) => phase === 'proxy')?.ms).toEqual({ n: 1, p50: 10, p95: 10, p99: 10 });
  });

  it('takes nearest-rank percentiles: values that were measured', () => {
    expect(percentiles([4, 1, 3, 2])).toEqual({ n: 4, p50: 2, p95: 4, p99: 4 });
    expect(percentiles([])).toBeUndefined();
  });
});

describe('failure words', () => {
  it('say which leg on which instance', () => {
    const row = failedRow(4);
    expect(failureWords({ ...row, status: 400, error: { message: 'too long', code: 'upstream_status', leg: 'prefill', instanceName: 'P0' } })).toBe('prefill P0: answered 400');
    expect(failureWords({ ...row, status: 200, error: { message: 'broke off', code: 'upstream_status', leg: 'decode', instanceName: 'D0' } })).toBe('decode D0: upstream status');
    expect(failureWords(row)).toBe('decode D1: connect failed');
    expect(row.error && errorWords(row.error)).toBe('decode D1: connect ECONNREFUSED 10.0.4.15:8200');
    expect(row.error && errorWords({ ...row.error, message: 'decode leg on D1 closed the connection' })).toBe('decode leg on D1 closed the connection');
    expect(errorWords({ message: 'no decode instance', code: 'no_instance' })).toBe('pdscope: no decode instance');
    expect(failureWords(sampleRow(1, { state: 'aborted' }))).toBe('the client went away');
    expect(failureWords(sampleRow(1))).toBeUndefined();
  });
});

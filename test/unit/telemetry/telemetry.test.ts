import { describe, expect, it } from 'vitest';
import type { RecordId } from '#shared/ids.ts';
import { bench, D0, D1, fakeInstance, ORIGIN_UNIX_MS, P0, P1, runStream, sendLeg } from './support.ts';

const R1 = 'r1' as RecordId;

describe('a streamed request', () => {
  it('becomes a row with its measures', () => {
    const b = bench();
    runStream(b, { prefillMs: 100, ttfbMs: 20, gaps: [10, 10, 30], completionTokens: 4 });
    const [row] = [...b.telemetry.log.rows()];
    expect(row).toMatchObject({
      id: 'r1', n: 1, requestId: 'req', receivedAtUnixMs: ORIGIN_UNIX_MS, api: 'chat', model: 'm', isStream: true, connector: 'nixl',
      state: 'ok', status: 200, promptTokens: 100, cachedTokens: 40, completionTokens: 4, chunks: 6, requestBytes: 2, responseBytes: 274,
      prefillMs: 100, handoffMs: 1, ttftMs: 122, itlMs: 10, e2elMs: 172, retries: 0, isSimulated: false, isOwnProbe: false,
      route: [{ kind: 'prefill', instance: 'p0', name: 'P0' }, { kind: 'decode', instance: 'd0', name: 'D0' }],
    });
    expect(row?.tpotMs).toBeCloseTo((172 - 122) / 3, 9);
    expect(row?.phases).toEqual([
      { phase: 'proxy', startMs: 0, endMs: 1, isExact: true },
      { phase: 'prefill', startMs: 1, endMs: 101, isExact: true },
      { phase: 'handoff', startMs: 101, endMs: 102, isExact: true },
      { phase: 'unattributed', startMs: 102, endMs: 122, isExact: false },
      { phase: 'decode', startMs: 122, endMs: 172, isExact: true },
    ]);
  });

  it('feeds the histograms of its instances and of the fleet, without [DONE] and the usage message', () => {
    const b = bench();
    runStream(b, { prefillMs: 100, ttfbMs: 20, gaps: [10, 10, 30], completionTokens: 4 });
    b.telemetry.settle();
    expect(b.telemetry.instanceLatency(P0.id).prefillMs).toMatchObject({ n: 1, windowS: 300, max: 100 });
    const d0 = b.telemetry.instanceLatency(D0.id);
    expect(d0.itlMs).toMatchObject({ n: 3, max: 30 });
    expect(d0.itlMs?.p50).toBeCloseTo(10, 0);
    expect(d0.ttftMs).toMatchObject({ n: 1, max: 122 });
    expect(d0.e2elMs).toMatchObject({ n: 1, max: 172 });
    expect(d0.tpotMs?.n).toBe(1);
    const fleet = b.telemetry.fleetLatency();
    expect(fleet.handoffMs).toMatchObject({ n: 1, max: 1 });
    expect(fleet.addedMs).toMatchObject({ n: 1, max: 2 });
    expect(b.telemetry.promptTokens5m).toBe(100);
    expect(b.telemetry.cachedTokens5m).toBe(40);
  });

  it('has no TPOT while nobody reported tokens, and gets it when the facts come after the end', () => {
    const b = bench();
    const trace = b.begin();
    const leg = sendLeg(trace, 'decode', D0);
    b.clock.advance(10);
    trace.chunk(5, 1);
    b.clock.advance(10);
    trace.chunk(5, 1);
    trace.chunk(5, 1);
    trace.chunk(5, 1);
    leg.end('ok');
    trace.end('ok');
    b.telemetry.settle();
    expect(b.telemetry.detail(R1)?.row.tpotMs).toBeUndefined();
    expect(b.telemetry.instanceLatency(D0.id).tpotMs).toBeUndefined();
    const before = b.telemetry.log.lastChange();
    leg.facts({ usage: { completionTokens: 2 } });
    expect(b.telemetry.log.lastChange()).toBe(before + 1);
    expect([...b.telemetry.log.changedSince(before)][0]?.tpotMs).toBe(10);
    expect(b.telemetry.instanceLatency(D0.id).tpotMs?.n).toBe(1);
    // Two output messages, one gap: usage and [DONE] are no output.
    expect(b.telemetry.instanceLatency(D0.id).itlMs).toMatchObject({ n: 1, max: 10 });
  });

  it('counts k events of one write as one gap and k-1 zeros', () => {
    const b = bench();
    const trace = b.begin();
    const leg = sendLeg(trace, 'decode', D0);
    b.clock.advance(5);
    trace.chunk(5, 2);
    b.clock.advance(40);
    trace.chunk(5, 3);
    b.clock.advance(1);
    trace.chunk(5, 0);
    b.clock.advance(1);
    trace.chunk(5, 1);
    leg.end('aborted');
    trace.end('aborted');
    b.telemetry.settle();
    // 0 | 40 0 0 | 2: an aborted stream has no [DONE] to leave out.
    expect(b.telemetry.instanceLatency(D0.id).itlMs).toMatchObject({ n: 5, p50: 0, max: 40 });
    expect(b.telemetry.detail(R1)).toMatchObject({ row: { chunks: 6, itlMs: 0, state: 'aborted' }, chunkTimesMs: [5, 45, 46, 47], chunkBytes: [5, 5, 5, 5] });
    expect(b.telemetry.instanceLatency(D0.id).e2elMs).toBeUndefined();
  });

  it('moves the charts while it runs', () => {
    const b = bench();
    const trace = b.begin();
    sendLeg(trace, 'decode', D0);
    for (let count = 0; count < 10; count += 1) {
      b.clock.advance(100);
      trace.chunk(5, 1);
    }
    b.telemetry.settle();
    // Ten messages have nine gaps, of which the last two are held back.
    expect(b.telemetry.instanceLatency(D0.id).itlMs).toMatchObject({ n: 7, max: 100 });
    expect(b.telemetry.detail(R1)?.row).toMatchObject({ state: 'running', ttftMs: 100, chunks: 10 });
    expect(b.telemetry.detail(R1)?.row.e2elMs).toBeUndefined();
  });

  it('keeps the last 4096 writes and loses no gap of longer streams', () => {
    const b = bench();
    const trace = b.begin();
    const leg = sendLeg(trace, 'decode', D0);
    for (let count = 0; count < 10_000; count += 1) {
      b.clock.advance(1);
      trace.chunk(count, 1);
    }
    leg.end('ok');
    trace.end('ok');
    b.clock.advance(1000);
    b.telemetry.settle();
    b.telemetry.settle();
    expect(b.telemetry.instanceLatency(D0.id).itlMs?.n).toBe(9998);
    const detail = b.telemetry.detail(R1);
    expect(detail?.chunkTimesMs).toHaveLength(4096);
    expect(detail?.chunkTimesMs.at(-1)).toBe(10_000);
    expect(detail?.chunkBytes[0]).toBe(5904);
    expect(detail?.chunkTimesDropped).toBe(5904);
    expect(detail?.row.chunks).toBe(10_000);
  });
});

describe('a request that is not streamed', () => {
  it('has no TTFT, ITL or TPOT, but an end-to-end time', () => {
    const b = bench();
    const trace = b.begin({ isStream: false });
    const leg = sendLeg(trace, 'decode', D0);
    b.clock.advance(80);
    trace.responded(200);
    trace.chunk(500, 0);
    leg.facts({ usage: { completionTokens: 9 } });
    leg.end('ok');
    trace.end('ok');
    const row = b.telemetry.detail(R1)?.row;
    expect(row).toMatchObject({ e2elMs: 80, chunks: 0, completionTokens: 9, isStream: false });
    expect(row).not.toHaveProperty('ttftMs');
    expect(row).not.toHaveProperty('itlMs');
    expect(row).not.toHaveProperty('tpotMs');
    expect(b.telemetry.detail(R1)).not.toHaveProperty('ttft');
    expect(b.telemetry.instanceLatency(D0.id)).toEqual({ e2elMs: expect.objectContaining({ n: 1, max: 80 }) as object });
  });
});

describe('failures', () => {
  it('records the retry, the error of the leg and the route that served in the end', () => {
    const b = bench();
    const trace = b.begin();
    const error = { message: 'refused', code: 'connect_failed', leg: 'prefill' as const, instance: P0.id, instanceName: 'P0' };
    const first = sendLeg(trace, 'prefill', P0);
    b.clock.advance(5);
    first.end('error', error);
    trace.retried();
    sendLeg(trace, 'prefill', P1, { attempt: 2 }).end('ok');
    const decode = sendLeg(trace, 'decode', D0);
    decode.end('error', { ...error, leg: 'decode' });
    trace.responded(502);
    trace.end('error', { ...error, leg: 'decode' });
    const detail = b.telemetry.detail(R1);
    expect(detail?.row).toMatchObject({ state: 'error', status: 502, retries: 1, error: { code: 'connect_failed', leg: 'decode' } });
    expect(detail?.row.route.map((step) => step.name)).toEqual(['P1', 'D0']);
    expect(detail?.legs.map((leg) => [leg.instanceName, leg.attempt, leg.outcome])).toEqual([['P0', 1, 'error'], ['P1', 2, 'ok'], ['D0', 1, 'error']]);
    expect(b.telemetry.totals()).toMatchObject({ received: 1, running: 0, ok: 0, error: 1, aborted: 0, retries: 1, errors5m: 1, retries5m: 1 });
    expect(b.telemetry.instanceRates(P0.id).errors5m).toBe(1);
    expect(b.telemetry.instanceRates(P1.id).errors5m).toBe(0);
    b.clock.advance(301_000);
    expect(b.telemetry.totals()).toMatchObject({ error: 1, errors5m: 0, retries5m: 0 });
  });

  it('ignores what comes after the end', () => {
    const b = bench();
    const trace = b.begin();
    const leg = sendLeg(trace, 'decode', D0);
    leg.end('aborted');
    leg.end('error', { message: 'late', code: 'upstream_reset' });
    trace.end('aborted');
    trace.end('error', { message: 'late', code: 'upstream_reset' });
    expect(b.telemetry.detail(R1)).toMatchObject({ row: { state: 'aborted' }, legs: [{ outcome: 'aborted' }] });
    expect(b.telemetry.totals()).toMatchObject({ aborted: 1, error: 0, running: 0 });
  });
});

describe('rates', () => {
  it('are over complete seconds, and absent where nothing was ever seen', () => {
    const b = bench();
    for (let second = 0; second < 5; second += 1) {
      runStream(b, { prefillMs: 10, ttfbMs: 5, gaps: [1, 1] });
      b.telemetry.settle();
      b.clock.advance(1000 - 19);
    }
    expect(b.telemetry.totals()).toMatchObject({ requestsPerSecond: 1, chunksPerSecond: 4 });
    expect(b.telemetry.instanceRates(D0.id)).toEqual({ tokensPerSecond: 4, errors5m: 0 });
    expect(b.telemetry.instanceRates(P0.id)).toEqual({ tokensPerSecond: 100, errors5m: 0 });
    expect(b.telemetry.instanceRates(D1.id)).toEqual({ errors5m: 0 });
    expect(b.telemetry.instanceLatency(D1.id)).toEqual({});
    expect(b.telemetry.edges()).toEqual([
      { from: 'proxy', to: 'p0', requestsPerSecond: 1 },
      { from: 'p0', to: 'd0', requestsPerSecond: 1 },
    ]);
    b.clock.advance(30_000);
    expect(b.telemetry.edges()).toEqual([]);
    expect(b.telemetry.instanceRates(D0.id)).toEqual({ tokensPerSecond: 0, errors5m: 0 });
  });

  it('has no cached tokens before a leg reported any', () => {
    const b = bench();
    const trace = b.begin();
    const leg = sendLeg(trace, 'prefill', P0);
    leg.facts({ usage: { promptTokens: 10 } });
    leg.end('ok');
    b.telemetry.settle();
    expect(b.telemetry.promptTokens5m).toBeUndefined();
    expect(b.telemetry.cachedTokens5m).toBeUndefined();
  });
});

describe('series', () => {
  it('merges steps and the whole from the same seconds', () => {
    const b = bench();
    for (let second = 0; second < 20; second += 1) {
      b.telemetry.sample([{ ...D0, inFlight: second }, { ...P0, inFlight: 1 }]);
      runStream(b, { prefillMs: second < 10 ? 10 : 90, ttfbMs: 5, gaps: [1] });
      b.telemetry.settle();
      b.clock.advance(1000 - (second < 10 ? 18 : 98));
    }
    const result = b.telemetry.query({ metrics: ['prefillMs', 'inFlight', 'requests', 'tokensPerSecond', 'kvUsage'], instances: undefined, windowS: 60, stepS: 10 }, [P0, D0]);
    expect(result).toMatchObject({ windowS: 60, stepS: 10, nowUnixMs: ORIGIN_UNIX_MS + 20_000 });
    const of = (instance: string, metric: string) => result.series.find((series) => series.instance === instance && series.metric === metric);
    const prefill = of('p0', 'prefillMs');
    expect(prefill?.whole).toMatchObject({ n: 20, max: 90 });
    expect(prefill?.whole?.p50).toBeCloseTo(10, 0);
    expect(prefill?.whole?.p95).toBeGreaterThan(89);
    expect(prefill?.points.map((point) => [(point.atUnixMs - ORIGIN_UNIX_MS) / 1000, point.n])).toEqual([[0, 10], [10, 10]]);
    expect(prefill?.points[0]?.p99).toBeCloseTo(10, 0);
    expect(prefill?.points[1]?.p50).toBeCloseTo(90, -1);
    expect(of('d0', 'inFlight')?.points.map((point) => point.value)).toEqual([9, 19]);
    expect(of('d0', 'requests')?.points.map((point) => point.value)).toEqual([10, 10]);
    expect(of('d0', 'tokensPerSecond')?.points.map((point) => point.value)).toEqual([3, 3]);
    expect(of('p0', 'tokensPerSecond')?.points.map((point) => point.value)).toEqual([100, 100]);
    expect(of('d0', 'kvUsage')).toEqual({ instance: 'd0', instanceName: 'D0', metric: 'kvUsage', points: [] });
  });

  it('names an unknown instance, and forgets one that left for good', () => {
    const b = bench();
    runStream(b, { prefillMs: 10, ttfbMs: 5, gaps: [1] });
    expect(() => b.telemetry.query({ metrics: ['ttftMs'], instances: [D1.id], windowS: 60, stepS: 2 }, [D0])).toThrow('no instance "d1"');
    const late = b.begin();
    const leg = sendLeg(late, 'decode', D0);
    b.telemetry.forget(D0.id);
    leg.end('error', { message: 'removed', code: 'upstream_reset' });
    late.end('error');
    b.telemetry.settle();
    expect(b.telemetry.instanceLatency(D0.id)).toEqual({});
    expect([...b.telemetry.instanceStats()].map((stats) => stats.id)).toEqual(['p0']);
    expect(b.telemetry.fleetLatency().ttftMs?.n).toBe(1);
  });
});

describe('what is kept', () => {
  it('keeps bodies only when asked, cut to the limit, and shows no secret', () => {
    const b = bench({ captureLimitBytes: 8 });
    b.begin({ body: Buffer.from('0123456789') }).end('ok');
    expect(b.telemetry.detail(R1)).not.toHaveProperty('clientBody');
    b.telemetry.setCapture(true);
    expect(b.telemetry.isCapturing).toBe(true);
    const trace = b.begin({ body: Buffer.from('0123456789'), headers: { authorization: 'Bearer sk-1', 'X-API-Key': 'k', cookie: 'c', accept: ['a', 'b'], 'x-tokens': '5' }, traceparent: '00-a-b-01' });
    const leg = sendLeg(trace, 'decode', D0, {
      headers: { Authorization: 'Bearer sk-2' }, body: 'short', rewrites: [{ field: 'messages', from: 'x'.repeat(500), to: 'y' }],
      kvTransferParams: '{"remote_engine_id":"e","big":12345678901234567890}',
    });
    leg.headers(200, { 'set-cookie': ['a=1'], 'content-type': 'text/plain' });
    leg.facts({ body: Buffer.from('grüße!'), metrics: { queue_time_ms: 3, time_to_first_token_ms: null } });
    const detail = b.telemetry.detail('r2' as RecordId);
    expect(detail).toMatchObject({
      traceparent: '00-a-b-01',
      clientHeaders: { authorization: '[redacted]', 'X-API-Key': '[redacted]', cookie: '[redacted]', accept: 'a, b', 'x-tokens': '5' },
      clientBody: { text: '01234567', bytes: 10, isCut: true },
    });
    expect(detail?.legs[0]).toMatchObject({
      requestHeaders: { Authorization: '[redacted]' },
      responseHeaders: { 'set-cookie': '[redacted]', 'content-type': 'text/plain' },
      requestBody: { text: 'short', bytes: 5, isCut: false },
      responseBody: { text: 'grüße!', bytes: 8, isCut: false },
      kvTransferParamsSent: { remote_engine_id: 'e', big: '12345678901234567890' },
      engineMetrics: { queueMs: 3 },
      gaugesAtSend: { inFlight: 0 },
    });
    expect(detail?.legs[0]?.engineMetrics).not.toHaveProperty('timeToFirstTokenMs');
    expect(detail?.legs[0]?.rewrites[0]?.from).toHaveLength(200);
  });

  it('drops bodies, not requests, when too many are held', () => {
    const b = bench({ captureTotalBytes: 15 });
    b.telemetry.setCapture(true);
    b.begin({ body: Buffer.alloc(10) });
    const second = b.begin({ body: Buffer.alloc(10) });
    expect(b.telemetry.detail('r2' as RecordId)).not.toHaveProperty('clientBody');
    expect(b.telemetry.dropped).toBe(1);
    second.end('ok');
    expect(b.telemetry.totals().ok).toBe(1);
  });

  it('marks requests of pdscope itself and of simulated instances', () => {
    const b = bench();
    const trace = b.begin({ headers: { 'x-pdscope-probe': '1' } });
    sendLeg(trace, 'decode', fakeInstance('D9', 'decode', { isSimulated: true }));
    expect(b.telemetry.detail(R1)?.row).toMatchObject({ isOwnProbe: true, isSimulated: true });
  });

  it('keeps decisions with the time they were made', () => {
    const b = bench();
    const trace = b.begin();
    b.clock.advance(2);
    trace.decided({ kind: 'decode', policy: 'least-in-flight', chosen: D0.id, attempt: 1, candidates: [{ instance: D0.id, name: 'D0', score: 1, reason: '1 in flight' }], excluded: [] });
    expect(b.telemetry.detail(R1)?.decisions).toMatchObject([{ atMs: 2, chosen: 'd0', candidates: [{ score: 1 }] }]);
  });

  it('answers nothing for an unknown record', () => {
    expect(bench().telemetry.detail('r9' as RecordId)).toBeUndefined();
  });
});

describe('data-parallel ranks', () => {
  it('keeps the latency of each rank apart, and the whole of the instance together', () => {
    const setup = bench();
    const { telemetry, clock, begin } = setup;
    for (const [prefillRank, decodeRank, prefillMs, gapMs] of [[0, 1, 10, 5], [1, 1, 30, 7]] as const) {
      const trace = begin();
      const prefill = sendLeg(trace, 'prefill', P0, { rank: prefillRank });
      clock.advance(prefillMs);
      prefill.end('ok');
      const decode = sendLeg(trace, 'decode', D0, { rank: decodeRank });
      for (let chunk = 0; chunk < 5; chunk += 1) {
        clock.advance(gapMs);
        trace.chunk(10, 1);
      }
      decode.facts({ usage: { promptTokens: 10, completionTokens: 3 } });
      decode.end('ok');
      trace.end('ok');
    }
    telemetry.settle();
    expect([0, 1, 2].map((rank) => telemetry.rankLatency(P0.id, rank).prefillMs?.n)).toEqual([1, 1, undefined]);
    expect(telemetry.rankLatency(P0.id, 1).prefillMs?.p50).toBeCloseTo(30, 0);
    expect(telemetry.rankLatency(D0.id, 0)).toEqual({});
    const pinned = telemetry.rankLatency(D0.id, 1);
    expect([pinned.ttftMs?.n, pinned.e2elMs?.n, pinned.tpotMs?.n, pinned.itlMs?.n]).toEqual([2, 2, 2, telemetry.instanceLatency(D0.id).itlMs?.n]);
    expect(telemetry.instanceLatency(P0.id).prefillMs?.n).toBe(2);
  });
});

import { describe, expect, it } from 'vitest';
import type { KeptMiss } from '#engine/cache/kept-report.ts';
import type { KeptRecord } from '#engine/telemetry/kept-record.ts';
import type { RequestRecord } from '#engine/telemetry/request-record.ts';
import type { RequestTrace } from '#engine/telemetry/trace.ts';
import type { RecordId } from '#shared/ids.ts';
import { bench, D0, P0, runStream, sendLeg, type Bench } from './support.ts';

const R1 = 'r1' as RecordId;
/** Longer than a finished record stays as it was. */
const REST_MS = 6000;

const WHY: KeptMiss = {
  state: 'ready', leg: 0, bytes: 1000,
  report: {
    request: R1, state: 'ready', promptTokens: 100, blockSize: 16, matches: [], confidence: { value: 0.9, reasons: [] },
    ranges: [{ kind: 'never', fromBlock: 2, blocks: 4, tokens: 64, title: 'never stored' } as unknown as Extract<KeptMiss, { state: 'ready' }>['report']['ranges'][number]],
  },
  shares: [{ key: 'never', kind: 'never' as never, tokens: 64, title: 'never stored', place: { token: 3, lead: [1, 2], asked: [70_001, 5], held: [9] } }],
  held: { leg: 1, promptTokens: 100, heldTokens: 32, confidence: { value: 1, reasons: [] } },
};

/** A stream with everything that a record can hold. */
function eventful(b: Bench): RequestTrace {
  const trace = b.begin({ headers: { authorization: 'Bearer secret', 'x-many': ['a', 'b'], 'content-type': 'application/json' }, traceparent: '00-1-2-01', requestId: 'req-ü-多' });
  b.clock.advance(1.25);
  trace.decided({
    kind: 'prefill', policy: 'round-robin', chosen: P0.id, attempt: 1, excluded: [{ instance: D0.id, name: 'D0', reason: 'draining' }],
    candidates: [{ instance: P0.id, name: 'P0', score: 0.123456789, inFlight: 3 }],
  } as unknown as Parameters<RequestTrace['decided']>[0]);
  const prefill = sendLeg(trace, 'prefill', P0, { headers: { 'x-request-id': 'req' }, rewrites: [{ field: 'max_tokens', from: '100', to: '1' }] });
  b.clock.advance(20.5);
  prefill.headers(200, { 'content-type': 'application/json', 'set-cookie': ['secret'] });
  prefill.bytes(300);
  prefill.facts({ usage: { promptTokens: 100, cachedTokens: 40 }, kvTransferParams: '{"remote_block_ids":[1,2,3,4,9007199254740993],"do_remote_prefill":true}', metrics: { queue_time_ms: 1.5 }, body: '{"id":1}' });
  prefill.end('ok');
  trace.verdict({ code: 'cached-tokens-differ' as never, severity: 'warning', title: 'differs', message: 'a message', nextStep: 'look' } as unknown as Parameters<RequestTrace['verdict']>[0]);
  const decode = sendLeg(trace, 'decode', D0, { kvTransferParams: { remote_host: 'p0', remote_block_ids: [1, 2, 3] } });
  trace.responded(200);
  for (let chunk = 0; chunk < 12; chunk += 1) {
    b.clock.advance(12.3456);
    trace.chunk(180 + chunk, 1);
  }
  decode.facts({ usage: { completionTokens: 10 }, finishReason: 'stop' });
  decode.end('ok');
  trace.end('ok');
  return trace;
}

interface Seen {
  readonly rows: unknown;
  readonly detail: unknown;
  readonly explained: unknown;
  readonly brief: unknown;
}

/** All that can be asked about the only record. */
function look({ telemetry }: Bench): Seen {
  const records = Array.from(telemetry.records());
  const found = telemetry.find(R1);
  return {
    rows: Array.from(telemetry.log.rows()),
    detail: telemetry.detail(R1),
    explained: { legs: found?.legs.map(legOf), why: found?.why?.state === 'ready' ? { report: found.why.report, leg: found.why.leg } : found?.why },
    brief: records.map(({ id, n, isOwnProbe, init, legs, why }) => ({
      id, n, isOwnProbe, connector: init.connector, legs: legs.map(legOf),
      why: why?.state === 'ready' ? { shares: why.shares, leg: why.leg, held: why.held, promptTokens: why.report.promptTokens } : why,
    })),
  };
}

const legOf = ({ kind, usage, instance, transferParamsSent }: KeptRecord['legs'][number]): unknown => ({ kind, usage, instance: instance.id, hasParams: transferParamsSent !== undefined });

/** Sealed rows are read anew each time. */
const isSealed = ({ telemetry }: Bench): boolean => Array.from(telemetry.log.rows())[0] !== Array.from(telemetry.log.rows())[0];

describe('sealed records', () => {
  it.each([['without capture', false], ['with captured bodies', true]])('tell the same as before, %s', (_name, isCapturing) => {
    const b = bench();
    b.telemetry.setCapture(isCapturing);
    const trace = eventful(b) as RequestRecord;
    trace.why = WHY;
    trace.touch();
    const before = look(b);
    const change = b.telemetry.log.lastChange();
    expect(isSealed(b)).toBe(false);
    b.clock.advance(REST_MS);
    b.telemetry.settle();
    expect(isSealed(b)).toBe(true);
    expect(look(b)).toEqual(before);
    expect(b.telemetry.log.lastChange()).toBe(change);
    expect(Array.from(b.telemetry.log.changedSince(change - 1))).toEqual(before.rows);
    expect((b.telemetry.detail(R1)?.legs[0]?.responseBody?.text)).toBe(isCapturing ? '{"id":1}' : undefined);
  });

  it('take a fraction of the memory', () => {
    const b = bench();
    for (let count = 0; count < 100; count += 1) runStream(b, { prefillMs: 10, ttfbMs: 5, gaps: Array.from({ length: 50 }, () => 12), completionTokens: 50 });
    b.telemetry.settle();
    const before = b.telemetry.recordBytes;
    b.clock.advance(REST_MS);
    b.telemetry.settle();
    expect(b.telemetry.recordBytes).toBeLessThan(before / 4);
    expect(b.telemetry.recordBytes).toBeGreaterThan(100 * 400);
  });

  it('come back with what is told late, and are sealed again', () => {
    const b = bench();
    const trace = b.begin();
    const leg = sendLeg(trace, 'decode', D0);
    leg.end('ok');
    trace.end('ok');
    b.telemetry.settle();
    b.clock.advance(REST_MS);
    expect(isSealed(b)).toBe(true);
    const change = b.telemetry.log.lastChange();
    leg.facts({ usage: { completionTokens: 7 } });
    expect(Array.from(b.telemetry.log.changedSince(change), ({ completionTokens }) => completionTokens)).toEqual([7]);
    expect(isSealed(b)).toBe(false);
    b.clock.advance(REST_MS);
    b.telemetry.settle();
    expect(isSealed(b)).toBe(true);
    expect(b.telemetry.detail(R1)?.row.completionTokens).toBe(7);
  });

  it('take a report that was asked for later, and stay sealed and the same otherwise', () => {
    const b = bench();
    b.telemetry.setCapture(true);
    const trace = eventful(b) as RequestRecord;
    trace.why = { state: 'unavailable', reason: 'too many', isPending: false };
    b.telemetry.settle();
    b.clock.advance(REST_MS);
    b.telemetry.settle();
    expect(isSealed(b)).toBe(true);
    const [before, bytes] = [look(b), b.telemetry.recordBytes];
    if (WHY.state !== 'ready') throw new Error('no report');
    const opened: KeptMiss = { ...WHY, report: { ...WHY.report, isOpened: true }, shares: [] };
    b.telemetry.explain(R1, opened);
    expect(isSealed(b)).toBe(true);
    expect(b.telemetry.find(R1)?.why).toEqual({ state: 'ready', leg: 0, report: opened.report });
    expect(Array.from(b.telemetry.records())[0]?.why).toMatchObject({ state: 'ready', report: { isOpened: true }, shares: [] });
    expect(look(b)).toMatchObject({ rows: before.rows, detail: before.detail });
    expect(b.telemetry.recordBytes).toBeGreaterThan(bytes);
    b.telemetry.explain('r999' as RecordId, opened);
    // An open one takes it as its own.
    const running = b.begin() as RequestRecord;
    b.telemetry.explain(running.id, opened);
    expect(running.why).toBe(opened);
  });

  it('are not made of running legs, nor of requests that are being explained', () => {
    const b = bench();
    const trace = b.begin() as RequestRecord;
    const leg = sendLeg(trace, 'prefill', P0);
    trace.why = { state: 'unavailable', reason: 'being looked at', isPending: true };
    trace.end('aborted');
    b.telemetry.settle();
    b.clock.advance(REST_MS);
    expect(isSealed(b)).toBe(false);
    leg.end('aborted');
    b.clock.advance(REST_MS);
    expect(isSealed(b)).toBe(false);
    trace.why = { state: 'unavailable', reason: 'gave up', isPending: false };
    trace.touch();
    b.clock.advance(REST_MS);
    expect(isSealed(b)).toBe(false);
    b.clock.advance(REST_MS);
    expect(isSealed(b)).toBe(true);
    expect(b.telemetry.find(R1)?.why).toEqual({ state: 'unavailable', reason: 'gave up', isPending: false });
  });

  it('are evicted and cleared as others are, with their memory', () => {
    const b = bench({ requestCapacity: 3 });
    for (let count = 0; count < 5; count += 1) {
      runStream(b, { prefillMs: 1, ttfbMs: 1, gaps: [1] });
      b.clock.advance(REST_MS);
      b.telemetry.settle();
    }
    expect(Array.from(b.telemetry.log.numbers())).toEqual([3, 4, 5]);
    expect(b.telemetry.detail('r2' as RecordId)).toBeUndefined();
    expect(b.telemetry.log.counters()).toMatchObject({ kept: 3, evicted: 2 });
    expect(b.telemetry.log.clear()).toBe(3);
    expect(b.telemetry.recordBytes).toBe(0);
    expect(Array.from(b.telemetry.log.rows())).toEqual([]);
  });

  it('what cannot be packed stays as it was', () => {
    const b = bench();
    const trace = b.begin({ isStream: false });
    const leg = sendLeg(trace, 'decode', D0, { kvTransferParams: { when: new Date(0) } });
    leg.end('ok');
    trace.end('ok');
    b.telemetry.settle();
    b.clock.advance(REST_MS);
    expect(isSealed(b)).toBe(false);
    expect(b.telemetry.detail(R1)?.legs[0]?.kvTransferParamsSent).toEqual({ when: new Date(0) });
  });
});

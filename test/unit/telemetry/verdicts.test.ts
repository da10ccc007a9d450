import { describe, expect, it } from 'vitest';
import { Findings } from '#engine/findings/findings.ts';
import { parsePrometheusText } from '#engine/fleet/prometheus-text.ts';
import { createMetricsPage } from '#engine/telemetry/prometheus-page.ts';
import type { Verdict } from '#shared/findings.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import { bench, D0, P0, sendLeg } from './support.ts';

const R1 = 'r1' as RecordId;

function verdict(extra: Partial<Verdict> = {}): Verdict {
  return { code: 'late_read', severity: 'warning', title: 'Late', message: 'seen', nextStep: 'look', ...extra };
}

describe('verdicts on a request', () => {
  it('are kept with it and handed to the findings', () => {
    const findings = new Findings();
    const b = bench({ findings });
    const trace = b.begin({ requestId: 'abc', connector: 'nixl' });
    sendLeg(trace, 'prefill', P0);
    trace.verdict(verdict({ instance: P0.id, hop: 'prefill->proxy' }));
    trace.verdict(verdict({ code: 'worse', severity: 'error' }));
    trace.verdict(verdict({ code: 'small', severity: 'info' }));
    expect(b.telemetry.detail(R1)?.verdicts.map(({ code }) => code)).toEqual(['late_read', 'worse', 'small']);
    expect([...b.telemetry.log.rows()][0]?.findings).toEqual({ count: 3, worst: 'error' });
    expect(findings.list().findings.find(({ code }) => code === 'late_read')).toMatchObject({
      connector: 'nixl', instance: 'p0', instanceName: 'P0', evidence: [{ hop: 'prefill->proxy', request: { id: 'r1', n: 1, requestId: 'abc' } }],
    });
  });

  it('name their instance although no leg went to it, also when it left meanwhile', () => {
    const findings = new Findings();
    const b = bench({ findings, instanceName: (id) => (id === 'd7' ? 'D7' : undefined) });
    const trace = b.begin();
    trace.decided({
      kind: 'decode', policy: 'random', chosen: D0.id, attempt: 1, candidates: [{ instance: D0.id, name: 'D0', reason: '' }],
      excluded: [{ instance: 'd9' as InstanceId, name: 'D9', reason: 'down' }],
    });
    for (const instance of ['d0', 'd9', 'd7', 'gone']) trace.verdict(verdict({ instance: instance as InstanceId }));
    b.telemetry.settle();
    const names = Object.fromEntries(findings.list().findings.map(({ instance, instanceName }) => [instance, instanceName]));
    expect(names).toEqual({ d0: 'D0', d9: 'D9', d7: 'D7', gone: undefined });
  });

  it('are bounded per request, and all counted', () => {
    const findings = new Findings();
    const b = bench({ findings });
    const trace = b.begin();
    for (let count = 0; count < 100; count += 1) trace.verdict(verdict());
    trace.verdict(verdict({ severity: 'error' }));
    trace.end('ok');
    const detail = b.telemetry.detail(R1);
    expect(detail?.verdicts).toHaveLength(32);
    expect(detail?.row.findings).toEqual({ count: 101, worst: 'error' });
    expect(findings.list().findings[0]?.count).toBe(101);
  });

  it('count towards the memory of the history', () => {
    const evicted = (message: string): number => {
      const b = bench({ requestCapacity: 1000, maxRecordBytes: 100_000 });
      for (let count = 0; count < 20; count += 1) {
        const trace = b.begin();
        trace.verdict(verdict({ message }));
        trace.end('ok');
        b.telemetry.settle();
      }
      return b.telemetry.log.counters().evicted;
    };
    expect(evicted('short')).toBe(0);
    expect(evicted('x'.repeat(20_000))).toBe(16);
  });

  it('are counters on the Prometheus page', async () => {
    const findings = new Findings();
    const b = bench({ findings });
    const trace = b.begin();
    trace.verdict(verdict());
    trace.verdict(verdict({ code: 'pull_without_blocks', severity: 'error', effect: 'kills', isBlocked: true }));
    b.telemetry.settle();
    const rings = () => ({ requests: b.telemetry.log.counters(), kv: b.telemetry.log.counters() });
    const page = createMetricsPage({ telemetry: b.telemetry, fleet: { list: () => [] }, streams: () => [], rings, findings, version: '1' });
    const { samples } = parsePrometheusText((await page()).body);
    const of = (name: string) => samples.filter((sample) => sample.name === name).map(({ labels, value }) => ({ ...labels, value }));
    expect(of('pdscope_findings_total')).toEqual([
      { code: 'late_read', severity: 'warning', value: 1 },
      { code: 'pull_without_blocks', severity: 'error', value: 1 },
    ]);
    expect(of('pdscope_legs_blocked_total')).toEqual([{ code: 'pull_without_blocks', severity: 'error', value: 1 }]);
  });
});

describe('what says nothing about P/D', () => {
  it('a forwarded request: its leg and its events count, its times do not', () => {
    const b = bench();
    const trace = b.begin({ api: 'forward', path: '/v1/responses' });
    const leg = sendLeg(trace, 'forward', D0);
    b.clock.advance(30);
    leg.headers(200, {});
    for (let count = 0; count < 4; count += 1) {
      b.clock.advance(10);
      trace.chunk(10, 1);
    }
    leg.facts({ usage: { promptTokens: 7, completionTokens: 4 } });
    leg.end('ok');
    trace.end('ok');
    b.telemetry.settle();
    expect(b.telemetry.fleetLatency()).toEqual({});
    expect(b.telemetry.instanceLatency(D0.id)).toEqual({});
    const [stats] = [...b.telemetry.instanceStats()];
    expect(stats?.legMs.forward.n).toBe(1);
    const [row] = [...b.telemetry.log.rows()];
    expect(row).toMatchObject({ api: 'forward', path: '/v1/responses', state: 'ok', ttftMs: 40, e2elMs: 70, itlMs: 10, promptTokens: 7, completionTokens: 4, route: [{ kind: 'forward', name: 'D0' }] });
    expect(row?.phases.map(({ phase }) => phase)).toEqual(['unattributed']);
  });

  it('a stream made out of a whole answer: TTFT is what the client saw, its gaps are nobody\'s', () => {
    const b = bench();
    const trace = b.begin({ connector: 'nixl-bidirectional' });
    const leg = sendLeg(trace, 'decode', D0);
    b.clock.advance(100);
    leg.facts({ usage: { completionTokens: 3 } });
    leg.end('ok');
    b.clock.advance(1);
    for (let count = 0; count < 4; count += 1) trace.chunk(10, 1);
    trace.end('ok');
    b.telemetry.settle();
    expect(b.telemetry.instanceLatency(D0.id)).toMatchObject({ ttftMs: { n: 1, max: 101 }, e2elMs: { n: 1, max: 101 } });
    expect(b.telemetry.instanceLatency(D0.id)).not.toHaveProperty('itlMs');
    expect(b.telemetry.instanceLatency(D0.id)).not.toHaveProperty('tpotMs');
    const [row] = [...b.telemetry.log.rows()];
    expect(row).toMatchObject({ ttftMs: 101, chunks: 4 });
    expect(row).not.toHaveProperty('itlMs');
    expect(row).not.toHaveProperty('tpotMs');
  });

  it('rendering: its legs are in the route, before and after', () => {
    const b = bench();
    const trace = b.begin({ connector: 'render' });
    for (const kind of ['render', 'prefill', 'decode', 'render'] as const) {
      const leg = sendLeg(trace, kind, kind === 'prefill' ? P0 : D0);
      b.clock.advance(10);
      leg.end('ok');
    }
    trace.end('ok');
    const [row] = [...b.telemetry.log.rows()];
    expect(row?.route.map(({ kind, name }) => `${kind} ${name}`)).toEqual(['render D0', 'prefill P0', 'decode D0', 'render D0']);
    expect(row?.phases.map(({ phase, startMs, endMs }) => `${phase} ${startMs}-${endMs}`)).toEqual(['render 0-10', 'prefill 10-20', 'decode 20-30', 'render 30-40']);
  });

  it('an encode instance hands over to decode when there is no prefill', () => {
    const b = bench();
    const encode = { ...D0, id: 'e0' as InstanceId, name: 'E0', role: 'encode' as const };
    const trace = b.begin();
    sendLeg(trace, 'encode', encode).end('ok');
    sendLeg(trace, 'decode', D0);
    b.telemetry.settle();
    b.clock.advance(1000);
    expect(b.telemetry.edges().map(({ from, to }) => `${from} ${to}`)).toEqual(['proxy e0', 'e0 d0']);
  });
});

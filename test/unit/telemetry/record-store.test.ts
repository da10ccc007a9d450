import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import type { RequestTrace } from '#engine/telemetry/trace.ts';
import type { RecordId } from '#shared/ids.ts';
import { bench, D0, sendLeg } from './support.ts';

const ids = (rows: Iterable<{ readonly id: string }>): string[] => [...rows].map((row) => row.id);

describe('the history of requests', () => {
  it('evicts the oldest finished ones and never a running one', () => {
    const b = bench({ requestCapacity: 3 });
    const traces = Array.from({ length: 3 }, () => b.begin());
    traces[1]?.end('ok');
    traces[2]?.end('ok');
    b.telemetry.settle();
    b.begin();
    expect(ids(b.telemetry.log.rows())).toEqual(['r1', 'r3', 'r4']);
    b.begin();
    b.begin();
    expect(ids(b.telemetry.log.rows())).toEqual(['r1', 'r4', 'r5', 'r6']);
    expect(b.telemetry.log.counters()).toEqual({ kept: 4, capacity: 3, total: 6, evicted: 2, dropped: 0 });
    expect(b.telemetry.detail('r2' as RecordId)).toBeUndefined();
    traces[0]?.end('ok');
    b.telemetry.settle();
    expect(ids(b.telemetry.log.rows())).toEqual(['r4', 'r5', 'r6']);
  });

  it('evicts by memory, too', () => {
    const b = bench({ requestCapacity: 1000, maxRecordBytes: 500_000, captureLimitBytes: 100_000 });
    b.telemetry.setCapture(true);
    for (let count = 0; count < 10; count += 1) {
      b.begin({ body: Buffer.alloc(100_000) }).end('ok');
      b.telemetry.settle();
    }
    const { kept, evicted } = b.telemetry.log.counters();
    expect(kept).toBe(4);
    expect(evicted).toBe(6);
  });

  it('stops recording beyond a bound of running requests, serves them all the same, and counts', () => {
    const b = bench({ requestCapacity: 2 });
    const traces = Array.from({ length: 10 }, () => b.begin());
    const leg = sendLeg(traces[9] as RequestTrace, 'decode', D0);
    leg.end('ok');
    traces[9]?.end('ok');
    expect(b.telemetry.log.counters()).toMatchObject({ kept: 8, total: 8, dropped: 2 });
    expect(b.telemetry.dropped).toBe(2);
    expect(b.telemetry.totals()).toMatchObject({ received: 10, running: 8 });
  });

  it('bounds what engines put into transfer parameters', () => {
    const b = bench();
    const trace = b.begin();
    const leg = sendLeg(trace, 'decode', D0, { kvTransferParams: { remote_block_ids: Array.from({ length: 5000 }, (_, index) => index), deep: 'x'.repeat(9000) } });
    leg.end('ok');
    trace.end('ok');
    const params = b.telemetry.detail('r1' as RecordId)?.legs[0]?.kvTransferParamsSent as { remote_block_ids: unknown[] };
    expect(params.remote_block_ids.length).toBeLessThan(520);
    expect(params.remote_block_ids.at(-1)).toMatch(/^\.\.\. 4\d\d\d more$/);
    expect(JSON.stringify(params).length).toBeLessThan(8000);
  });

  it('clears finished records, keeps running ones, and tells readers', () => {
    const b = bench();
    b.begin();
    b.begin().end('ok');
    const change = b.telemetry.log.lastChange();
    expect(b.telemetry.log.clear()).toBe(1);
    expect(b.telemetry.log.generation()).toBe(1);
    expect(ids(b.telemetry.log.rows())).toEqual(['r1']);
    expect(b.telemetry.log.lastChange()).toBe(change);
    expect(b.telemetry.log.counters()).toMatchObject({ kept: 1, total: 2, evicted: 0 });
  });

  it('gives the same row object until the record changes', () => {
    const b = bench();
    const trace = b.begin();
    const [first] = [...b.telemetry.log.rows()];
    expect([...b.telemetry.log.rows()][0]).toBe(first);
    trace.responded(200);
    expect([...b.telemetry.log.rows()][0]).not.toBe(first);
  });
});

/** What a reader does: remembers the last change, asks for what came after, and upserts by id. */
describe('a reader that pulls', () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.constant({ kind: 'begin' as const }) },
    { weight: 8, arbitrary: fc.record({ kind: fc.constant('chunk' as const), at: fc.nat(20) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('end' as const), at: fc.nat(20) }) },
    { weight: 3, arbitrary: fc.constant({ kind: 'pull' as const }) },
    // Long enough for finished records to be sealed.
    { weight: 1, arbitrary: fc.constant({ kind: 'rest' as const }) },
  );

  it('sees every row as it is, in order of change, each once', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.boolean(), (steps, asksLastFirst) => {
        const b = bench({ requestCapacity: 8 });
        const traces: RequestTrace[] = [];
        const seen = new Map<string, { readonly chunks: number; readonly state: string }>();
        let change = 0;
        const pull = (): void => {
          const before = change;
          if (asksLastFirst) change = b.telemetry.log.lastChange();
          const rows = [...b.telemetry.log.changedSince(before)];
          if (!asksLastFirst) change = b.telemetry.log.lastChange();
          expect(new Set(ids(rows)).size).toBe(rows.length);
          for (const row of rows) seen.set(row.id, { chunks: row.chunks, state: row.state });
          for (const row of b.telemetry.log.rows()) expect(seen.get(row.id)).toEqual({ chunks: row.chunks, state: row.state });
          expect([...b.telemetry.log.changedSince(change)]).toEqual([]);
        };
        for (const action of steps) {
          b.clock.advance(1);
          if (action.kind === 'begin') traces.push(b.begin());
          else if (action.kind === 'chunk') traces[action.at]?.chunk(1, 1);
          else if (action.kind === 'end') traces[action.at]?.end('ok');
          else if (action.kind === 'rest') b.clock.advance(6000);
          else pull();
        }
        pull();
        const counters = b.telemetry.log.counters();
        expect(counters.kept + counters.evicted).toBe(counters.total);
        const running = [...b.telemetry.log.rows()].filter((row) => row.state === 'running').length;
        expect(counters.kept).toBeLessThanOrEqual(Math.max(8, running));
        expect(b.telemetry.totals().running).toBe(running);
      }),
    );
  });
});

import { fc } from '../../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { UpsertFeed } from '#engine/session/upsert-feed.ts';
import { finish, MemoryRowLog } from './memory-row-log.ts';

interface Row {
  readonly n: number;
  readonly state: 'running' | 'ok';
}

const isRunning = (row: Row): boolean => row.state === 'running';
const running = (n: number): Row => ({ n, state: 'running' });
const ok = (n: number): Row => ({ n, state: 'ok' });

describe('UpsertFeed', () => {
  it('names a row that was sent and no longer matches', () => {
    const log = new MemoryRowLog<Row>(100);
    log.append(running(1));
    log.append(running(2));
    const feed = new UpsertFeed({ log, matches: isRunning, limit: 50, maxRows: 400 });
    expect(finish(feed.snapshot()).rows).toEqual([running(1), running(2)]);
    log.change(ok(1));
    const delta = feed.delta();
    expect(delta?.unmatched).toEqual([1]);
    expect(delta?.rows).toEqual([]);
    expect(delta?.counters.matching).toBe(1);
  });

  it('says nothing of a row that never matched', () => {
    const log = new MemoryRowLog<Row>(100);
    const feed = new UpsertFeed({ log, matches: isRunning, limit: 50, maxRows: 400 });
    finish(feed.snapshot());
    log.append(running(1));
    log.change(ok(1));
    const delta = feed.delta();
    expect(delta?.unmatched).toBeUndefined();
    expect(delta?.rows).toEqual([]);
    expect(delta?.counters).toMatchObject({ total: 1, matching: 0 });
  });

  it('brings rows the subscriber has up to date before it adds new ones, over several deltas if need be', () => {
    const log = new MemoryRowLog<Row>(1000);
    for (let n = 1; n <= 6; n += 1) log.append(running(n));
    const feed = new UpsertFeed<Row>({ log, limit: 50, maxRows: 4 });
    finish(feed.snapshot());
    for (let n = 1; n <= 6; n += 1) log.change(ok(n));
    for (let n = 7; n <= 9; n += 1) log.append(running(n));
    const first = feed.delta();
    expect(first?.rows).toEqual([ok(1), ok(2), ok(3), ok(4)]);
    expect(first?.omitted).toBe(3);
    const second = feed.delta();
    expect(second?.rows).toEqual([ok(5), ok(6)]);
    expect(feed.delta()).toBeUndefined();
  });

  it('starts over after a clear with what survived it', () => {
    const log = new MemoryRowLog<Row>(100);
    log.append(ok(1));
    const feed = new UpsertFeed<Row>({ log, limit: 50, maxRows: 400 });
    finish(feed.snapshot());
    log.clear();
    log.append(running(2));
    const delta = feed.delta();
    expect(delta).toMatchObject({ cleared: true, rows: [running(2)] });
    expect(feed.delta()).toBeUndefined();
  });

  it('forgets evicted rows in `matching`', () => {
    const log = new MemoryRowLog<Row>(3);
    const feed = new UpsertFeed({ log, matches: isRunning, limit: 50, maxRows: 400 });
    finish(feed.snapshot());
    log.append(running(1));
    log.append(ok(2));
    for (let n = 3; n <= 5; n += 1) log.append(n === 4 ? ok(n) : running(n));
    expect(feed.delta()?.counters).toMatchObject({ kept: 3, evicted: 2, matching: 2 });
  });

  it('leaves a subscriber with exactly the matching rows, whatever happens in which order', () => {
    const step = fc.record({ t: fc.constantFrom('append', 'finish', 'delta', 'clear'), pick: fc.nat({ max: 30 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const log = new MemoryRowLog<Row>(1000);
        const feed = new UpsertFeed({ log, matches: isRunning, limit: 1000, maxRows: 400 });
        const seen = new Map<number, Row>();
        for (const row of finish(feed.snapshot()).rows) seen.set(row.n, row);
        let last = 0;
        const apply = (): void => {
          const delta = feed.delta();
          if (delta === undefined) return;
          if (delta.cleared === true) seen.clear();
          for (const row of delta.rows) seen.set(row.n, row);
          for (const n of delta.unmatched ?? []) seen.delete(n);
        };
        for (const { t, pick } of steps) {
          if (t === 'append') log.append(running((last += 1)));
          else if (t === 'finish' && last > 0) log.change(ok((pick % last) + 1));
          else if (t === 'clear') log.clear();
          else apply();
        }
        apply();
        const expected = Array.from(log.rows()).filter(isRunning).map(({ n }) => n);
        expect(Array.from(seen.keys()).sort((a, b) => a - b)).toEqual(expected);
      }),
    );
  });
});

import { fc } from '../../../support/properties.ts';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { AppendFeed } from '#engine/session/append-feed.ts';
import { finish, MemoryRowLog } from './memory-row-log.ts';

interface Row {
  readonly n: number;
  readonly kind: 'a' | 'b';
}

const isA = (row: Row): boolean => row.kind === 'a';
const row = (n: number): Row => ({ n, kind: n % 2 === 1 ? 'a' : 'b' });
const numbers = (rows: readonly Row[]): readonly number[] => rows.map(({ n }) => n);

function fill(log: MemoryRowLog<Row>, from: number, to: number): void {
  for (let n = from; n <= to; n += 1) log.append(row(n));
}

afterEach(() => {
  vi.useRealTimers();
});

describe('AppendFeed', () => {
  it('starts with the newest rows up to the limit, with the counters of that instant', () => {
    const log = new MemoryRowLog<Row>(100);
    fill(log, 1, 250);
    const feed = new AppendFeed({ log, limit: 3, maxRows: 400 });
    const { rows, counters } = finish(feed.snapshot());
    expect(numbers(rows)).toEqual([248, 249, 250]);
    expect(counters).toEqual({ total: 250, kept: 100, evicted: 150, dropped: 0, matching: 100 });
  });

  it('answers nothing until something happened, then exactly that', () => {
    const log = new MemoryRowLog<Row>(100);
    fill(log, 1, 4);
    const feed = new AppendFeed({ log, limit: 10, maxRows: 400 });
    finish(feed.snapshot());
    expect(feed.delta()).toBeUndefined();
    fill(log, 5, 6);
    expect(numbers(feed.delta()?.rows ?? [])).toEqual([5, 6]);
    expect(feed.delta()).toBeUndefined();
  });

  it('sends the newest of a flood and counts the rest, reading no more than it sends', () => {
    const log = new MemoryRowLog<Row>(10_000);
    const feed = new AppendFeed({ log, limit: 5000, maxRows: 400 });
    finish(feed.snapshot());
    fill(log, 1, 3000);
    log.reads = 0;
    const delta = feed.delta();
    expect(delta?.rows.length).toBe(400);
    expect(delta?.rows.at(-1)?.n).toBe(3000);
    expect(delta?.omitted).toBe(2600);
    expect(log.reads).toBe(400);
  });

  it('counts what was evicted before it was looked at as omitted', () => {
    const log = new MemoryRowLog<Row>(10);
    const feed = new AppendFeed({ log, matches: isA, limit: 5000, maxRows: 400 });
    finish(feed.snapshot());
    fill(log, 1, 100);
    const delta = feed.delta();
    expect(numbers(delta?.rows ?? [])).toEqual([91, 93, 95, 97, 99]);
    expect(delta?.omitted).toBe(90);
  });

  it('tells of a clear once and goes on with what came after it', () => {
    const log = new MemoryRowLog<Row>(100);
    fill(log, 1, 10);
    const feed = new AppendFeed({ log, matches: isA, limit: 50, maxRows: 400 });
    finish(feed.snapshot());
    log.clear();
    fill(log, 11, 13);
    const delta = feed.delta();
    expect(delta?.cleared).toBe(true);
    expect(numbers(delta?.rows ?? [])).toEqual([11, 13]);
    expect(delta?.counters.matching).toBe(2);
    expect(feed.delta()).toBeUndefined();
  });

  it('holds the event loop for a slice at most, however long a filter takes for a row', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const log = new MemoryRowLog<Row>(100);
    fill(log, 1, 20);
    const matches = (one: Row): boolean => {
      vi.advanceTimersByTime(1);
      return isA(one);
    };
    const feed = new AppendFeed({ log, matches, limit: 50, maxRows: 400 });
    const steps = feed.snapshot();
    expect([steps.next().done, log.reads]).toEqual([false, 5]);
    expect(numbers(finish(steps).rows)).toEqual([1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    fill(log, 21, 30);
    const found = [feed.delta(), feed.delta(), feed.delta()].map((delta) => delta === undefined ? undefined : numbers(delta.rows));
    expect(found).toEqual([[21, 23, 25], [27, 29], undefined]);
  });

  it('tells of counters that moved without a row', () => {
    const log = new MemoryRowLog<Row>(100);
    const feed = new AppendFeed({ log, limit: 50, maxRows: 400 });
    finish(feed.snapshot());
    log.dropped = 7;
    expect(feed.delta()).toMatchObject({ rows: [], counters: { dropped: 7 } });
  });

  it('keeps `matching` equal to a recount, whatever is appended, evicted and cleared', () => {
    const step = fc.oneof(
      fc.record({ t: fc.constant('append' as const), count: fc.integer({ min: 1, max: 40 }) }),
      fc.constant({ t: 'clear' as const, count: 0 }),
      fc.constant({ t: 'delta' as const, count: 0 }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), fc.integer({ min: 1, max: 60 }), (steps, capacity) => {
        const log = new MemoryRowLog<Row>(capacity);
        const feed = new AppendFeed({ log, matches: isA, limit: 50, maxRows: 5 });
        finish(feed.snapshot());
        let n = 0;
        let told = 0;
        let wrong = false;
        for (const { t, count } of steps) {
          if (t === 'append') for (let i = 0; i < count; i += 1) log.append(row((n += 1)));
          else if (t === 'clear') log.clear();
          else {
            told = feed.delta()?.counters.matching ?? told;
            wrong ||= told !== Array.from(log.rows()).filter(isA).length;
          }
        }
        expect(wrong).toBe(false);
      }),
    );
  });
});

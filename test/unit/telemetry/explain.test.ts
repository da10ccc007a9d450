import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { explainTtft, phasesOf, type Timeline, type TimelineLeg } from '#engine/telemetry/explain.ts';

function leg(kind: TimelineLeg['kind'], sentMs: number, endMs: number | undefined, extra: Partial<TimelineLeg> = {}): TimelineLeg {
  return { kind, sentMs, endMs, outcome: endMs === undefined ? 'running' : 'ok', queueMs: undefined, computeMs: undefined, hasTransferParams: false, ...extra };
}

function timeline(legs: readonly TimelineLeg[], firstChunkMs?: number, endMs?: number): Timeline {
  return { legs, firstChunkMs, lastChunkMs: firstChunkMs, endMs };
}

const brief = (value: Timeline): string => phasesOf(value).map((span) => `${span.phase} ${span.startMs}-${span.endMs}${span.isExact ? '' : '~'}`).join(', ');

describe('phasesOf', () => {
  it('knows only the ends of legs when engines report nothing', () => {
    expect(brief(timeline([leg('prefill', 2, 52), leg('decode', 53, 200)], 73, 200))).toBe('proxy 0-2, prefill 2-52, handoff 52-53, unattributed 53-73~, decode 73-200');
  });

  it('splits the prefill leg and the way to the first chunk by what the engines report', () => {
    const legs = [leg('prefill', 2, 52, { queueMs: 10, computeMs: 35 }), leg('decode', 53, 200, { queueMs: 8, computeMs: 9, hasTransferParams: true })];
    expect(brief(timeline(legs, 73, 200))).toBe(
      'proxy 0-2, prefill-queue 2-12~, prefill-compute 12-47~, prefill 47-52~, handoff 52-53, kv-wait 53-61~, unattributed 61-64~, first-step 64-73~, decode 73-200',
    );
  });

  it('calls the queue of decode a queue when no KV was to be fetched', () => {
    expect(brief(timeline([leg('decode', 1, 50, { queueMs: 4, computeMs: 5 })], 20, 50))).toBe('proxy 0-1, decode-queue 1-5~, unattributed 5-15~, prefill-compute 15-20~, decode 20-50');
  });

  it('does not believe reports longer than what was observed', () => {
    const legs = [leg('prefill', 0, 10, { queueMs: 8, computeMs: 8 }), leg('decode', 10, 40, { queueMs: 5, computeMs: 90 })];
    expect(brief(timeline(legs, 20, 40))).toBe('prefill 0-10, unattributed 10-20~, decode 20-40');
  });

  it('shows a request that skipped prefill, and one that is not streamed', () => {
    expect(brief(timeline([leg('decode', 1, 90)], 30, 90))).toBe('proxy 0-1, unattributed 1-30~, decode 30-90');
    expect(brief(timeline([leg('decode', 1, 90)], undefined, 91))).toBe('proxy 0-1, decode 1-90, proxy 90-91');
    expect(brief(timeline([leg('decode', 1, 90, { queueMs: 9, computeMs: 20 })], undefined, 90))).toBe('proxy 0-1, decode-queue 1-10~, prefill-compute 10-30~, decode 30-90~');
  });

  it('shows retries of either leg', () => {
    const legs = [leg('prefill', 1, 5, { outcome: 'error' }), leg('prefill', 6, 20), leg('decode', 21, 30, { outcome: 'error' }), leg('decode', 32, 99)];
    expect(brief(timeline(legs, 50, 99))).toBe('proxy 0-1, prefill 1-5, proxy 5-6, prefill 6-20, handoff 20-21, unattributed 21-30~, proxy 30-32, unattributed 32-50~, decode 50-99');
  });

  it('shows refusals, failures and aborts as far as they got', () => {
    expect(brief(timeline([], undefined, 3))).toBe('proxy 0-3');
    expect(brief(timeline([leg('prefill', 1, 9, { outcome: 'error' })], undefined, 10))).toBe('proxy 0-1, prefill 1-9, proxy 9-10');
    expect(brief(timeline([leg('prefill', 1, 9), leg('decode', 10, 15, { outcome: 'aborted' })], undefined, 15))).toBe('proxy 0-1, prefill 1-9, handoff 9-10, unattributed 10-15~');
  });

  it('shows running requests up to what was observed, without guessing an end', () => {
    expect(brief(timeline([]))).toBe('');
    expect(brief(timeline([leg('prefill', 1, undefined)]))).toBe('proxy 0-1');
    expect(brief(timeline([leg('prefill', 1, 9), leg('decode', 10, undefined)]))).toBe('proxy 0-1, prefill 1-9, handoff 9-10');
    expect(brief({ ...timeline([leg('prefill', 1, 9), leg('decode', 10, undefined)], 20), lastChunkMs: 33 })).toBe('proxy 0-1, prefill 1-9, handoff 9-10, unattributed 10-20~, decode 20-33');
  });

  it('keeps concurrent legs apart: decode is explained from the end of prefill on', () => {
    expect(brief(timeline([leg('prefill', 1, 40), leg('decode', 1.5, 99)], 50, 99))).toBe('proxy 0-1, prefill 1-40, unattributed 40-50~, decode 50-99');
    expect(brief(timeline([leg('encode', 1, 10), leg('encode', 1, 12), leg('prefill', 13, 20), leg('decode', 21, 60)], 30, 60))).toBe(
      'proxy 0-1, encode 1-12, proxy 12-13, prefill 13-20, handoff 20-21, unattributed 21-30~, decode 30-60',
    );
  });
});

describe('legs side by side', () => {
  const prefill = leg('prefill', 1, 40, { queueMs: 10, computeMs: 25, hasTransferParams: true });

  it('gives the time to prefill while it runs, then to the wait for its KV', () => {
    const decode = leg('decode', 1.5, 99, { queueMs: 44, computeMs: 3, hasTransferParams: true });
    expect(brief(timeline([prefill, decode], 50, 99))).toBe(
      'proxy 0-1, prefill-queue 1-11~, prefill-compute 11-36~, prefill 36-40~, kv-wait 40-45.5~, unattributed 45.5-47~, first-step 47-50~, decode 50-99',
    );
    expect(explainTtft(timeline([prefill, decode], 50, 99))?.unattributedMs).toBe(1.5);
  });

  it('does so whichever leg was sent first', () => {
    const decode = leg('decode', 1, 99, { queueMs: 44, computeMs: 3, hasTransferParams: true });
    const later = leg('prefill', 1.5, 40, { hasTransferParams: true });
    expect(brief(timeline([decode, later], 50, 99))).toBe('proxy 0-1, prefill 1-40, kv-wait 40-45~, unattributed 45-47~, first-step 47-50~, decode 50-99');
    expect(brief(timeline([leg('decode', 1, undefined), leg('prefill', 1.5, undefined)]))).toBe('proxy 0-1');
  });

  it('ends prefill with the first token when its answer comes later', () => {
    expect(brief(timeline([leg('prefill', 1, 60), leg('decode', 1, 99, { hasTransferParams: true })], 50, 99))).toBe('proxy 0-1, prefill 1-50, decode 50-99');
  });

  it('shows the part that was observed when prefill failed and decode was cancelled', () => {
    const legs = [leg('prefill', 1, 20, { outcome: 'error' }), leg('decode', 1.5, 20, { outcome: 'aborted', hasTransferParams: true })];
    expect(brief(timeline(legs, undefined, 21))).toBe('proxy 0-1, prefill 1-20, proxy 20-21');
  });

  it('takes encode legs as one stretch', () => {
    const legs = [leg('encode', 1, 30), leg('encode', 1.2, 12), leg('encode', 1.4, 41), leg('prefill', 42, 60), leg('decode', 61, 99)];
    expect(brief(timeline(legs, 70, 99))).toBe('proxy 0-1, encode 1-41, proxy 41-42, prefill 42-60, handoff 60-61, unattributed 61-70~, decode 70-99');
  });
});

describe('other kinds of runs', () => {
  it('shows rendering before prefill and after decode', () => {
    const legs = [leg('render', 1, 4), leg('prefill', 5, 20), leg('decode', 21, 60), leg('render', 61, 63)];
    expect(brief(timeline(legs, undefined, 64))).toBe('proxy 0-1, render 1-4, proxy 4-5, prefill 5-20, handoff 20-21, decode 21-60, proxy 60-61, render 61-63, proxy 63-64');
  });

  it('counts the compute of a decode leg without handoff as prefill', () => {
    const own = { queueMs: 2, computeMs: 30 };
    const asked = leg('prefill', 1, 10, { hasTransferParams: true });
    expect(brief(timeline([asked, leg('decode', 11, 90, own)], 50, 90))).toContain('decode-queue 11-13~, unattributed 13-20~, prefill-compute 20-50~');
    // Without parameters at all the pair finds its KV in a shared store.
    expect(brief(timeline([leg('prefill', 1, 10), leg('decode', 11, 90, own)], 50, 90))).toContain('first-step 20-50~');
    expect(brief(timeline([leg('prefill', 1, 10, { outcome: 'error' }), leg('decode', 11, 90, own)], 50, 90))).toContain('prefill-compute 20-50~');
  });

  it('shows the whole answer before a stream made of it, and counts it towards TTFT', () => {
    const legs = [leg('prefill', 1, 10, { hasTransferParams: true }), leg('decode', 11, 80, { queueMs: 4, computeMs: 5, hasTransferParams: true })];
    const value = timeline(legs, 82, 85);
    expect(brief(value)).toBe('proxy 0-1, prefill 1-10, handoff 10-11, kv-wait 11-15~, first-step 15-20~, decode 20-80~, proxy 80-85');
    expect(explainTtft(value)).toMatchObject({ totalMs: 82, unattributedMs: 0 });
    expect(explainTtft(value)?.parts.find(({ phase }) => phase === 'decode')?.ms).toBe(60);
  });

  it('does not guess what an instance does with a forwarded request', () => {
    expect(brief(timeline([leg('forward', 1, 30)], 10, 31))).toBe('proxy 0-1, unattributed 1-30~, proxy 30-31');
  });
});

describe('explainTtft', () => {
  it('sums to the total with the rest shown', () => {
    const legs = [leg('prefill', 2, 52, { queueMs: 10, computeMs: 35 }), leg('decode', 53, 200, { queueMs: 8, computeMs: 9, hasTransferParams: true })];
    expect(explainTtft(timeline(legs, 73, 200))).toEqual({
      totalMs: 73,
      parts: [
        { phase: 'proxy', ms: 2, isExact: true },
        { phase: 'prefill-queue', ms: 10, isExact: false },
        { phase: 'prefill-compute', ms: 35, isExact: false },
        { phase: 'prefill', ms: 5, isExact: false },
        { phase: 'handoff', ms: 1, isExact: true },
        { phase: 'kv-wait', ms: 8, isExact: false },
        { phase: 'first-step', ms: 9, isExact: false },
      ],
      unattributedMs: 3,
    });
  });

  it('is absent without a first chunk', () => {
    expect(explainTtft(timeline([leg('decode', 1, 90)], undefined, 90))).toBeUndefined();
  });
});

describe('any timeline', () => {
  const ms = fc.double({ min: 0, max: 1000, noNaN: true });
  const anyLeg = fc
    .record({
      kind: fc.constantFrom('encode' as const, 'render' as const, 'prefill' as const, 'decode' as const, 'forward' as const),
      sentMs: ms, lengthMs: ms, outcome: fc.constantFrom('running' as const, 'ok' as const, 'error' as const, 'aborted' as const),
      queueMs: fc.option(ms, { nil: undefined }), computeMs: fc.option(ms, { nil: undefined }), hasTransferParams: fc.boolean(),
    })
    .map(({ lengthMs, ...rest }): TimelineLeg => ({ ...rest, endMs: rest.outcome === 'running' ? undefined : rest.sentMs + lengthMs }));
  const anyTimeline = fc
    .record({ legs: fc.array(anyLeg, { maxLength: 6 }), firstChunkMs: fc.option(ms, { nil: undefined }), endMs: fc.option(fc.double({ min: 1000, max: 3000, noNaN: true }), { nil: undefined }) })
    .map((value): Timeline => ({ ...value, lastChunkMs: value.firstChunkMs, legs: value.legs.toSorted((a, b) => a.sentMs - b.sentMs) }));

  it('is cut into spans that follow each other from zero', () => {
    fc.assert(
      fc.property(anyTimeline, (value) => {
        let cursor = 0;
        for (const span of phasesOf(value)) {
          expect(span.startMs).toBe(cursor);
          expect(span.endMs).toBeGreaterThan(span.startMs);
          cursor = span.endMs;
        }
      }),
    );
  });

  it('has parts and a rest that add up to TTFT, none of them negative', () => {
    fc.assert(
      fc.property(anyTimeline, (value) => {
        const breakdown = explainTtft(value);
        if (breakdown === undefined) return;
        const sum = breakdown.parts.reduce((total, part) => total + part.ms, 0);
        expect(sum + breakdown.unattributedMs).toBeCloseTo(breakdown.totalMs, 9);
        expect(breakdown.unattributedMs).toBeGreaterThanOrEqual(0);
        expect(breakdown.parts.every((part) => part.ms > 0)).toBe(true);
      }),
    );
  });
});

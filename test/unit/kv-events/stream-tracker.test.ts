import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { StreamTracker, type Verdict } from '#engine/kv-events/stream-tracker.ts';

const at = (tsUnixMs: number | undefined, isReconnected = false) => ({ tsUnixMs, isReconnected, receivedAtUnixMs: tsUnixMs ?? 0 });
/** Received at `receivedAtUnixMs`, whatever its own clock says. */
const received = (receivedAtUnixMs: number, tsUnixMs: number | undefined) => ({ tsUnixMs, isReconnected: false, receivedAtUnixMs });
const HOUR_MS = 3_600_000;

/** Judges a batch and applies it, as a subscriber without a replay does: what is missing is lost. */
function observe(tracker: StreamTracker, seq: number, hints: ReturnType<typeof at>): Verdict {
  const verdict = tracker.judge(seq, hints);
  if (verdict.kind === 'duplicate') {
    tracker.duplicateBatches += 1;
    return verdict;
  }
  if (verdict.kind === 'stray') return verdict;
  if (verdict.kind === 'restart') tracker.begin(0);
  const again = verdict.kind === 'restart' ? tracker.judge(seq, hints) : verdict;
  if (again.kind === 'gap') {
    tracker.found(again.gap);
    tracker.settle(0, again.gap.to - again.gap.from + 1);
    tracker.skipTo(seq);
  }
  tracker.accept(seq, hints);
  return verdict;
}

describe('StreamTracker', () => {
  it('knows at first contact whether it saw the start', () => {
    const fromStart = new StreamTracker();
    expect(fromStart.lastSeq).toBeUndefined();
    expect(observe(fromStart, 0, at(1))).toEqual({ kind: 'next' });
    expect(fromStart).toMatchObject({ sawStart: true, epoch: 1, lastSeq: 0, gaps: 0, firstSeq: 0 });
    const late = new StreamTracker();
    expect(observe(late, 400, at(1))).toEqual({ kind: 'next' });
    expect(late).toMatchObject({ sawStart: false, epoch: 1, lastSeq: 400, missedBatches: 0, firstSeq: 400 });
  });

  it('reports the range of a gap, without counting it twice when asked twice', () => {
    const tracker = new StreamTracker();
    observe(tracker, 4, at(1));
    expect(tracker.judge(9, at(2))).toEqual({ kind: 'gap', gap: { from: 5, to: 8, epoch: 1 } });
    expect(observe(tracker, 9, at(2))).toEqual({ kind: 'gap', gap: { from: 5, to: 8, epoch: 1 } });
    expect(observe(tracker, 10, at(3))).toEqual({ kind: 'next' });
    expect(tracker).toMatchObject({ gaps: 1, missedBatches: 4, missedLost: 4, missedFilled: 0, gapsFilled: 0, lastSeq: 10 });
  });

  it('settles a gap as filled, partly filled or lost', () => {
    const tracker = new StreamTracker();
    tracker.found({ from: 5, to: 8, epoch: 1 });
    tracker.settle(4, 0);
    tracker.found({ from: 10, to: 12, epoch: 1 });
    tracker.settle(1, 2);
    expect(tracker).toMatchObject({ gaps: 2, gapsFilled: 1, missedBatches: 7, missedFilled: 5, missedLost: 2 });
  });

  it('takes a step back with an older or equal clock for a duplicate', () => {
    const tracker = new StreamTracker();
    observe(tracker, 2, at(40));
    observe(tracker, 5, at(100));
    expect(observe(tracker, 5, at(100))).toEqual({ kind: 'duplicate' });
    expect(observe(tracker, 3, at(50))).toEqual({ kind: 'duplicate' });
    expect(observe(tracker, 2, at(40))).toEqual({ kind: 'duplicate' });
    expect(observe(tracker, 2, at(undefined))).toEqual({ kind: 'duplicate' });
    expect(tracker).toMatchObject({ duplicateBatches: 4, lastSeq: 5, epoch: 1 });
  });

  it('takes a step back with a newer clock for a restart', () => {
    const tracker = new StreamTracker();
    observe(tracker, 7, at(100));
    expect(observe(tracker, 0, at(101))).toEqual({ kind: 'restart', lastSeq: 7, reason: 'its clock is newer' });
    expect(tracker).toMatchObject({ epoch: 2, sawStart: true, lastSeq: 0, gaps: 0 });
  });

  it('counts what was missed of the new life', () => {
    const tracker = new StreamTracker();
    observe(tracker, 7, at(100));
    expect(observe(tracker, 3, at(101)).kind).toBe('restart');
    expect(tracker).toMatchObject({ sawStart: false, gaps: 1, missedBatches: 3, missedLost: 3, epoch: 2 });
  });

  it('believes a new connection where the clock stepped back, but not about a batch that it has', () => {
    const tracker = new StreamTracker();
    observe(tracker, 7, at(100));
    expect(observe(tracker, 7, at(100, true))).toEqual({ kind: 'duplicate' });
    expect(observe(tracker, 0, at(50, true))).toMatchObject({ kind: 'restart', reason: 'after a new connection' });
    // The new life's own clock counts from here on.
    expect(observe(tracker, 0, at(50))).toEqual({ kind: 'duplicate' });
    expect(observe(tracker, 1, at(51))).toEqual({ kind: 'next' });
  });

  it('does not take a new connection alone for a restart', () => {
    const tracker = new StreamTracker();
    observe(tracker, 7, at(100));
    expect(observe(tracker, 9, at(101, true))).toMatchObject({ kind: 'gap', gap: { from: 8, to: 8, epoch: 1 } });
  });

  it('counts from where a replay was asked for', () => {
    const tracker = new StreamTracker();
    tracker.begin(2);
    expect(tracker.anchorSeq).toBeUndefined();
    expect(observe(tracker, 5, at(1))).toEqual({ kind: 'gap', gap: { from: 2, to: 4, epoch: 1 } });
    expect(tracker.anchorSeq).toBe(5);
  });

  it('remembers the clocks of the newest batches, and of no batch that it does not have', () => {
    const tracker = new StreamTracker();
    for (let seq = 0; seq < 1100; seq += 1) observe(tracker, seq, at(1000 + seq));
    expect([tracker.tsOf(1099), tracker.tsOf(76), tracker.tsOf(75), tracker.tsOf(1100)]).toEqual([2099, 1076, undefined, undefined]);
    observe(tracker, 1103, at(9000));
    expect([tracker.tsOf(1099), tracker.tsOf(1101), tracker.tsOf(1103)]).toEqual([2099, undefined, 9000]);
    tracker.begin(0);
    expect(tracker.tsOf(0)).toBeUndefined();
  });

  it('makes first contact anew after it was disowned', () => {
    const tracker = new StreamTracker();
    observe(tracker, 7, at(100));
    tracker.disown();
    expect(tracker).toMatchObject({ expected: undefined, anchorSeq: undefined, lastSeq: undefined, sawStart: false });
    expect(observe(tracker, 3, at(50))).toEqual({ kind: 'next' });
    expect(tracker).toMatchObject({ epoch: 2, firstSeq: 3, gaps: 0 });
  });

  it('knows a restart after a batch whose clock was ahead, wherever that batch was', () => {
    for (const ahead of [0, 1, 7, 8, 9]) {
      const tracker = new StreamTracker();
      for (let seq = 0; seq < 10; seq += 1) observe(tracker, seq, received(1000 + seq, 1000 + seq + (seq === ahead ? HOUR_MS : 0)));
      expect(observe(tracker, 9, received(1015, 1009 + (ahead === 9 ? HOUR_MS : 0)))).toEqual({ kind: 'duplicate' });
      expect(observe(tracker, 0, received(1020, 1020))).toMatchObject({ kind: 'restart', lastSeq: 9 });
      expect(observe(tracker, 1, received(1021, 1021))).toEqual({ kind: 'next' });
      expect(tracker).toMatchObject({ epoch: 2, lastSeq: 1, duplicateBatches: 1, strayBatches: 0 });
    }
  });

  it('knows a restart after a life whose clock was ahead all the time', () => {
    const tracker = new StreamTracker();
    for (let seq = 0; seq < 2000; seq += 1) observe(tracker, seq, received(1000 + seq, 1000 + seq + HOUR_MS));
    expect(observe(tracker, 0, received(5000, 5000))).toMatchObject({ kind: 'restart' });
  });

  it('takes no batch for another life because one after it had a time from nowhere', () => {
    for (const nowhere of [-HOUR_MS, HOUR_MS]) {
      const tracker = new StreamTracker();
      // The first ones are remembered no more.
      for (let seq = 0; seq < 2000; seq += 1) observe(tracker, seq, received(10_000 + seq, 10_000 + seq + (seq === 1990 ? nowhere : 0)));
      expect(observe(tracker, 300, received(13_000, 10_300))).toEqual({ kind: 'duplicate' });
      expect(observe(tracker, 1995, received(13_000, 11_995))).toEqual({ kind: 'duplicate' });
    }
  });

  it('takes batches that waited here while newer ones were replayed for duplicates, though those are ahead of when they came', () => {
    const tracker = new StreamTracker();
    for (let seq = 0; seq < 3000; seq += 1) observe(tracker, seq, received(60_000, 10 * seq));
    expect(observe(tracker, 100, received(1010, 1000))).toEqual({ kind: 'duplicate' });
  });

  it('does not take batches for duplicates that are none, and cannot tell their life', () => {
    const tracker = new StreamTracker();
    for (let seq = 5; seq < 10; seq += 1) observe(tracker, seq, received(HOUR_MS + seq, HOUR_MS + seq));
    // Its clock was put back an hour.
    expect(observe(tracker, 0, received(HOUR_MS + 20, 20))).toEqual({ kind: 'stray' });
    expect(observe(tracker, 5, received(HOUR_MS + 25, 25))).toEqual({ kind: 'stray' });
    expect(observe(tracker, 4, received(HOUR_MS + 26, undefined))).toEqual({ kind: 'stray' });
    expect(observe(tracker, 5, received(HOUR_MS + 27, undefined))).toEqual({ kind: 'duplicate' });
    expect(tracker).toMatchObject({ epoch: 1, lastSeq: 9 });
  });

  it('misses exactly what was lost, over any losses, repeats and restarts', () => {
    // Lives of an engine: per batch, whether it arrives, whether it arrives twice, and by how much its clock was ahead.
    const life = fc.array(fc.record({ isLost: fc.boolean(), isTwice: fc.boolean(), aheadMs: fc.option(fc.integer({ min: 6000, max: HOUR_MS }), { nil: 0, freq: 4 }) }), { minLength: 1, maxLength: 40 });
    fc.assert(fc.property(fc.array(life, { minLength: 1, maxLength: 5 }), (lives) => {
      const tracker = new StreamTracker();
      let clock = 1000;
      let missed = 0;
      let duplicates = 0;
      let epochs = 0;
      let last = -1;
      for (const batches of lives) {
        let isSeen = false;
        let pending = 0;
        for (const [seq, { isLost, isTwice, aheadMs }] of batches.entries()) {
          clock += 1;
          if (isLost) {
            pending += 1;
            continue;
          }
          // Once it has overtaken the old life's sequence, a new life cannot be told from a gap.
          fc.pre(isSeen || epochs === 0 || seq <= last);
          // No two batches have one timestamp; and a life that begins ahead of time cannot be told from one before that was ahead, too.
          const ts = clock + clock / 1e6 + (isSeen ? aheadMs : 0);
          if (!isSeen) epochs += 1;
          // Losses before first contact were never there to miss; losses before a restart's first batch were.
          if (isSeen || epochs > 1) missed += pending;
          isSeen = true;
          pending = 0;
          last = seq;
          observe(tracker, seq, received(clock, ts));
          if (isTwice) {
            observe(tracker, seq, received(clock, ts));
            duplicates += 1;
          }
        }
      }
      expect({ missed: tracker.missedBatches, lost: tracker.missedLost, duplicates: tracker.duplicateBatches, epochs: tracker.epoch }).toEqual({ missed, lost: missed, duplicates, epochs });
    }));
  });
});

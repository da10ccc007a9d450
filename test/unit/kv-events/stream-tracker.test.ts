import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StreamTracker } from '#engine/kv-events/stream-tracker.ts';

const at = (tsUnixMs: number | undefined, isReconnected = false) => ({ tsUnixMs, isReconnected });

describe('StreamTracker', () => {
  it('knows at first contact whether it saw the start', () => {
    const fromStart = new StreamTracker();
    expect(fromStart.lastSeq).toBeUndefined();
    expect(fromStart.observe(0, at(1))).toEqual({ kind: 'next' });
    expect(fromStart).toMatchObject({ sawStart: true, epoch: 1, lastSeq: 0, gaps: 0 });
    const late = new StreamTracker();
    expect(late.observe(400, at(1))).toEqual({ kind: 'next' });
    expect(late).toMatchObject({ sawStart: false, epoch: 1, lastSeq: 400, missedBatches: 0 });
  });

  it('reports the range of a gap', () => {
    const tracker = new StreamTracker();
    tracker.observe(4, at(1));
    expect(tracker.observe(9, at(2))).toEqual({ kind: 'gap', gap: { from: 5, to: 8, epoch: 1 } });
    expect(tracker.observe(10, at(3))).toEqual({ kind: 'next' });
    expect(tracker).toMatchObject({ gaps: 1, missedBatches: 4, lastSeq: 10 });
  });

  it('takes a step back with an older or equal clock for a duplicate', () => {
    const tracker = new StreamTracker();
    tracker.observe(5, at(100));
    expect(tracker.observe(5, at(100))).toEqual({ kind: 'duplicate' });
    expect(tracker.observe(2, at(40))).toEqual({ kind: 'duplicate' });
    expect(tracker.observe(2, at(undefined))).toEqual({ kind: 'duplicate' });
    expect(tracker).toMatchObject({ duplicateBatches: 3, lastSeq: 5, epoch: 1 });
  });

  it('takes a step back with a newer clock for a restart', () => {
    const tracker = new StreamTracker();
    tracker.observe(7, at(100));
    expect(tracker.observe(0, at(101))).toEqual({ kind: 'restart', lastSeq: 7, gap: undefined, reason: 'its clock is newer' });
    expect(tracker).toMatchObject({ epoch: 2, sawStart: true, lastSeq: 0, gaps: 0 });
  });

  it('counts what was missed of the new life', () => {
    const tracker = new StreamTracker();
    tracker.observe(7, at(100));
    expect(tracker.observe(3, at(101))).toMatchObject({ kind: 'restart', gap: { from: 0, to: 2, epoch: 2 } });
    expect(tracker).toMatchObject({ sawStart: false, gaps: 1, missedBatches: 3 });
  });

  it('believes a new connection where the clock stepped back', () => {
    const tracker = new StreamTracker();
    tracker.observe(7, at(100));
    expect(tracker.observe(0, at(50, true))).toMatchObject({ kind: 'restart', reason: 'after a new connection' });
    // The new life's own clock counts from here on.
    expect(tracker.observe(0, at(50))).toEqual({ kind: 'duplicate' });
    expect(tracker.observe(1, at(51))).toEqual({ kind: 'next' });
  });

  it('does not take a new connection alone for a restart', () => {
    const tracker = new StreamTracker();
    tracker.observe(7, at(100));
    expect(tracker.observe(9, at(101, true))).toMatchObject({ kind: 'gap', gap: { from: 8, to: 8, epoch: 1 } });
  });

  it('counts from where a replay was asked for', () => {
    const tracker = new StreamTracker();
    tracker.expectFrom(2);
    expect(tracker.observe(5, at(1))).toEqual({ kind: 'gap', gap: { from: 2, to: 4, epoch: 1 } });
    tracker.expectFrom(0);
    expect(tracker.observe(6, at(1))).toEqual({ kind: 'next' });
  });

  it('misses exactly what was lost, over any losses, repeats and restarts', () => {
    // Lives of an engine: per batch, whether it arrives, and whether it arrives twice.
    const life = fc.array(fc.record({ isLost: fc.boolean(), isTwice: fc.boolean() }), { minLength: 1, maxLength: 40 });
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
        for (const [seq, { isLost, isTwice }] of batches.entries()) {
          clock += 1;
          if (isLost) {
            pending += 1;
            continue;
          }
          // Once it has overtaken the old life's sequence, a new life cannot be told from a gap.
          fc.pre(isSeen || epochs === 0 || seq <= last);
          if (!isSeen) epochs += 1;
          // Losses before first contact were never there to miss; losses before a restart's first batch were.
          if (isSeen || epochs > 1) missed += pending;
          isSeen = true;
          pending = 0;
          last = seq;
          tracker.observe(seq, at(clock));
          if (isTwice) {
            tracker.observe(seq, at(clock));
            duplicates += 1;
          }
        }
      }
      expect({ missed: tracker.missedBatches, duplicates: tracker.duplicateBatches, epochs: tracker.epoch }).toEqual({ missed, duplicates, epochs });
    }));
  });
});

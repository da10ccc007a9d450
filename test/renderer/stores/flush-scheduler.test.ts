import { describe, expect, it } from 'vitest';
import { FlushScheduler, type FlushClock } from '../../../renderer/src/stores/flush-scheduler.ts';

function manualClock(): FlushClock & { ms: number; frame: (() => void) | undefined; timer: (() => void) | undefined; readonly waits: number[] } {
  const clock = {
    ms: 0,
    waits: [] as number[],
    nowMs: () => clock.ms,
    frame: undefined as (() => void) | undefined,
    timer: undefined as (() => void) | undefined,
    requestFrame: (callback: () => void) => {
      clock.frame = callback;
      return 1;
    },
    cancelFrame: () => {
      clock.frame = undefined;
    },
    setTimer: (callback: () => void, ms: number) => {
      clock.waits.push(ms);
      if (ms < 500) {
        clock.ms += ms;
        callback();
      }
      clock.timer = callback;
      return 1 as unknown as ReturnType<typeof setTimeout>;
    },
    clearTimer: () => {
      clock.timer = undefined;
    },
  };
  return clock;
}

describe('FlushScheduler', () => {
  it('flushes once for many requests, on the frame', () => {
    const clock = manualClock();
    let flushes = 0;
    const scheduler = new FlushScheduler(() => (flushes += 1), clock);
    scheduler.request();
    scheduler.request();
    clock.frame?.();
    expect(flushes).toBe(1);
    expect(clock.timer).toBeUndefined();
    scheduler.request();
    clock.frame?.();
    expect(flushes).toBe(2);
  });

  it('flushes on the timer where there are no frames (a hidden tab)', () => {
    const clock = manualClock();
    let flushes = 0;
    const scheduler = new FlushScheduler(() => (flushes += 1), clock);
    scheduler.request();
    clock.timer?.();
    expect(flushes).toBe(1);
    expect(clock.frame).toBeUndefined();
  });

  it('waits for its time before it asks for a frame, and for no longer than that', () => {
    const clock = manualClock();
    let flushes = 0;
    const scheduler = new FlushScheduler(() => (flushes += 1), clock);
    scheduler.notBefore(200);
    clock.ms = 50;
    scheduler.request();
    expect(clock.waits).toEqual([150, 500]);
    clock.frame?.();
    expect(flushes).toBe(1);
    scheduler.request();
    expect(clock.waits.slice(2)).toEqual([500]);
    clock.frame?.();
    expect(flushes).toBe(2);
  });

  it('does nothing after cancel', () => {
    const clock = manualClock();
    const scheduler = new FlushScheduler(() => expect.unreachable(), clock);
    scheduler.request();
    scheduler.cancel();
    expect([clock.frame, clock.timer]).toEqual([undefined, undefined]);
  });
});

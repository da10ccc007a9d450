import { describe, expect, it } from 'vitest';
import { FlushScheduler, type FlushClock } from '../../../renderer/src/stores/flush-scheduler.ts';

function manualClock(): FlushClock & { frame: (() => void) | undefined; timer: (() => void) | undefined } {
  const clock = {
    frame: undefined as (() => void) | undefined,
    timer: undefined as (() => void) | undefined,
    requestFrame: (callback: () => void) => {
      clock.frame = callback;
      return 1;
    },
    cancelFrame: () => {
      clock.frame = undefined;
    },
    setTimer: (callback: () => void) => {
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

  it('does nothing after cancel', () => {
    const clock = manualClock();
    const scheduler = new FlushScheduler(() => expect.unreachable(), clock);
    scheduler.request();
    scheduler.cancel();
    expect([clock.frame, clock.timer]).toEqual([undefined, undefined]);
  });
});

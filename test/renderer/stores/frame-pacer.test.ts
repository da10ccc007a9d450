import { describe, expect, it } from 'vitest';
import { FramePacer, type PacerClock } from '../../../renderer/src/stores/frame-pacer.ts';

/** Time that passes only when a test says so. */
class ManualClock implements PacerClock {
  now = 0;
  frames: (() => void)[] = [];
  timers: { readonly callback: () => void; readonly ms: number }[] = [];

  nowMs(): number {
    return this.now;
  }

  requestFrame(callback: () => void): void {
    this.frames.push(callback);
  }

  setTimer(callback: () => void, ms: number): void {
    this.timers.push({ callback, ms });
  }

  frame(): void {
    for (const callback of this.frames.splice(0)) callback();
  }
}

describe('FramePacer', () => {
  it('draws all that was asked for on one frame, each once', () => {
    const clock = new ManualClock();
    const pacer = new FramePacer(clock);
    const drawn: string[] = [];
    pacer.request(() => drawn.push('rows'));
    pacer.request(() => drawn.push('state'));
    pacer.cancel(pacer.request(() => drawn.push('gone')));
    expect(clock.frames).toHaveLength(1);
    clock.frame();
    expect(drawn).toEqual(['rows', 'state']);
  });

  it('pauses as long as a drawing took beyond its frame, and then draws what waits', () => {
    const clock = new ManualClock();
    const pacer = new FramePacer(clock);
    const drawnAt: number[] = [];
    const draw = (): void => {
      drawnAt.push(clock.now);
      clock.now += 120;
    };
    pacer.request(draw);
    clock.frame();
    clock.frame();
    pacer.request(draw);
    expect(clock.frames).toHaveLength(0);
    expect(clock.timers.map(({ ms }) => ms)).toEqual([100]);
    clock.now += 100;
    clock.timers[0]?.callback();
    clock.frame();
    expect(drawnAt).toEqual([0, 220]);
  });

  it('does not pause after a drawing that fits its frame, nor long after the page slept', () => {
    const clock = new ManualClock();
    const pacer = new FramePacer(clock);
    pacer.request(() => (clock.now += 10));
    clock.frame();
    clock.frame();
    pacer.request(() => (clock.now += 3_600_000));
    expect(clock.timers).toHaveLength(0);
    clock.frame();
    clock.frame();
    pacer.request(() => undefined);
    expect(clock.timers.map(({ ms }) => ms)).toEqual([400]);
  });
});

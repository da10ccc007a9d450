import { describe, expect, it } from 'vitest';
import { Breaker } from '#engine/fleet/breaker.ts';

function open(breaker: Breaker, nowMs: number): void {
  while (breaker.state === 'closed') breaker.failed(nowMs, 'reset');
}

describe('Breaker', () => {
  it('opens at the threshold of consecutive failures, once', () => {
    const breaker = new Breaker({ threshold: 3, holdMs: 1000 });
    expect([breaker.failed(0, 'a'), breaker.failed(0, 'b'), breaker.failed(0, 'c'), breaker.failed(0, 'd')]).toEqual([false, false, true, false]);
    expect(breaker.reason).toBe('3 failures in a row, last: c');
    breaker.succeeded();
    expect(breaker.consecutiveFailures).toBe(0);
  });

  it('is closed by a check that began after the hold, and then opens with one failure', () => {
    const breaker = new Breaker({ threshold: 3, holdMs: 1000 });
    open(breaker, 500);
    expect(breaker.checked(1499)).toBe(false);
    expect(breaker.checked(1500)).toBe(true);
    expect(breaker.checked(1501)).toBe(false);
    expect(breaker).toMatchObject({ state: 'closed', consecutiveFailures: 2, reason: undefined });
    expect(breaker.failed(2000, 'again')).toBe(true);
  });

  it('doubles the hold with each opening until a leg is served, up to a minute', () => {
    const breaker = new Breaker({ threshold: 1, holdMs: 1000 });
    let nowMs = 0;
    for (const holdMs of [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]) {
      breaker.failed(nowMs, undefined);
      expect(breaker.checked(nowMs + holdMs - 1)).toBe(false);
      expect(breaker.checked(nowMs + holdMs)).toBe(true);
      nowMs += holdMs;
    }
    breaker.succeeded();
    breaker.failed(nowMs, undefined);
    expect(breaker.checked(nowMs + 1000)).toBe(true);
  });

  it('can be reset by hand', () => {
    const breaker = new Breaker({ threshold: 2, holdMs: 1000 });
    expect(breaker.reset()).toBe(false);
    open(breaker, 0);
    expect(breaker.reset()).toBe(true);
    expect(breaker).toMatchObject({ state: 'closed', consecutiveFailures: 0 });
  });
});

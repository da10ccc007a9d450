import { expect, it } from 'vitest';
import { Allowance } from '#engine/cache/allowance.ts';

it('allows so many a second on average, and after a quiet time so many at once', () => {
  const clock = { ms: 0 };
  const allowance = new Allowance({ perSecond: 2, burst: 3, now: () => clock.ms });
  expect(Array.from({ length: 4 }, () => allowance.take())).toEqual([true, true, true, false]);
  clock.ms = 499;
  expect(allowance.take()).toBe(false);
  clock.ms = 1000;
  expect(Array.from({ length: 3 }, () => allowance.take())).toEqual([true, true, false]);
  clock.ms = 100_000;
  expect(allowance.left).toBe(3);
});

it('has to be made up for when more was spent than there was', () => {
  const clock = { ms: 0 };
  const allowance = new Allowance({ perSecond: 50, burst: 100, now: () => clock.ms });
  allowance.spend(150);
  expect(allowance.left).toBe(-50);
  clock.ms = 1000;
  expect(allowance.left).toBe(0);
  clock.ms = 1020;
  expect(allowance.left).toBe(1);
});

import { describe, expect, it, vi } from 'vitest';
import { Limiter } from '#engine/fleet/limiter.ts';
import { Periodic } from '#engine/fleet/periodic.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';

describe('Limiter', () => {
  it('never runs more than its limit, runs all, in order, and survives failures', async () => {
    const limiter = new Limiter(3);
    let running = 0;
    let most = 0;
    const order: number[] = [];
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, index) =>
        limiter.run(async () => {
          order.push(index);
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setImmediate(resolve));
          running -= 1;
          if (index % 5 === 0) throw new Error('told to');
          return index;
        })),
    );
    expect(most).toBe(3);
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index));
    expect(results.filter((result) => result.status === 'rejected')).toHaveLength(4);
    expect(await limiter.run(() => Promise.resolve('free'))).toBe('free');
  });
});

describe('Periodic', () => {
  it('never overlaps its runs, runs again when kicked meanwhile, and stops', async () => {
    let running = 0;
    let most = 0;
    let runs = 0;
    const release: (() => void)[] = [];
    const periodic = new Periodic({
      intervalMs: 60_000,
      task: async () => {
        running += 1;
        runs += 1;
        most = Math.max(most, running);
        await new Promise<void>((resolve) => release.push(resolve));
        running -= 1;
      },
    });
    const reached = (count: number): Promise<void> => vi.waitFor(() => expect(runs).toBe(count), { timeout: WAIT_LIMIT_MS, interval: 2 });
    periodic.start(0);
    await reached(1);
    periodic.kick();
    periodic.kick();
    expect(runs).toBe(1);
    release.shift()?.();
    await reached(2);
    periodic.stop();
    release.shift()?.();
    periodic.kick();
    await new Promise((resolve) => setImmediate(resolve));
    expect({ runs, most, running }).toEqual({ runs: 2, most: 1, running: 0 });
  });
});

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ThrottledLoader } from '../../../renderer/src/transport/throttled-loader.ts';

describe('ThrottledLoader', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function loaderOf(takesMs: number): { readonly loader: ThrottledLoader<number>; readonly values: number[]; readonly starts: number[]; readonly errors: unknown[] } {
    const values: number[] = [];
    const starts: number[] = [];
    const errors: unknown[] = [];
    let count = 0;
    const loader = new ThrottledLoader({
      load: async () => {
        starts.push(performance.now());
        count += 1;
        const mine = count;
        await new Promise((resolve) => {
          setTimeout(resolve, takesMs);
        });
        if (mine === 3) throw new Error('third');
        return mine;
      },
      onValue: (value) => values.push(value),
      onError: (error) => errors.push(error),
      intervalMs: 400,
    });
    return { loader, values, starts, errors };
  }

  it('loads at most once per interval and does not miss the last change', async () => {
    const { loader, values, starts } = loaderOf(10);
    const begin = performance.now();
    for (let ms = 0; ms < 700; ms += 50) {
      loader.poke();
      await vi.advanceTimersByTimeAsync(50);
    }
    await vi.advanceTimersByTimeAsync(1000);
    loader.close();
    expect(starts.map((at) => at - begin)).toEqual([0, 400, 800]);
    expect(values).toEqual([1, 2]);
  });

  it('runs one call at a time, reports a failure, and goes on', async () => {
    const { loader, values, errors } = loaderOf(1000);
    loader.poke();
    for (let ms = 0; ms < 4500; ms += 100) {
      await vi.advanceTimersByTimeAsync(100);
      loader.poke();
    }
    loader.close();
    expect(values).toEqual([1, 2, 4]);
    expect(errors).toHaveLength(1);
  });

  it('drops what arrives after it was closed', async () => {
    const { loader, values } = loaderOf(100);
    loader.poke();
    await vi.advanceTimersByTimeAsync(50);
    loader.close();
    await vi.advanceTimersByTimeAsync(1000);
    expect(values).toEqual([]);
  });
});

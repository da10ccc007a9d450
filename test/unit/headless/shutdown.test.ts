import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { stopOnSignals } from '../../../electron/headless/shutdown.ts';

function setUp(close: () => Promise<void>) {
  const target = new EventEmitter();
  const exits: number[] = [];
  const said: string[] = [];
  let announced = 0;
  stopOnSignals(
    { announce: () => (announced += 1), close, say: (text) => said.push(text), exit: (code) => exits.push(code) },
    target,
  );
  return { target, exits, said, announced: () => announced };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const never = (): Promise<void> => new Promise(() => undefined);

describe('stopping', () => {
  it('closes and ends with 0', async () => {
    const { target, exits, announced } = setUp(async () => undefined);
    target.emit('SIGTERM');
    await vi.advanceTimersByTimeAsync(0);
    expect(exits).toEqual([0]);
    expect(announced()).toBe(1);
  });

  it('takes the signal that npm repeats for the same press of Ctrl+C', async () => {
    const { target, exits, announced } = setUp(never);
    target.emit('SIGINT');
    await vi.advanceTimersByTimeAsync(30);
    target.emit('SIGINT');
    expect(exits).toEqual([]);
    expect(announced()).toBe(1);
  });

  it.each([['SIGINT', 130], ['SIGTERM', 143]])('ends at once on a second %s', async (signal, code) => {
    const { target, exits } = setUp(never);
    target.emit('SIGINT');
    await vi.advanceTimersByTimeAsync(600);
    target.emit(signal);
    expect(exits).toEqual([code]);
  });

  it('ends within 2 s even when something never closes, and says so', async () => {
    const { target, exits, said } = setUp(never);
    target.emit('SIGINT');
    await vi.advanceTimersByTimeAsync(1999);
    expect(exits).toEqual([0]);
    expect(said).toEqual(['pdscope: not everything closed within 1800 ms; ending anyway']);
  });

  it('ends with 1 when closing fails', async () => {
    const { target, exits, said } = setUp(() => Promise.reject(new Error('no')));
    target.emit('SIGINT');
    await vi.advanceTimersByTimeAsync(0);
    expect(exits).toEqual([1]);
    expect(said).toEqual(['pdscope: stopping failed: Error: no']);
  });
});

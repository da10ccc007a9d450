import { EventEmitter } from 'node:events';
import type { App } from 'electron';
import { describe, expect, it, vi } from 'vitest';
import { installCleanQuit, quitOnSignals } from '../../../electron/main/quit.ts';

function quitting(close: () => Promise<void>, deadlineMs?: number) {
  const events = new EventEmitter();
  const order: string[] = [];
  const app = Object.assign(events, { exit: vi.fn((code: number) => order.push(`exit ${code}`)), quit: vi.fn() });
  const log = vi.fn();
  installCleanQuit(app as unknown as App, { close, log, ...(deadlineMs !== undefined && { deadlineMs }) });
  const willQuit = (): boolean => {
    const preventDefault = vi.fn();
    events.emit('will-quit', { preventDefault });
    return preventDefault.mock.calls.length > 0;
  };
  return { app, order, log, willQuit };
}

describe('installCleanQuit', () => {
  it('holds the process until the engine has closed, then exits with 0', async () => {
    let finish = (): void => {};
    const close = vi.fn(() => new Promise<void>((done) => (finish = done)));
    const { order, willQuit, app } = quitting(close);
    expect(willQuit()).toBe(true);
    expect(order).toEqual([]);
    finish();
    await vi.waitFor(() => expect(app.exit).toHaveBeenCalled());
    expect(order).toEqual(['exit 0']);
  });

  it('closes once, however often it is asked', async () => {
    const close = vi.fn(() => Promise.resolve());
    const { app, willQuit } = quitting(close);
    expect([willQuit(), willQuit(), willQuit()]).toEqual([true, true, true]);
    await vi.waitFor(() => expect(app.exit).toHaveBeenCalledExactlyOnceWith(0));
    expect(close).toHaveBeenCalledTimes(1);
  });

  it('does not wait for ever, and says so', async () => {
    const { app, log, willQuit } = quitting(() => new Promise(() => {}), 5);
    willQuit();
    await vi.waitFor(() => expect(app.exit).toHaveBeenCalledExactlyOnceWith(1));
    expect(log).toHaveBeenCalledWith(expect.stringContaining('did not close within 5 ms'));
  });

  it('exits with 1 when closing fails, and says why', async () => {
    const { app, log, willQuit } = quitting(() => Promise.reject(new Error('socket stuck')));
    willQuit();
    await vi.waitFor(() => expect(app.exit).toHaveBeenCalledExactlyOnceWith(1));
    expect(log).toHaveBeenCalledWith(expect.stringContaining('socket stuck'));
  });
});

describe('quitOnSignals', () => {
  it('quits on Ctrl+C and on a stop, and takes a second signal', () => {
    const app = { quit: vi.fn() };
    const signals = new EventEmitter();
    quitOnSignals(app, signals);
    for (const signal of ['SIGINT', 'SIGINT', 'SIGTERM', 'SIGHUP']) signals.emit(signal);
    expect(app.quit).toHaveBeenCalledTimes(4);
  });
});

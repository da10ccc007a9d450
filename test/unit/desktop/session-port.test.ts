import { describe, expect, it } from 'vitest';
import type { SessionSink } from '#engine/session/session.ts';
import type { HostMessage } from '#shared/wire.ts';
import { attachSessionPort } from '../../../electron/main/session-port.ts';
import { PortDouble } from './electron-double.ts';

const result = (id: number): HostMessage => ({ t: 'result', id, ok: true, value: undefined });

function attach() {
  const port = new PortDouble();
  const received: unknown[] = [];
  let closed = 0;
  let sink: SessionSink | undefined;
  const close = attachSessionPort(port, (given) => {
    sink = given;
    return { receive: (message) => received.push(message), close: () => (closed += 1) };
  });
  if (sink === undefined) throw new Error('no session was opened');
  return { port, sink, received, close, closedTimes: () => closed };
}

describe('attachSessionPort', () => {
  it('numbers frames and counts what the window has not acknowledged', () => {
    const { port, sink } = attach();
    expect(sink.bufferedBytes()).toBe(0);
    for (const id of [1, 2, 3]) sink.send(result(id));
    expect(port.posted).toEqual([1, 2, 3].map((n) => ({ n, message: result(n) })));
    const all = sink.bufferedBytes();
    expect(all).toBeGreaterThan(0);
    port.emit('message', { data: { ack: 2 } });
    expect(sink.bufferedBytes()).toBe(all / 3);
    port.emit('message', { data: { ack: 3 } });
    expect(sink.bufferedBytes()).toBe(0);
  });

  it('weighs rows, so that a window that stops reading is noticed', () => {
    const { sink } = attach();
    const counters = { total: 400, kept: 400, evicted: 0, dropped: 0, matching: 400 };
    const row = {} as never;
    sink.send({ t: 'delta', sub: 1, channel: 'kv', seq: 2, rows: Array.from({ length: 400 }, () => row), counters, omitted: 0 });
    expect(sink.bufferedBytes()).toBeGreaterThan(400 * 500);
  });

  it('is not fooled by repeated, early or foreign acknowledgements', () => {
    const { port, sink, received } = attach();
    sink.send(result(1));
    sink.send(result(2));
    const all = sink.bufferedBytes();
    for (const data of [{ ack: 0 }, { ack: -5 }, { ack: 1.5 }, { ack: 'x' }, null, 'ack', []]) port.emit('message', { data });
    expect(sink.bufferedBytes()).toBe(all);
    port.emit('message', { data: { ack: 999 } });
    port.emit('message', { data: { ack: 1 } });
    expect(sink.bufferedBytes()).toBe(0);
    sink.send(result(3));
    expect(sink.bufferedBytes()).toBe(all / 2);
    expect(received).toEqual([]);
  });

  it('hands messages to the session as they are, for it to judge', () => {
    const { port, received } = attach();
    const message = { t: 'unsubscribe', sub: 1 };
    port.emit('message', { data: { message } });
    port.emit('message', { data: { message: 'nonsense' } });
    expect(received).toEqual([message, 'nonsense']);
    expect(port.isStarted).toBe(true);
  });

  it('ends the session once, from either side, and then stays silent', () => {
    const { port, sink, received, close, closedTimes } = attach();
    port.close();
    close();
    expect(closedTimes()).toBe(1);
    sink.send(result(1));
    port.emit('message', { data: { message: 1 } });
    expect(port.posted).toEqual([]);
    expect(received).toEqual([]);
  });
});

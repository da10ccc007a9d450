import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { sessionUrl, webSocketConnect } from '../../../renderer/src/transport/web-socket-transport.ts';

class FakeSocket extends EventTarget {
  static readonly OPEN = 1;
  static last: FakeSocket | undefined;
  readyState = 0;
  readonly sent: string[] = [];
  isClosed = false;
  constructor(readonly url: string) {
    super();
    FakeSocket.last = this;
  }
  send(text: string): void {
    this.sent.push(text);
  }
  close(): void {
    this.isClosed = true;
  }
  emit(type: string, fields: object = {}): void {
    this.dispatchEvent(Object.assign(new Event(type), fields));
  }
}

function connect(): { readonly socket: FakeSocket; readonly duplex: ReturnType<ReturnType<typeof webSocketConnect>>; readonly log: unknown[] } {
  const log: unknown[] = [];
  const duplex = webSocketConnect('ws://x/api/session')({
    onMessage: (message) => log.push(message),
    onClose: (reason, isFinal = false) => log.push({ reason, isFinal }),
  });
  if (FakeSocket.last === undefined) throw new Error('no socket was opened');
  return { socket: FakeSocket.last, duplex, log };
}

describe('webSocketConnect', () => {
  beforeEach(() => {
    vi.stubGlobal('WebSocket', FakeSocket);
  });
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('speaks JSON text both ways', () => {
    const { socket, duplex, log } = connect();
    duplex.send({ t: 'unsubscribe', sub: 1 });
    expect(socket.sent).toEqual([]);
    socket.readyState = FakeSocket.OPEN;
    duplex.send({ t: 'unsubscribe', sub: 2 });
    expect(socket.sent).toEqual(['{"t":"unsubscribe","sub":2}']);
    socket.emit('message', { data: '{"t":"result","id":1,"ok":true,"value":3}' });
    expect(log).toEqual([{ t: 'result', id: 1, ok: true, value: 3 }]);
  });

  it('drops the connection on a frame it cannot read, and says nothing after that', () => {
    const { socket, log } = connect();
    socket.emit('message', { data: '{"t":' });
    socket.emit('message', { data: '{"t":"hello"}' });
    socket.emit('close', { code: 1006, reason: '' });
    expect(log).toEqual([{ reason: 'the engine sent a frame that is not JSON', isFinal: false }]);
    expect(socket.isClosed).toBe(true);
  });

  it('does not come back after being refused for want of a cookie', () => {
    const { socket, log } = connect();
    socket.emit('open');
    socket.emit('close', { code: 4401, reason: 'not signed in' });
    expect(log).toEqual([{ reason: 'not signed in', isFinal: true }]);
  });

  it('stays silent once closed by this side', () => {
    const { socket, duplex, log } = connect();
    duplex.close();
    socket.emit('message', { data: '{"t":"hello"}' });
    expect(log).toEqual([]);
  });

  it('follows the page to TLS', () => {
    expect(sessionUrl({ protocol: 'https:', host: 'gpu:7080' })).toBe('wss://gpu:7080/api/session');
    expect(sessionUrl({ protocol: 'http:', host: '[::1]:7080' })).toBe('ws://[::1]:7080/api/session');
  });
});

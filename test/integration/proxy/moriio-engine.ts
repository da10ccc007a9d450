/** An engine's side of MoRIIO registration over a real socket, without the rest of the engine. */
import { encode } from '@msgpack/msgpack';
import { Dealer } from 'zeromq';

export interface Pinger extends Disposable {
  /** One message. */
  send(fields: unknown): Promise<void>;
  sendBytes(...frames: readonly Uint8Array[]): Promise<void>;
}

export function startPinger(endpoint: string): Pinger {
  const socket = new Dealer({ linger: 0 });
  socket.connect(endpoint);
  // A socket takes one send at a time.
  let last: Promise<void> = Promise.resolve();
  const sendBytes = (...frames: readonly Uint8Array[]): Promise<void> => {
    last = last.then(() => socket.send([...frames]));
    return last;
  };
  return {
    send: (fields) => sendBytes(encode(fields)),
    sendBytes,
    [Symbol.dispose]: () => socket.close(),
  };
}

export interface V2Options {
  readonly dp?: number;
  readonly tp?: number;
  readonly mode?: 'READ' | 'WRITE';
  readonly zmqHost?: string;
}

/** The registration of an engine since 2026-04-23. */
export function v2(type: 'P' | 'D', port: number, { dp = 1, tp = 1, mode = 'WRITE', zmqHost = '10.0.0.1' }: V2Options = {}): Record<string, unknown> {
  return {
    type,
    http_address: `127.0.0.1:${port}`,
    zmq_address: `host:${zmqHost},handshake:${type === 'P' ? 6301 : 6401},notify:${type === 'P' ? 61_005 : 62_005}`,
    dp_size: dp,
    tp_size: tp,
    transfer_mode: mode,
  };
}

/** The registration of an engine before 2026-04-22. */
export function v1(role: 'P' | 'D', port: number, { dp = 1, tp = 1, mode = 'WRITE' }: V2Options = {}): Record<string, unknown> {
  return {
    type: 'register',
    role,
    index: '1',
    request_address: `http://127.0.0.1:${port}/v1/completions`,
    handshake_port: role === 'P' ? 6301 : 6401,
    notify_port: role === 'P' ? 61_005 : 62_005,
    dp_size: dp,
    tp_size: tp,
    transfer_mode: mode,
  };
}

/**
 * A MoRIIO engine's only word to its proxy: a DEALER that sends one msgpack map every few seconds and expects no answer
 * (protocol facts: moriio/moriio_connector.py; bytes: golden/moriio.json). There is no goodbye.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { encode } from '@msgpack/msgpack';
import { Dealer } from 'zeromq';
import type { SimMoriioOptions } from '../sim-options.ts';
import { formatZmqAddress, type MoriioAddress } from './moriio-address.ts';

const DEFAULT_PING_MS = 3000;

export interface RegistrationFacts {
  readonly type: 'P' | 'D';
  /** `host:port` of the HTTP server. */
  readonly httpAddress: string;
  readonly zmq: MoriioAddress;
  readonly dpSize: number;
  readonly options: SimMoriioOptions;
}

/** The map of one message; `count` is 1 for the first. */
export function registrationMessage({ type, httpAddress, zmq, dpSize, options }: RegistrationFacts, count: number): object {
  const sizes = { dp_size: dpSize, tp_size: 1, transfer_mode: options.mode ?? 'WRITE' };
  const schema = options.schema ?? 'v2';
  if (schema === 'v2') return { type, http_address: httpAddress, zmq_address: formatZmqAddress(zmq), ...sizes };
  return {
    type: 'register',
    role: type,
    index: String(count),
    request_address: `http://${httpAddress}/v1${schema === 'v1' ? '/completions' : ''}`,
    handshake_port: zmq.handshakePort,
    notify_port: zmq.notifyPort,
    ...sizes,
  };
}

export interface Registration {
  close(): void;
}

/** Pings `options.proxy` until closed; `isAlive` false keeps silent, as a process that is gone does. */
export function startRegistration(facts: RegistrationFacts, isAlive: () => boolean): Registration | undefined {
  const { proxy, pingMs = DEFAULT_PING_MS } = facts.options;
  if (proxy === undefined) return undefined;
  const stop = new AbortController();
  // `immediate`: nothing is queued while the proxy is away, so that it never reads old news.
  const socket = new Dealer({ linger: 0, immediate: true, sendTimeout: pingMs });
  socket.connect(`tcp://${proxy}`);
  const run = async (): Promise<void> => {
    for (let count = 1; !stop.signal.aborted; ) {
      if (isAlive()) {
        const isSent = await socket.send(encode(registrationMessage(facts, count))).then(() => true, () => false);
        if (isSent) count += 1;
      }
      if (!stop.signal.aborted) await delay(pingMs, undefined, { ref: false, signal: stop.signal }).catch(() => {});
    }
  };
  void run();
  return {
    close() {
      stop.abort();
      socket.close();
    },
  };
}

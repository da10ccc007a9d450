/**
 * How simulated instances reach each other's pinned blocks: by a direct call when both live in this process, else over a
 * small HTTP channel at the address that the protocol names. Engines use ZMQ and RDMA there, one port per data-parallel
 * rank; a proxy never speaks either, so only the outcomes (copied, refused, unreachable, not ready yet) are kept.
 */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import { kindOfHost } from '../../fleet/host-kind.ts';
import { neighbouringPorts } from '../free-port.ts';
import { readJson } from './http-json.ts';
import type { LeaseStore, OpenAnswer, OpenRequest, StoreAnswer } from './lease-store.ts';

/** Real handshakes give up after seconds; an unreachable side channel must not hold a request for ever. */
const CALL_TIMEOUT_MS = 5000;
const MAX_MESSAGE_BYTES = 1 << 20;
const RANGE_ATTEMPTS = 20;

export interface Peer {
  readonly host: string;
  readonly port: number;
  /** Undefined: whoever is there will do. */
  readonly engineId: string | undefined;
  /** The protocol and its mode; the handshake refuses another. */
  readonly mode: string;
}

export interface Producer {
  readonly engineId: string;
  readonly mode: string;
  readonly leases: LeaseStore;
}

type Message = Pick<Peer, 'engineId' | 'mode'> &
  (({ readonly op: 'open' } & OpenRequest) | { readonly op: 'done' | 'heartbeat'; readonly key: string });

/** One port of one rank. */
export interface SideChannel {
  readonly host: string;
  readonly port: number;
  /** The engine that answers here from now on; undefined: none does. */
  attach(producer: Producer | undefined): void;
  close(): Promise<void>;
}

interface LocalChannel {
  readonly host: string;
  readonly producer: () => Producer | undefined;
}

/** Channels of this process by port. */
const localChannels = new Map<number, LocalChannel>();

async function answer(producer: Producer | undefined, message: Message, signal: AbortSignal): Promise<OpenAnswer | StoreAnswer> {
  if (producer === undefined || (message.engineId !== undefined && message.engineId !== producer.engineId)) {
    return { isOk: false, reason: `engine ${message.engineId ?? ''} is not here` };
  }
  if (message.mode !== producer.mode) {
    return { isOk: false, reason: `handshake: this engine speaks ${producer.mode}, not ${message.mode}` };
  }
  if (message.op === 'open') return producer.leases.open(message, signal);
  return message.op === 'done' ? producer.leases.done(message.key) : producer.leases.heartbeat(message.key);
}

function readMessage(value: unknown): Message | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { op, engineId, mode, key, blockIds, check, waitMs, isRegistration } = value as Readonly<Partial<Record<string, unknown>>>;
  if (typeof mode !== 'string' || typeof key !== 'string') return undefined;
  const head = { engineId: typeof engineId === 'string' ? engineId : undefined, mode, key };
  if (op === 'done' || op === 'heartbeat') return { ...head, op };
  if (op !== 'open' || !Array.isArray(blockIds) || typeof check !== 'object' || check === null) return undefined;
  const { tokens, digest } = check as Readonly<Record<string, unknown>>;
  if (typeof tokens !== 'number' || typeof digest !== 'number') return undefined;
  return {
    ...head,
    op,
    blockIds: blockIds.filter((id): id is number => typeof id === 'number'),
    check: { tokens, digest },
    waitMs: typeof waitMs === 'number' ? waitMs : 0,
    isRegistration: isRegistration === true,
  };
}

async function openPort(host: string, port: number): Promise<SideChannel> {
  let producer: Producer | undefined;
  const serve = async (request: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    try {
      const message = readMessage(await readJson(request, MAX_MESSAGE_BYTES));
      const result = message === undefined ? { isOk: false, reason: 'malformed message' } : await answer(producer, message, gone.signal);
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result));
    } catch (error) {
      response.writeHead(400).end(errorMessage(error));
    }
  };
  const server = http.createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      reject(new PdscopeError('sim-bind-failed', `Cannot listen on ${host}:${port} for the KV side channel: choose another port.`, { cause }));
    });
    server.listen(port, host, resolve);
  });
  const bound = (server.address() as AddressInfo).port;
  localChannels.set(bound, { host, producer: () => producer });
  return {
    host,
    port: bound,
    attach: (next) => {
      producer = next;
    },
    async close() {
      localChannels.delete(bound);
      server.closeAllConnections();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

async function openRange(host: string, port: number, ranks: number): Promise<SideChannel[]> {
  const opened: SideChannel[] = [];
  try {
    for (let rank = 0; rank < ranks; rank += 1) opened.push(await openPort(host, rank === 0 ? port : (opened[0]?.port ?? 0) + rank));
    return opened;
  } catch (error) {
    for (const channel of opened) await channel.close();
    throw error;
  }
}

/** Listens on `port` + rank for each rank; port 0 chooses a base with free neighbours. Throws `sim-bind-failed`. */
export async function openSideChannels(host: string, port: number, ranks: number): Promise<readonly SideChannel[]> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await openRange(host, port === 0 && ranks > 1 ? neighbouringPorts(ranks) : port, ranks);
    } catch (error) {
      if (port !== 0 || attempt >= RANGE_ATTEMPTS) throw error;
    }
  }
}

function post(peer: Peer, message: Message, signal: AbortSignal | undefined): Promise<OpenAnswer | StoreAnswer> {
  const waitMs = message.op === 'open' ? message.waitMs : 0;
  return new Promise((resolve, reject) => {
    const request = http.request(
      {
        host: peer.host, port: peer.port, method: 'POST', path: '/kv', timeout: CALL_TIMEOUT_MS + waitMs, agent: false,
        ...(signal !== undefined && { signal }),
      },
      (response) => {
        readJson(response, MAX_MESSAGE_BYTES).then((value) => resolve(value as OpenAnswer), reject);
      },
    );
    request.on('timeout', () => request.destroy(new Error('timed out')));
    request.on('error', reject);
    request.end(JSON.stringify(message));
  });
}

/** Unreachable is a refusal too: the consumer fails, or goes on waiting, either way. */
async function call(peer: Peer, message: Message, signal?: AbortSignal): Promise<OpenAnswer | StoreAnswer> {
  const local = localChannels.get(peer.port);
  if (local !== undefined && (local.host === peer.host || (kindOfHost(local.host) === 'loopback' && kindOfHost(peer.host) === 'loopback'))) {
    return answer(local.producer(), message, signal ?? new AbortController().signal);
  }
  try {
    return await post(peer, message, signal);
  } catch (error) {
    return { isOk: false, reason: `side channel ${peer.host}:${peer.port}: ${errorMessage(error)}` };
  }
}

/** Asks a producer for its KV. */
export async function openRemote(peer: Peer, request: OpenRequest, signal: AbortSignal): Promise<OpenAnswer> {
  const { engineId, mode } = peer;
  const result = await call(peer, { op: 'open', engineId, mode, ...request }, signal);
  if (!result.isOk) return result;
  return { isOk: true, isGarbage: 'isGarbage' in result && result.isGarbage };
}

export function tellRemote(peer: Peer, op: 'done' | 'heartbeat', key: string): Promise<StoreAnswer> {
  const { engineId, mode } = peer;
  return call(peer, { op, engineId, mode, key });
}

export async function closeSideChannels(byRank: readonly (readonly SideChannel[])[]): Promise<void> {
  await Promise.all(byRank.flat().map((channel) => channel.close()));
}

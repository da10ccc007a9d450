/**
 * How simulated instances reach each other's pinned blocks: by a direct call when both live in this process, else over a
 * small HTTP side channel at remote_host:remote_port. vLLM uses ZMQ and RDMA there; a proxy never speaks either, so only
 * the outcomes (pulled, refused, unreachable) are kept.
 */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { NixlAnswer, NixlProducer } from './nixl-producer.ts';
import type { RemoteReference } from './nixl-params.ts';

type Operation = 'open' | 'done' | 'heartbeat';

interface Message {
  readonly op: Operation;
  readonly engineId: string;
  readonly requestId: string;
  readonly blockIds: readonly number[];
}

const MAX_MESSAGE_BYTES = 1 << 20;
/** Real NIXL handshakes give up after seconds; an unreachable side channel must not hold a request for ever. */
const CALL_TIMEOUT_MS = 5000;

export interface NixlSideChannel {
  readonly host: string;
  readonly port: number;
  register(producer: NixlProducer): void;
  /** A restarted engine has a new id; the old one is unknown from then on. */
  unregister(engineId: string): void;
  close(): Promise<void>;
}

/** Channels of this process by port. */
const localChannels = new Map<number, { readonly host: string; readonly producers: ReadonlyMap<string, NixlProducer> }>();

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

function answer(producers: ReadonlyMap<string, NixlProducer>, message: Message): NixlAnswer {
  const producer = producers.get(message.engineId);
  if (producer === undefined) return { isOk: false, reason: `engine ${message.engineId} is not here` };
  if (message.op === 'open') return producer.open(message.requestId, message.blockIds);
  return message.op === 'done' ? producer.done(message.requestId) : producer.heartbeat(message.requestId);
}

function readMessage(value: unknown): Message | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { op, engineId, requestId, blockIds } = value as Readonly<Record<string, unknown>>;
  if (op !== 'open' && op !== 'done' && op !== 'heartbeat') return undefined;
  if (typeof engineId !== 'string' || typeof requestId !== 'string' || !Array.isArray(blockIds)) return undefined;
  return { op, engineId, requestId, blockIds: blockIds.filter((id): id is number => typeof id === 'number') };
}

async function readJson(stream: http.IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_MESSAGE_BYTES) throw new Error('side-channel message too large');
    chunks.push(chunk);
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

/** Listens on `host:port` (0 = choose). */
export async function openNixlSideChannel(host: string, port: number): Promise<NixlSideChannel> {
  const producers = new Map<string, NixlProducer>();
  const serve = async (request: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
    try {
      const message = readMessage(await readJson(request));
      const result: NixlAnswer = message === undefined ? { isOk: false, reason: 'malformed message' } : answer(producers, message);
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result));
    } catch (error) {
      response.writeHead(400).end(errorMessage(error));
    }
  };
  const server = http.createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      reject(new PdscopeError('sim-bind-failed', `Cannot listen on ${host}:${port} for the NIXL side channel: choose another port.`, { cause }));
    });
    server.listen(port, host, resolve);
  });
  const bound = (server.address() as AddressInfo).port;
  localChannels.set(bound, { host, producers });
  return {
    host,
    port: bound,
    register: (producer) => void producers.set(producer.engineId, producer),
    unregister: (engineId) => void producers.delete(engineId),
    async close() {
      localChannels.delete(bound);
      server.closeAllConnections();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

function post(reference: RemoteReference, message: Message): Promise<NixlAnswer> {
  return new Promise((resolve, reject) => {
    const request = http.request(
      { host: reference.host, port: reference.port, method: 'POST', path: '/nixl', timeout: CALL_TIMEOUT_MS, agent: false },
      (response) => {
        resolve(readJson(response) as Promise<NixlAnswer>);
      },
    );
    request.on('timeout', () => request.destroy(new Error('timed out')));
    request.on('error', reject);
    request.end(JSON.stringify(message));
  });
}

/** Asks the producer that a reference points at. Unreachable is a refusal too: the decode side fails either way. */
export async function callProducer(op: Operation, reference: RemoteReference): Promise<NixlAnswer> {
  const message: Message = { op, engineId: reference.engineId, requestId: reference.requestId, blockIds: reference.blockIds };
  const local = localChannels.get(reference.port);
  if (local !== undefined && (local.host === reference.host || (isLoopback(local.host) && isLoopback(reference.host)))) {
    return answer(local.producers, message);
  }
  try {
    return await post(reference, message);
  } catch (error) {
    return { isOk: false, reason: `side channel ${reference.host}:${reference.port}: ${errorMessage(error)}` };
  }
}

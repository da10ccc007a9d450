/** The whole engine over simulated instances of one mode, and what the suite asks of them. */
import http from 'node:http';
import { createEngine, type Engine } from '#engine/engine.ts';
import type { ReceivedRequest } from '#engine/simulator/received-log.ts';
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import type { Role } from '#shared/vocabulary.ts';
import { waitFor } from '../engine/wait-for.ts';
import type { Json, Mode } from './modes.ts';

/** Real milliseconds; leases must run out within a test, and hanging instances be given up. */
const LEASE_MS = 500;
const TRANSFER_TIMEOUT_MS = 900;
const HEADERS_TIMEOUT_MS = 700;
const INFERENCE = /^\/(?:v1\/(?:chat\/)?completions|inference\/v1\/generate)$/u;

/** How long until nothing may be pinned any more, whatever went wrong. */
export const RELEASE_MS = 5000;

export type Gate = (request: ReceivedRequest) => Promise<void>;

export interface Cluster extends AsyncDisposable {
  readonly engine: Engine;
  readonly sims: readonly SimInstance[];
  of(role: Role): SimInstance;
  /** The instance that answers the client. */
  readonly answering: SimInstance;
  /** Holds inference requests of an instance back. */
  setGate(instance: SimInstance, gate: Gate | undefined): void;
  /** Inference requests that an instance got, bodies parsed. */
  received(instance: SimInstance): readonly { readonly request: ReceivedRequest; readonly json: Json }[];
  post(path: string, body: Json, options?: PostOptions): Promise<Answer>;
  row(requestId: string): Promise<RequestRow>;
  detail(row: RequestRow): Promise<RequestDetail>;
}

export interface PostOptions {
  readonly requestId?: string;
  readonly signal?: AbortSignal;
  readonly onChunk?: (text: string) => void;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly contentType: string;
  /** The connection broke before the end. */
  readonly isCut: boolean;
  /** The client left before there was a status. */
  readonly hasLeft: boolean;
}

export async function startCluster(mode: Mode): Promise<Cluster> {
  const gates = new Map<string, Gate>();
  const sims: SimInstance[] = [];
  const engine = await createEngine({
    version: 'test', host: 'headless', proxy: { host: '127.0.0.1', port: 0 }, connector: mode.connector, maxRetries: 0, capture: true,
    timeouts: { headersMs: HEADERS_TIMEOUT_MS }, protocol: { moriioHost: '127.0.0.1', moriioPort: 0 },
  });
  const close = async (): Promise<void> => {
    await engine.close();
    await Promise.all(sims.map((sim) => sim.close()));
  };
  try {
    const shared = mode.sim();
    const registration = mode.connector === 'moriio' ? await registrationAddress(engine) : undefined;
    for (const role of mode.roles) {
      const sim = await startSimInstance({
        role, name: role, seed: 7, speed: 25, leaseMs: LEASE_MS, transferTimeoutMs: TRANSFER_TIMEOUT_MS, ...shared,
        ...(registration !== undefined && { moriio: { ...shared.moriio, proxy: registration, pingMs: 50 } }),
        gate: async (request) => {
          if (INFERENCE.test(new URL(request.path, 'http://sim').pathname)) await gates.get(role)?.(request);
        },
      });
      sims.push(sim);
      if (registration === undefined) {
        const bootstrapPort = sim.bootstrapUrl === undefined ? undefined : Number(new URL(sim.bootstrapUrl).port);
        await engine.call('instance.add', { role, url: sim.url, ...(bootstrapPort !== undefined && { bootstrapPort }) });
      }
    }
    await waitFor('the fleet can serve', async () => (await fetch(new URL('/health', engine.proxyAddress.url))).ok);
  } catch (error) {
    await close();
    throw error;
  }
  const of = (role: Role): SimInstance => {
    const found = sims.find((sim) => sim.role === role);
    if (found === undefined) throw new Error(`${mode.name} has no ${role} instance`);
    return found;
  };
  return {
    engine,
    sims,
    of,
    answering: of(mode.legs === 'one' ? 'both' : 'decode'),
    setGate(instance, gate) {
      if (gate === undefined) gates.delete(instance.role);
      else gates.set(instance.role, gate);
    },
    received: (instance) =>
      instance.received
        .filter((request) => request.method === 'POST' && INFERENCE.test(new URL(request.path, 'http://sim').pathname))
        .map((request) => ({ request, json: JSON.parse(request.body.toString()) as Json })),
    post: (path, body, options) => post(engine.proxyAddress, path, body, options),
    row: (requestId) =>
      waitFor(`a record of ${requestId} that ended`, () => [...engine.requests.rows()].find((row) => row.requestId === requestId && row.state !== 'running')),
    detail: ({ id }) => engine.call('requests.get', { id }),
    [Symbol.asyncDispose]: close,
  };
}

async function registrationAddress(engine: Engine): Promise<string> {
  const { facts } = await engine.call('connector.status', {});
  const value = facts.find(({ title }) => title === 'Registration socket')?.value;
  if (typeof value !== 'string') throw new Error('the status names no registration socket');
  return value.replace('tcp://', '');
}

function post({ host, port }: Engine['proxyAddress'], path: string, body: Json, { requestId, signal, onChunk }: PostOptions = {}): Promise<Answer> {
  const payload = JSON.stringify(body);
  return new Promise((resolve) => {
    let text = '';
    let status = 0;
    let contentType = '';
    const done = (isCut: boolean): void => resolve({ status, text, contentType, isCut, hasLeft: isCut && status === 0 });
    const request = http.request({
      host, port, path, method: 'POST', agent: false,
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload), ...(requestId !== undefined && { 'x-request-id': requestId }) },
      ...(signal !== undefined && { signal }),
    });
    request.on('error', () => done(true));
    request.on('response', (response) => {
      status = response.statusCode ?? 0;
      contentType = response.headers['content-type'] ?? '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
        onChunk?.(chunk);
      });
      response.on('end', () => done(!response.complete));
      response.on('error', () => done(true));
    });
    request.end(payload);
  });
}

/**
 * Mooncake's bootstrap server, one per prefill instance, and the two calls that engines make to it (protocol facts:
 * mooncake/mooncake_utils.py). `GET /query` grows while workers register; a second worker for a place, or another engine id
 * for a rank, is refused.
 */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import { readJson, requestJson } from './http-json.ts';

const MAX_MESSAGE_BYTES = 1 << 16;

interface Rank {
  readonly engine_id: string;
  /** tp rank -> pp rank -> `tcp://host:port`. */
  readonly worker_addr: Record<string, Record<string, string>>;
}

/** By data-parallel rank, as text. */
type Table = Record<string, Rank>;

export interface BootstrapServer {
  readonly port: number;
  close(): Promise<void>;
}

/** The reason of a 400; undefined when the worker is in. */
function register(table: Table, value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return 'not an object';
  const { engine_id: engineId, dp_rank: dp, tp_rank: tp, pp_rank: pp, addr } = value as Readonly<Record<string, unknown>>;
  if (typeof engineId !== 'string' || typeof addr !== 'string') return 'engine_id and addr are required';
  if (![dp, tp, pp].every(Number.isInteger)) return 'dp_rank, tp_rank and pp_rank are required';
  const entry = (table[String(dp)] ??= { engine_id: engineId, worker_addr: {} });
  if (entry.engine_id !== engineId) return `Engine ID mismatch for dp_rank=${String(dp)}: expected ${entry.engine_id}, got ${engineId}`;
  const workers = (entry.worker_addr[String(tp)] ??= {});
  if (workers[String(pp)] !== undefined) return `Worker dp_rank=${String(dp)} tp_rank=${String(tp)} pp_rank=${String(pp)} is already registered`;
  workers[String(pp)] = addr;
  return undefined;
}

async function serve(table: Table, request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  const answer = (status: number, value: object): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };
  const route = `${request.method ?? ''} ${new URL(request.url ?? '/', 'http://bootstrap').pathname}`;
  if (route === 'GET /query') answer(200, table);
  else if (route === 'POST /register') {
    try {
      const refusal = register(table, await readJson(request, MAX_MESSAGE_BYTES));
      if (refusal === undefined) answer(200, { status: 'ok' });
      else answer(400, { detail: refusal });
    } catch (error) {
      answer(400, { detail: errorMessage(error) });
    }
  } else answer(404, { detail: 'Not Found' });
}

/** Port 0 = choose. Throws `sim-bind-failed`. */
export async function openBootstrapServer(host: string, port: number): Promise<BootstrapServer> {
  const table: Table = {};
  const server = http.createServer((request, response) => void serve(table, request, response));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      reject(new PdscopeError('sim-bind-failed', `Cannot listen on ${host}:${port} for the Mooncake bootstrap server: choose another port.`, { cause }));
    });
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export interface WorkerRegistration {
  readonly engineId: string;
  readonly rank: number;
  /** `tcp://host:port`. */
  readonly addr: string;
}

/** Throws when the server refuses or cannot be reached. */
export async function registerWorker(url: string, { engineId, rank, addr }: WorkerRegistration): Promise<void> {
  const body = { engine_id: engineId, dp_rank: rank, tp_rank: 0, pp_rank: 0, addr };
  const { status } = await requestJson(`${url}/register`, { body });
  if (status !== 200) throw new Error(`the bootstrap server refused worker ${rank}: ${status}`);
}

/** The worker of an engine, from its bootstrap server's table; undefined when the table does not have it, or nobody answers. */
export async function findWorker(
  url: string, engineId: string, signal?: AbortSignal,
): Promise<{ readonly host: string; readonly port: number } | undefined> {
  try {
    const { value } = await requestJson(`${url.replace(/\/$/u, '')}/query`, signal === undefined ? {} : { signal });
    const entry = Object.values(value as Table).find((rank) => rank.engine_id === engineId);
    const [, host, port] = /^tcp:\/\/(.*):(\d+)$/u.exec(entry?.worker_addr['0']?.['0'] ?? '') ?? [];
    return host === undefined ? undefined : { host, port: Number(port) };
  } catch {
    // A bootstrap server that is away looks to the engine like one that does not know the worker.
    return undefined;
  }
}

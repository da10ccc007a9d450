/** A small HTTP server that answers as an engine does, or misbehaves as told. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';

export interface FakeEngine extends AsyncDisposable {
  readonly address: string;
  readonly port: number;
  /** Requests seen, as `METHOD path`. */
  readonly seen: string[];
  readonly headersSeen: Record<string, string | string[] | undefined>[];
  /** Overrides the answer for a path; undefined restores the default. */
  on(path: string, handler: ((response: ServerResponse) => void) | undefined): void;
  stop(): Promise<void>;
}

export interface FakeEngineOptions {
  readonly models?: readonly string[];
  readonly host?: string;
  readonly port?: number;
  readonly isSimulated?: boolean;
  readonly metrics?: string;
}

export async function startFakeEngine(options: FakeEngineOptions = {}): Promise<FakeEngine> {
  const models = options.models ?? ['test/model'];
  const host = options.host ?? '127.0.0.1';
  const seen: string[] = [];
  const headersSeen: FakeEngine['headersSeen'] = [];
  const overrides = new Map<string, (response: ServerResponse) => void>();
  const server: Server = createServer((request, response) => {
    const path = request.url ?? '';
    seen.push(`${request.method} ${path}`);
    headersSeen.push(request.headers);
    const override = overrides.get(path);
    if (override !== undefined) {
      override(response);
      return;
    }
    if (options.isSimulated === true) response.setHeader('x-pdscope-simulated', '1');
    if (path === '/health') response.end();
    else if (path === '/v1/models') json(response, { object: 'list', data: models.map((id) => ({ id, object: 'model', max_model_len: 4096 })) });
    else if (path === '/version') json(response, { version: '0.26.0' });
    else if (path === '/metrics') response.end(options.metrics ?? 'vllm:num_requests_running{engine="0",model_name="m"} 2.0\n');
    else if (path === '/hang') return;
    else json(response, { ok: true });
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, host, resolve));
  const { port } = server.address() as AddressInfo;
  const stop = async (): Promise<void> => {
    if (!server.listening) return;
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  return {
    address: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
    port,
    seen,
    headersSeen,
    on: (path, handler) => {
      if (handler === undefined) overrides.delete(path);
      else overrides.set(path, handler);
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function json(response: ServerResponse, body: unknown): void {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(body));
}

/** Polls until `check` holds. Fails with what it last saw after `deadlineMs`. */
export async function until<T>(read: () => T, check: (value: T) => boolean, deadlineMs = WAIT_LIMIT_MS): Promise<T> {
  const end = performance.now() + deadlineMs;
  for (;;) {
    const value = read();
    if (check(value)) return value;
    if (performance.now() > end) throw new Error(`not reached in ${deadlineMs} ms; last value: ${JSON.stringify(value)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

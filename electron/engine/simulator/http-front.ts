/**
 * The listening side of an instance: one port for life, which can be closed and opened again (`refuse`), and connections
 * that can be cut (`restart`). What a request means is the handler's business.
 */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { PdscopeError } from '#shared/errors.ts';

export type HttpHandler = (request: http.IncomingMessage, response: http.ServerResponse) => void;

export interface HttpFront {
  readonly port: number;
  readonly isListening: boolean;
  /** Stops accepting and cuts all connections: clients get ECONNREFUSED. */
  refuse(): Promise<void>;
  /** Listens on the same port again. */
  resume(): Promise<void>;
  dropConnections(): void;
  close(): Promise<void>;
}

/** Longer than any client pool's, so that an idle connection is not cut just as it is used again. */
const KEEP_ALIVE_MS = 75_000;

function listen(server: http.Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (cause: Error): void => {
      reject(new PdscopeError('sim-bind-failed', `Cannot listen on ${host}:${port}: choose another port.`, { cause }));
    };
    server.once('error', onError);
    server.listen(port, host, () => {
      server.off('error', onError);
      resolve();
    });
  });
}

/** Throws `sim-bind-failed`. */
export async function openHttpFront(host: string, port: number, handler: HttpHandler): Promise<HttpFront> {
  const server = http.createServer(handler);
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  // Generations take as long as they take.
  server.requestTimeout = 0;
  await listen(server, host, port);
  const bound = (server.address() as AddressInfo).port;
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      if (!server.listening) {
        resolve();
        return;
      }
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return {
    port: bound,
    get isListening() {
      return server.listening;
    },
    refuse: stop,
    resume: async () => {
      if (!server.listening) await listen(server, host, bound);
    },
    dropConnections: () => server.closeAllConnections(),
    close: stop,
  };
}

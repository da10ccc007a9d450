/**
 * A real HTTP server that answers exactly what a test scripts, byte for byte, and keeps what it received. For what a
 * well-behaved engine never does; everything else is tested against the simulator.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  readonly json: Record<string, unknown>;
  /** The connection went away before the answer was finished. */
  isAborted: boolean;
}

export type Script = (res: ServerResponse, request: ReceivedRequest, index: number) => void | Promise<void>;

export interface ScriptedUpstream extends AsyncDisposable {
  readonly origin: string;
  readonly port: number;
  readonly received: readonly ReceivedRequest[];
  script: Script;
  close(): Promise<void>;
}

export async function startUpstream(script: Script, host = '127.0.0.1'): Promise<ScriptedUpstream> {
  const received: ReceivedRequest[] = [];
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    res.on('error', () => undefined);
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const body = Buffer.concat(chunks);
      const request: ReceivedRequest = {
        method: req.method ?? '',
        url: req.url ?? '',
        headers: req.headers,
        rawHeaders: req.rawHeaders,
        body,
        json: body.length > 0 ? (JSON.parse(body.toString()) as Record<string, unknown>) : {},
        isAborted: false,
      };
      res.on('close', () => {
        if (!res.writableFinished) request.isAborted = true;
      });
      received.push(request);
      void upstream.script(res, request, received.length - 1);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen({ port: 0, host, backlog: 4096 }, resolve);
  });
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    if (!server.listening) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
  };
  const upstream: ScriptedUpstream = {
    origin: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    received,
    script,
    close,
    [Symbol.asyncDispose]: close,
  };
  return upstream;
}

/** Answers with JSON text. */
export function json(text: string | object, status = 200, headers: Record<string, string> = {}): Script {
  const body = typeof text === 'string' ? text : JSON.stringify(text);
  return (res) => {
    res.writeHead(status, { 'content-type': 'application/json', ...headers });
    res.end(body);
  };
}

/** Answers with events, one write each, a macrotask apart. */
export function events(parts: readonly (string | Buffer)[]): Script {
  return async (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    for (const part of parts) {
      res.write(part);
      await new Promise((resolve) => setImmediate(resolve));
    }
    res.end();
  };
}

/** A port on which nothing listens. */
export { reservePort as closedPort } from '../../support/reserved-ports.ts';

/**
 * WebSocket sessions of the control port at `/api/session`: JSON text frames of shared/wire.ts.
 *
 * An upgrade from a wrong Host or Origin is refused with 403 before the handshake. One that is merely not signed in is
 * accepted and closed at once with 4401, because a browser tells a page the reason of a close but never that of a
 * refused upgrade; no session exists in between.
 */
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type RawData, type WebSocket } from 'ws';
import type { Logger } from '#engine/log.ts';
import { createSession, type SessionEngine } from '#engine/session/session.ts';

export const SESSION_PATH = '/api/session';
/** Close codes of the application's range (RFC 6455, 7.4.2). */
const CLOSE_UNAUTHORIZED = 4401;
const CLOSE_TOO_MANY = 4429;
const MAX_MESSAGE_BYTES = 1024 * 1024;
const MAX_SOCKETS = 32;
/** A peer that answers no ping for this long is gone (a laptop that went to sleep behind a tunnel). */
const PING_INTERVAL_MS = 20_000;

export interface SessionSocketsOptions {
  readonly engine: SessionEngine;
  readonly server: Server;
  readonly logger: Logger;
  /** Why the request may not have a socket at all; undefined when it may. */
  readonly refusal: (request: IncomingMessage) => string | undefined;
  readonly isSignedIn: (request: IncomingMessage) => boolean;
}

export interface SessionSockets {
  count(): number;
  close(): void;
}

export function serveSessionSockets(options: SessionSocketsOptions): SessionSockets {
  const { engine, server, logger, refusal, isSignedIn } = options;
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false });

  const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    socket.on('error', (error) => logger.debug({ err: error }, 'a socket failed during its upgrade'));
    const why = refusal(request) ?? ((request.url ?? '').split('?')[0] === SESSION_PATH ? undefined : 'There is no socket at this path.');
    if (why !== undefined) {
      socket.end(`HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(why)}\r\n\r\n${why}`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      if (!isSignedIn(request)) webSocket.close(CLOSE_UNAUTHORIZED, 'not signed in: open the link pdscope printed, or run pdscope link');
      else if (sockets.clients.size > MAX_SOCKETS) webSocket.close(CLOSE_TOO_MANY, `more than ${MAX_SOCKETS} pages are open`);
      else serve(webSocket, engine, logger);
    });
  };
  server.on('upgrade', onUpgrade);

  return {
    count: () => sockets.clients.size,
    close() {
      server.off('upgrade', onUpgrade);
      for (const client of sockets.clients) {
        client.close(1001, 'pdscope is stopping');
        // A peer that never answers the close would hold the listener open.
        setTimeout(() => client.terminate(), 200).unref();
      }
      sockets.close();
    },
  };
}

function serve(webSocket: WebSocket, engine: SessionEngine, logger: Logger): void {
  const session = createSession(
    engine,
    {
      send: (message) => {
        if (webSocket.readyState === webSocket.OPEN) webSocket.send(JSON.stringify(message));
      },
      bufferedBytes: () => webSocket.bufferedAmount,
    },
    { logger },
  );
  let isAlive = true;
  const pinger = setInterval(() => {
    if (!isAlive) {
      webSocket.terminate();
      return;
    }
    isAlive = false;
    webSocket.ping();
  }, PING_INTERVAL_MS);
  webSocket.on('pong', () => {
    isAlive = true;
  });
  webSocket.on('message', (data: RawData, isBinary: boolean) => {
    const message = isBinary ? undefined : parseJson(data);
    if (message === undefined) webSocket.close(1003, 'frames are JSON text');
    else session.receive(message.value);
  });
  webSocket.on('error', (error) => logger.debug({ err: error }, 'a session socket failed'));
  webSocket.on('close', () => {
    clearInterval(pinger);
    session.close();
  });
}

/** The parsed text, boxed so that `null` is a value; undefined when it is not JSON. */
function parseJson(data: RawData): { readonly value: unknown } | undefined {
  try {
    const bytes = Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer);
    return { value: JSON.parse(bytes.toString('utf8')) as unknown };
  } catch {
    return undefined;
  }
}

/** Answers that the proxy gives itself. */
import type { ServerResponse } from 'node:http';
import { isValidRequestId } from './headers.ts';
import type { ProxyError } from './proxy-error.ts';

/** How long the rest of a refused request is read and thrown away, so that the client gets to read why, ms. */
const LINGER_MS = 1000;

/** Sends a JSON text. Safe on HEAD requests, whose body Node leaves out. */
export function sendJson(res: ServerResponse, status: number, json: string, headers: readonly string[] = []): void {
  const body = Buffer.from(json);
  res.writeHead(status, ['content-type', 'application/json', 'content-length', String(body.length), ...headers]);
  res.end(body);
}

/** Sends an error's OpenAI-shaped body. */
export function sendError(res: ServerResponse, error: ProxyError, requestId?: string): void {
  const headers = [...error.headers];
  if (isValidRequestId(requestId)) headers.push('x-request-id', requestId);
  if (!res.req.complete) lingerAfter(res);
  sendJson(res, error.status, error.toJson(requestId), headers);
}

/**
 * A request refused before its body was read: closing at once would reset the connection and with it the answer.
 * What still comes is discarded for a moment; if it does not end, the connection does.
 */
function lingerAfter(res: ServerResponse): void {
  const { req } = res;
  res.once('finish', () => {
    req.resume();
    const timer = setTimeout(() => req.socket.destroy(), LINGER_MS);
    req.once('end', () => clearTimeout(timer));
    req.socket.once('close', () => clearTimeout(timer));
  });
}

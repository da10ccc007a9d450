/** Reads a request body into one Buffer, up to a limit; a body that is announced or grows larger is not read on. */
import type { IncomingMessage } from 'node:http';
import { ProxyError } from './proxy-error.ts';

/**
 * Resolves with the body's bytes (empty without a body).
 * Rejects with ProxyError 413 `body_too_large`, or 400 `client_closed` when the client left before it was complete.
 */
export function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const announced = Number(req.headers['content-length'] ?? 0);
  if (announced > maxBytes) return Promise.reject(tooLarge(maxBytes));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) {
        req.removeAllListeners('data');
        req.pause();
        reject(tooLarge(maxBytes));
        return;
      }
      chunks.push(chunk);
    });
    // Not `once`: these come once anyway, and each wrapper costs.
    req.on('end', () => {
      const [only] = chunks;
      resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks));
    });
    const onGone = (): void => {
      // Also emitted after a complete body; an error made for nothing costs its stack trace.
      if (!req.complete) reject(new ProxyError(400, 'client_closed', 'The client left before its request was complete.'));
    };
    req.on('error', onGone);
    req.on('close', onGone);
  });
}

function tooLarge(maxBytes: number): ProxyError {
  const limit = maxBytes >= 1024 * 1024 ? `${Math.floor(maxBytes / 1024 / 1024)} MiB` : `${maxBytes} bytes`;
  return new ProxyError(413, 'body_too_large', `The request body is larger than this proxy's limit of ${limit}.`);
}

/** The little HTTP that the side channel and the bootstrap server share. */
import http, { type IncomingMessage } from 'node:http';

const REQUEST_TIMEOUT_MS = 5000;
const MAX_ANSWER_BYTES = 1 << 20;

/** Throws on malformed JSON and on more than `maxBytes`. */
export async function readJson(stream: IncomingMessage, maxBytes: number): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Error('message too large');
    chunks.push(chunk);
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

export interface JsonRequest {
  /** Sent by POST; absent: GET. */
  readonly body?: object;
  readonly signal?: AbortSignal;
}

/** Throws when nobody answers within five seconds, and on bodies that are not JSON. */
export function requestJson(url: string, { body, signal }: JsonRequest): Promise<{ readonly status: number; readonly value: unknown }> {
  return new Promise((resolve, reject) => {
    const request = http.request(
      url,
      {
        method: body === undefined ? 'GET' : 'POST', agent: false, timeout: REQUEST_TIMEOUT_MS,
        ...(body !== undefined && { headers: { 'content-type': 'application/json' } }),
        ...(signal !== undefined && { signal }),
      },
      (response) => {
        readJson(response, MAX_ANSWER_BYTES).then((value) => resolve({ status: response.statusCode ?? 0, value }), reject);
      },
    );
    request.on('timeout', () => request.destroy(new Error('timed out')));
    request.on('error', reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** One bounded GET for probes and scrapes: size-limited, time-limited, redirects handed back, never on the legs' pools. */
import { request, type Dispatcher } from 'undici';
import { PdscopeError } from '#shared/errors.ts';

export interface GetOptions {
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string>>;
  /** For the whole exchange, milliseconds. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly signal?: AbortSignal;
}

export interface GetAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** Fetches `url`. @throws undici and socket errors as they are; PdscopeError `answer_too_large`. */
export async function httpGet(url: string, options: GetOptions): Promise<GetAnswer> {
  const timeout = AbortSignal.timeout(options.timeoutMs);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
  const answer = await request(url, { method: 'GET', dispatcher: options.dispatcher, headers: options.headers, signal });
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of answer.body) {
    const chunk = part as Buffer;
    bytes += chunk.length;
    // Leaving the loop destroys the body, and with it the connection.
    if (bytes > options.maxBytes) throw new PdscopeError('answer_too_large', `the answer of ${url} is larger than ${options.maxBytes} bytes`);
    parts.push(chunk);
  }
  return { status: answer.statusCode, headers: answer.headers, text: Buffer.concat(parts).toString('utf8') };
}

/** First value of a header, if any. */
export function headerValue(headers: GetAnswer['headers'], name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** An answer that pdscope has whole in memory: one JSON body. */
import type { Answer, AnswerSink } from './connectors/connector.ts';
import type { RawHeaders } from './headers.ts';

/** Described anew: they belong to the body as it came. */
const OF_THE_BODY = new Set(['content-type', 'content-length', 'content-encoding', 'transfer-encoding']);

export class BufferedAnswer implements Answer {
  readonly status = 200;
  readonly statusText = 'OK';
  readonly isEventStream = false;
  readonly rawHeaders: RawHeaders;
  readonly #body: Buffer;

  /** @param upstreamHeaders of the answer that `body` was made from; those that describe its body are replaced. */
  constructor(body: Buffer, upstreamHeaders: RawHeaders = []) {
    this.#body = body;
    this.rawHeaders = [...headersWithoutBody(upstreamHeaders), 'Content-Type', 'application/json', 'Content-Length', String(body.length)];
  }

  pipe(sink: AnswerSink): void {
    sink.data(this.#body, 0);
    sink.end();
  }

  resume(): void {
    // Everything was handed over at once.
  }
}

/** Headers of an answer for a body made anew. */
export function headersWithoutBody(headers: RawHeaders): RawHeaders {
  const kept: (Buffer | string)[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at];
    const value = headers[at + 1];
    if (name !== undefined && value !== undefined && !OF_THE_BODY.has(name.toString('latin1').toLowerCase())) kept.push(name, value);
  }
  return kept;
}

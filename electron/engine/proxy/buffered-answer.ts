/** An answer that pdscope has whole in memory: one JSON body. */
import type { Answer, AnswerSink } from './connectors/connector.ts';
import { headersWithoutBody, type RawHeaders } from './headers.ts';

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

/**
 * The way to the client: an answer's head and bytes, unchanged and unbuffered, with back-pressure to the instance.
 *
 * The head goes out with the first byte, so the status is always the real one, also of an answer that fails before it.
 * A stream that breaks off ends with an error event and without `[DONE]`; any other body that breaks off takes the
 * connection down with it, because only that tells an HTTP client that the body is not complete.
 */
import type { ServerResponse } from 'node:http';
import type { RequestTrace } from '../telemetry/trace.ts';
import type { Answer, AnswerSink } from './connectors/connector.ts';
import { downstreamHeaders } from './headers.ts';
import { ProxyError } from './proxy-error.ts';
import { sendError } from './respond.ts';
import { dataEvent } from './sse-text.ts';

export interface ClientStreamOptions {
  readonly res: ServerResponse;
  readonly answer: Answer;
  readonly trace: RequestTrace;
  readonly requestId: string;
  /** How long the client may leave the stream unread, ms. */
  readonly stallMs: number;
  /** The answer broke off, or the client stalled; called once. */
  readonly onFailure: (error: ProxyError) => void;
}

export class ClientStream implements AnswerSink {
  readonly #options: ClientStreamOptions;
  #isHeadSent = false;
  #isListening = false;
  #stallTimer: NodeJS.Timeout | undefined;

  constructor(options: ClientStreamOptions) {
    this.#options = options;
  }

  data(chunk: Buffer, events: number): boolean {
    const { res, trace } = this.#options;
    if (!this.#isHeadSent) this.#sendHead();
    trace.chunk(chunk.length, events);
    if (res.write(chunk)) return true;
    this.#waitForDrain();
    return false;
  }

  end(): void {
    this.#options.res.end();
  }

  fail(error: ProxyError, isAtBorder: boolean): void {
    const { res, answer, trace, requestId, onFailure } = this.#options;
    clearTimeout(this.#stallTimer);
    onFailure(error);
    if (res.writableEnded || res.destroyed) return;
    if (!this.#isHeadSent) {
      trace.responded(error.status);
      sendError(res, error, requestId);
      return;
    }
    const isBroken = !answer.isEventStream || res.hasHeader('content-length') || error.code === 'client_stalled';
    if (isBroken) {
      res.destroy();
      return;
    }
    res.end(`${isAtBorder ? '' : '\n\n'}${dataEvent(error.toJson(requestId))}`);
  }

  #sendHead(): void {
    const { res, answer, trace, requestId } = this.#options;
    this.#isHeadSent = true;
    const headers = downstreamHeaders(answer.rawHeaders, requestId);
    if (answer.statusText === '') res.writeHead(answer.status, headers);
    else res.writeHead(answer.status, answer.statusText, headers);
    trace.responded(answer.status);
  }

  #waitForDrain(): void {
    const { res, stallMs } = this.#options;
    clearTimeout(this.#stallTimer);
    this.#stallTimer = setTimeout(() => this.#onStall(), stallMs);
    if (this.#isListening) return;
    // One pair of listeners for the whole stream: a slow client drains thousands of times.
    this.#isListening = true;
    res.on('drain', () => this.#onDrain());
    res.once('close', () => clearTimeout(this.#stallTimer));
  }

  #onDrain(): void {
    clearTimeout(this.#stallTimer);
    this.#options.answer.resume();
  }

  #onStall(): void {
    const message = `The client read nothing of its answer for ${this.#options.stallMs} ms.`;
    this.fail(new ProxyError(499, 'client_stalled', message), false);
  }
}

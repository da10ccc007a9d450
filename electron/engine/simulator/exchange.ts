/** One HTTP exchange: request with its body, and the ways to answer, through which the wire faults act. */
import type http from 'node:http';
import type { ApiError } from './api-error.ts';
import { MESSAGES_PATH } from './sim-api.ts';
import type { SimFaults } from './sim-faults.ts';

export interface ExchangeInput {
  readonly request: http.IncomingMessage;
  readonly response: http.ServerResponse;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: Buffer;
  readonly faults: SimFaults;
}

export class Exchange {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: Buffer;
  readonly #request: http.IncomingMessage;
  readonly #response: http.ServerResponse;
  readonly #faults: SimFaults;
  #chunks = 0;
  #isCut = false;

  constructor(input: ExchangeInput) {
    this.#request = input.request;
    this.#response = input.response;
    this.#faults = input.faults;
    this.method = input.request.method ?? 'GET';
    this.path = input.path;
    this.query = input.query;
    this.body = input.body;
  }

  /** A request header, first value. */
  header(name: string): string | undefined {
    const value = this.#request.headers[name];
    return Array.isArray(value) ? value[0] : value;
  }

  setHeader(name: string, value: string): void {
    this.#response.setHeader(name, value);
  }

  /** Runs when the client goes away before the answer is complete. */
  onAbort(listener: () => void): void {
    this.#response.on('close', () => {
      if (!this.#response.writableFinished) listener();
    });
  }

  json(value: object, status = 200): void {
    this.#send(status, 'application/json', JSON.stringify(value));
  }

  text(value: string, contentType: string, status = 200): void {
    this.#send(status, contentType, value);
  }

  empty(status = 200): void {
    this.#response.writeHead(status, { 'content-length': '0' }).end();
  }

  /** The connection breaks before anything was answered (TCP reset). */
  reset(): void {
    this.#request.socket.resetAndDestroy();
  }

  error(error: ApiError): void {
    this.json(this.path.startsWith(MESSAGES_PATH) ? error.toMessagesBody() : error.toBody(), error.status);
  }

  /** An inference answer, whole: `reset-mid-stream` cuts it after the headers. */
  inferenceJson(value: object): void {
    const body = Buffer.from(JSON.stringify(value));
    if (this.#faults.fault !== 'reset-mid-stream') {
      this.#send(200, 'application/json', body);
      return;
    }
    this.#response.writeHead(200, { 'content-type': 'application/json', 'content-length': String(body.length) });
    this.#response.write(body.subarray(0, Math.floor(body.length / 2)), () => this.#request.socket.destroy());
  }

  /** vLLM's headers go out at once, before the first token. */
  beginStream(): void {
    this.#response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    this.#response.flushHeaders();
  }

  writeStream(text: string): void {
    if (this.#isCut) return;
    this.#chunks += 1;
    if (this.#faults.fault === 'reset-mid-stream' && this.#chunks >= this.#faults.amount) {
      this.#isCut = true;
      this.#response.write(text, () => this.#request.socket.destroy());
      return;
    }
    this.#response.write(text);
  }

  endStream(): void {
    if (!this.#isCut) this.#response.end();
  }

  #send(status: number, contentType: string, body: string | Buffer): void {
    this.#response
      .writeHead(status, { 'content-type': contentType, 'content-length': String(Buffer.byteLength(body)) })
      .end(body);
  }
}

/**
 * A leg whose answer goes to the client as it comes. Bytes are handed on unchanged; on the way they are only counted
 * and searched for an error object. What the end says is read after the last byte went out.
 *
 * The answer counts as open with its first byte, not with its head: an instance that fails in between can still be
 * replaced, and an empty 200 never reaches the client as success.
 */
import type { LegFacts } from '../telemetry/trace.ts';
import { errorIn, factsOfBody, factsOfStream, findErrorEvent, isErrorBody } from './answer-facts.ts';
import { ByteTail } from './byte-tail.ts';
import type { Answer, AnswerSink } from './connectors/connector.ts';
import type { RawHeaders } from './headers.ts';
import { Leg, type LegOwner, type LegSetup } from './leg.ts';
import { describeLeg, ProxyError } from './proxy-error.ts';
import { SseScanner } from './sse-scanner.ts';
import { reportedError, streamRefusal } from './upstream-error.ts';

/** Enough for the last events, and for the fields after `choices` of a body. */
const TAIL_BYTES = 16 * 1024;
/** What a capture keeps of an answer. */
const CAPTURE_BYTES = 256 * 1024;
/** What may wait for the connector to hand the answer over. */
const MAX_WAITING_BYTES = 256 * 1024;
const DONE = '[DONE]';
/** How a stream begins that has nothing but an error to tell. */
const FIRST_ERROR = /^data: ?\{\s*"error"/u;
/** Bytes, because a text is converted for each search. */
const ERROR_KEY = Buffer.from('"error"');

export class StreamLeg extends Leg implements Answer {
  /** Resolves with the first byte of a 2xx answer, rejects with ProxyError. */
  readonly opened: Promise<Answer>;
  rawHeaders: RawHeaders = [];
  statusText = '';
  isEventStream = false;
  #resolve!: (answer: Answer) => void;
  #reject!: (error: ProxyError) => void;
  readonly #tail: ByteTail;
  readonly #isStreamAsked: boolean;
  #scanner: SseScanner | undefined;
  #isCompressed = false;
  #contentType = '';
  #isOpen = false;
  #sink: AnswerSink | undefined;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #waitingEnd: 'ended' | ProxyError | undefined;
  #firstBytes: Buffer | undefined;
  #suspect: Buffer | undefined;

  constructor(owner: LegOwner, setup: LegSetup, isStreamAsked: boolean) {
    super(owner, setup);
    this.#isStreamAsked = isStreamAsked;
    this.#tail = new ByteTail(Math.max(setup.request.tailBytes ?? 0, owner.trace.wantsBodies ? CAPTURE_BYTES : TAIL_BYTES));
    this.opened = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  pipe(sink: AnswerSink): void {
    this.#sink = sink;
    const waiting = this.#waiting;
    this.#waiting = [];
    let isFlowing = true;
    for (const chunk of waiting) isFlowing = this.#handOver(sink, chunk);
    if (this.#waitingEnd !== undefined) {
      if (this.#waitingEnd === 'ended') this.#finish(sink);
      else sink.fail(this.#waitingEnd, this.#isAtBorder);
      return;
    }
    if (isFlowing) this.resume();
    else this.controller?.pause();
  }

  resume(): void {
    if (this.controller?.paused === true) this.controller.resume();
  }

  protected override onHead(rawHeaders: RawHeaders, headers: Record<string, string | string[] | undefined>, statusText: string): void {
    this.rawHeaders = rawHeaders;
    this.statusText = statusText;
    const encoding = headers['content-encoding'];
    this.#isCompressed = encoding !== undefined && encoding !== 'identity';
    this.#contentType = String(headers['content-type'] ?? '').toLowerCase();
  }

  protected override onBody(chunk: Buffer): void {
    if (!this.#isOpen) {
      this.isEventStream = !this.#isCompressed && this.#looksLikeEvents(chunk);
      if (this.isEventStream && FIRST_ERROR.test(chunk.toString('latin1', 0, 32)) && this.#refuse(chunk)) return;
      this.#isOpen = true;
      this.#firstBytes = chunk;
      if (this.isEventStream) this.#scanner = new SseScanner();
      this.#resolve(this);
    }
    const sink = this.#sink;
    if (sink === undefined) {
      this.#waiting.push(chunk);
      this.#waitingBytes += chunk.length;
      if (this.#waitingBytes > MAX_WAITING_BYTES) this.controller?.pause();
    } else if (!this.#handOver(sink, chunk)) {
      this.controller?.pause();
    }
  }

  /** Fails as if the error had come with its status; false when the event is not whole yet. */
  #refuse(first: Buffer): boolean {
    const error = findErrorEvent(first);
    if (error === undefined) return false;
    this.legTrace.facts(this.owner.trace.wantsBodies ? { body: first } : {});
    this.fail(streamRefusal(this.kind, this.instance, error, this.request.kvTransferParams !== undefined));
    return true;
  }

  protected override onBodyEnd(): void {
    if (!this.#isOpen) this.failEmpty();
    else if (this.#sink === undefined) this.#waitingEnd = 'ended';
    else this.#finish(this.#sink);
  }

  protected override onFailure(error: ProxyError): void {
    if (!this.#isOpen) this.#reject(error);
    else if (this.#sink === undefined) this.#waitingEnd = error;
    else this.#sink.fail(error, this.#isAtBorder);
  }

  get #isAtBorder(): boolean {
    return this.#scanner?.isAtBorder ?? false;
  }

  #handOver(sink: AnswerSink, chunk: Buffer): boolean {
    this.#tail.push(chunk);
    const scanner = this.#scanner;
    if (scanner === undefined) return sink.data(chunk, 0);
    // Unescaped, so a key or a whole string; which one is looked at when the stream has ended.
    if (this.#suspect === undefined && chunk.includes(ERROR_KEY)) this.#suspect = chunk;
    return sink.data(chunk, scanner.scan(chunk));
  }

  /** The client gets its end before anything is parsed, unless the stream may be incomplete. */
  #finish(sink: AnswerSink): void {
    const lastBytes = this.#tail.read();
    if (this.isEventStream) {
      this.#finishStream(sink, lastBytes);
      return;
    }
    sink.end();
    if (this.#isCompressed) {
      this.#complete({}, lastBytes);
      return;
    }
    const isError = this.#firstBytes !== undefined && isErrorBody(this.#firstBytes);
    this.#complete(factsOfBody(lastBytes), lastBytes, isError ? errorIn(lastBytes) : undefined);
  }

  #finishStream(sink: AnswerSink, lastBytes: Buffer): void {
    const isDone = lastBytes.toString('latin1', Math.max(0, lastBytes.length - 32)).includes(DONE);
    if (isDone) sink.end();
    const { facts, error: lastError } = factsOfStream(lastBytes);
    const reported = lastError ?? (this.#suspect === undefined ? undefined : findErrorEvent(this.#suspect));
    // Streams of forwarded routes have marks of their own, or none: there the end of the body is the end.
    if (isDone || reported !== undefined || facts.finishReason !== undefined || this.kind === 'forward') {
      if (!isDone) sink.end();
      this.#complete(facts, lastBytes, reported);
      return;
    }
    const message = `${describeLeg(this.kind, this.instance)} ended its stream without a finish reason and without [DONE].`;
    const error = new ProxyError(502, 'stream_incomplete', message, { leg: this.kind, instance: this.instance });
    this.#recordFacts(facts, lastBytes);
    this.settle('error', error);
    sink.fail(error, this.#isAtBorder);
  }

  /** @param reported what the engine itself called an error inside its complete answer. */
  #complete(facts: LegFacts, lastBytes: Buffer, reported?: unknown): void {
    this.#recordFacts(facts, lastBytes);
    if (reported !== undefined) {
      this.settle('error', reportedError(this.kind, this.instance, reported));
      return;
    }
    this.owner.answered(this.request, facts);
    this.settle('ok');
    this.request.onEnd?.({ facts, lastBytes, isWhole: this.#tail.isWhole });
  }

  #recordFacts(facts: LegFacts, lastBytes: Buffer): void {
    this.legTrace.facts(this.owner.trace.wantsBodies ? { ...facts, body: lastBytes } : facts);
  }

  /** Some gateways label a stream as application/json; what it begins with settles it. */
  #looksLikeEvents(first: Buffer): boolean {
    if (this.#contentType.includes('event-stream')) return true;
    return this.#isStreamAsked && /^(?:data|event|id|retry)?:/.test(first.toString('latin1', 0, 8));
  }
}

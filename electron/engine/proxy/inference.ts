/**
 * The inference routes: from a client's POST to the last byte of its answer.
 *
 * Every request is traced from its arrival, refused ones included. The client's disconnect (a half-close counts: an
 * ordinary close looks the same, and waiting for the difference would keep engines busy for nobody) stops whichever
 * legs run, at once.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorMessage } from '#shared/errors.ts';
import type { ProtocolSettings } from '#shared/protocol.ts';
import { API_PATHS, type Api, type RecordedApi } from '#shared/vocabulary.ts';
import type { LegScheduler } from '../fleet/ports.ts';
import type { Logger } from '../log.ts';
import type { RequestTrace, Tracer } from '../telemetry/trace.ts';
import { asksForReport, withCacheReport } from './cache-report.ts';
import { checkContentType, parseBody, type ClientRequest } from './client-request.ts';
import { ClientStream } from './client-stream.ts';
import type { ConnectWatch } from './connect-watch.ts';
import type { Answer, Connector } from './connectors/connector.ts';
import { runEncodeStage } from './encode-stage.ts';
import { Exchange } from './exchange.ts';
import { createForwarder, type ForwardRoute } from './forward-routes.ts';
import { isValidRequestId, pickRequestId, upstreamHeaders } from './headers.ts';
import { LinkedSet, type LinkedNode } from './linked-set.ts';
import type { Linter } from './lint/linter.ts';
import type { Policy } from './policies/policy.ts';
import type { PrefixLookup } from './policies/prefix-lookup.ts';
import { DEFAULT_TOKENIZE_DEADLINE_MS, preparePrompt } from './prompt-stage.ts';
import { PromptView } from './prompt-view.ts';
import type { Rewrite } from './prefill-body.ts';
import { ProxyError } from './proxy-error.ts';
import { readBody } from './read-body.ts';
import { sendError } from './respond.ts';
import { RoutingTokenizer } from './routing-tokenizer.ts';
import type { ProxyTimeouts } from './timeouts.ts';
import { hasTokenIds } from './token-ids.ts';

export interface InferenceOptions {
  readonly scheduler: LegScheduler;
  readonly tracer: Tracer;
  readonly logger: Logger;
  readonly timeouts: ProxyTimeouts;
  readonly connectWatch: ConnectWatch;
  readonly maxBodyBytes: number;
  readonly maxRetries: number;
  readonly openaiApiKey: string | undefined;
  readonly linter: Linter;
  /** What instances hold, for routing by prefix. Absent: nobody keeps an index. */
  readonly prefixes?: PrefixLookup;
  readonly onDegraded: (why: string) => void;
}

/** What is in force when a request begins; it keeps them to its end. */
export interface Modes {
  readonly connector: Connector;
  readonly policy: Policy;
  readonly settings: ProtocolSettings;
}

export class Inference {
  readonly #options: InferenceOptions;
  readonly #tokenizer = new RoutingTokenizer();
  readonly #running = new LinkedSet<InferenceRun>();

  constructor(options: InferenceOptions) {
    this.#options = options;
  }

  /** Serves one request; settles when its answer has been handed over or refused. Never rejects. */
  handle(api: Api, req: IncomingMessage, res: ServerResponse, modes: Modes): Promise<void> {
    return this.#run({ api, path: API_PATHS[api], req, res, modes });
  }

  /** Serves a request that goes to one instance as it is. */
  forward(route: ForwardRoute, req: IncomingMessage, res: ServerResponse, modes: Modes): Promise<void> {
    const connector = createForwarder(route, modes.connector, this.#options.scheduler);
    return this.#run({ api: 'forward', path: route.path, req, res, modes: { ...modes, connector } });
  }

  async #run(init: RunInit): Promise<void> {
    const { req, res } = init;
    const run = new InferenceRun(this.#options, init, this.#tokenizer);
    this.#running.add(run);
    const onClose = (): void => {
      if (this.#running.delete(run)) run.onClose();
    };
    res.on('close', onClose);
    // A pipelined response that still waits for its turn has no socket and never hears of the connection's end.
    if (res.socket === null) req.socket.once('close', onClose);
    await run.serve();
  }

  /** Ends every running request with `reason`. */
  stopAll(reason: ProxyError): void {
    for (const run of this.#running.toArray()) run.stop(reason);
  }
}

interface RunInit {
  readonly api: RecordedApi;
  readonly path: string;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly modes: Modes;
}

class InferenceRun implements LinkedNode {
  links: LinkedNode['links'];
  readonly #options: InferenceOptions;
  readonly #init: RunInit;
  readonly #tokenizer: RoutingTokenizer;
  readonly #trace: RequestTrace;
  #requestId: string;
  #exchange: Exchange | undefined;
  /** What pdscope changed in the body before any connector saw it. */
  #rewrites: readonly Rewrite[] = [];
  /** Set when the request ended otherwise than well. */
  #failure: ProxyError | undefined;

  constructor(options: InferenceOptions, init: RunInit, tokenizer: RoutingTokenizer) {
    this.#options = options;
    this.#init = init;
    this.#tokenizer = tokenizer;
    const { headers } = init.req;
    this.#requestId = pickRequestId(headers['x-request-id']);
    const { traceparent } = headers;
    this.#trace = options.tracer.begin({
      requestId: this.#requestId,
      api: init.api,
      ...(init.api === 'forward' && { path: init.path }),
      connector: init.modes.connector.name,
      headers,
      ...(typeof traceparent === 'string' && { traceparent }),
    });
  }

  async serve(): Promise<void> {
    const { res, modes } = this.#init;
    try {
      const request = await this.#readRequest();
      const exchange = this.#createExchange(request);
      this.#exchange = exchange;
      const encoding = modes.settings.encodeStage === 'auto' ? runEncodeStage(exchange) : undefined;
      if (encoding !== undefined) await encoding;
      const preparing = this.#preparePrompt(exchange);
      if (preparing !== undefined) await preparing;
      const answer = await runConnector(modes.connector, exchange);
      exchange.answeredWith(answer);
      if (res.destroyed) return;
      this.#relay(answer, exchange);
    } catch (error) {
      this.#refuse(error);
    }
  }

  stop(reason: ProxyError): void {
    this.#failure ??= reason;
    this.#exchange?.stop(reason);
  }

  /** The response is over: finished, or its connection is gone. */
  onClose(): void {
    const { res } = this.#init;
    const failure = this.#failure ?? this.#exchange?.failure;
    if (failure !== undefined && failure.code !== 'client_closed') {
      this.#exchange?.stop(failure);
      this.#trace.end('error', failure.toRequestError());
    } else if (res.writableFinished) {
      this.#exchange?.finished();
      this.#trace.end('ok');
    } else {
      const gone = new ProxyError(499, 'client_closed', 'The client closed the connection before its answer was complete.');
      this.#exchange?.stop(gone);
      this.#trace.end('aborted', gone.toRequestError());
    }
  }

  async #readRequest(): Promise<ClientRequest> {
    const { api, req, res, modes } = this.#init;
    const { headers } = req;
    checkContentType(headers);
    const isWaitingForContinue = headers.expect?.toLowerCase() === '100-continue';
    const { maxBodyBytes } = this.#options;
    const reading = readBody(req, maxBodyBytes);
    if (isWaitingForContinue && Number(headers['content-length'] ?? 0) <= maxBodyBytes) res.writeContinue();
    const body = await reading;
    const { json, members } = parseBody(body);
    // vLLM takes a body's request_id when there is no header; the header that every leg gets would replace it.
    if (!isValidRequestId(headers['x-request-id']) && isValidRequestId(json['request_id'])) this.#requestId = json['request_id'];
    const requestId = this.#requestId;
    const model = json['model'];
    const isStream = json['stream'] === true;
    // Only connectors of a P/D protocol look at it, and a forwarded request meets none.
    const request: ClientRequest = { api: api === 'forward' ? 'completions' : api, requestId, headers, body, json, members, isStream };
    const reporting = api === 'forward' || modes.settings.reportCache !== true ? undefined : withCacheReport(request);
    if (reporting !== undefined) this.#rewrites = [reporting.rewrite];
    const isAsking = reporting !== undefined || asksForReport(json);
    this.#trace.parsed({ isStream, requestBytes: body.length, body, requestId, ...(typeof model === 'string' && { model }), ...(isAsking && { asksForReport: true }), ...(hasTokenIds(json) && { hasTokenIds: true }) });
    return reporting?.request ?? request;
  }

  /** Undefined when routing does not look at prompts, or has nothing to wait for. */
  #preparePrompt(exchange: Exchange): Promise<void> | undefined {
    const { prompt, request } = exchange;
    const { connector, settings } = this.#init.modes;
    if (prompt === undefined || connector.rendersPrompt?.(request) === true) return undefined;
    return preparePrompt(exchange, {
      prompt,
      tokenizer: this.#tokenizer,
      isAllowed: settings.tokenizeForRouting ?? true,
      deadlineMs: settings.tokenizeDeadlineMs ?? DEFAULT_TOKENIZE_DEADLINE_MS,
      maySkipPrefill: (settings.prefillSkipTokens ?? 0) > 0,
    });
  }

  #createExchange(request: ClientRequest): Exchange {
    const { scheduler, timeouts, connectWatch, maxRetries, logger, openaiApiKey, linter, prefixes, onDegraded } = this.#options;
    const { connector, policy, settings } = this.#init.modes;
    const prefillSkipTokens = settings.prefillSkipTokens ?? 0;
    // A forwarded request may be anything.
    const looksAtPrompt = this.#init.api !== 'forward' && (policy.wantsPrompt === true || prefillSkipTokens > 0);
    return new Exchange({
      request,
      headers: upstreamHeaders(request.headers, { requestId: request.requestId, openaiApiKey }),
      path: this.#init.path,
      rewrites: this.#rewrites,
      scheduler,
      policy,
      connector,
      linter,
      blockFatal: settings.blockFatal,
      ...(looksAtPrompt && { prompt: new PromptView(request, prefixes, this.#trace) }),
      prefillSkipTokens,
      onDegraded,
      trace: this.#trace,
      timeouts,
      connectWatch,
      maxRetries,
      logger,
    });
  }

  #relay(answer: Answer, exchange: Exchange): void {
    answer.pipe(
      new ClientStream({
        res: this.#init.res,
        answer,
        trace: this.#trace,
        requestId: this.#requestId,
        stallMs: this.#options.timeouts.idleMs,
        onFailure: (error) => {
          this.#failure ??= error;
          exchange.stop(error);
        },
      }),
    );
  }

  #refuse(error: unknown): void {
    const { res } = this.#init;
    let failure: ProxyError;
    if (error instanceof ProxyError) {
      failure = error;
    } else {
      this.#options.logger.error({ error: errorMessage(error), requestId: this.#requestId }, 'a request failed inside the proxy');
      failure = new ProxyError(500, 'internal_error', `pdscope failed: ${errorMessage(error)}`, { cause: error });
    }
    this.#exchange?.stop(failure);
    if (failure.code === 'client_closed' || res.destroyed) return;
    this.#failure ??= failure;
    this.#trace.responded(failure.status);
    sendError(res, failure, this.#requestId);
  }
}

/** Runs a connector, again from its start when it failed retryably. */
async function runConnector(connector: Connector, exchange: Exchange): Promise<Answer> {
  for (;;) {
    try {
      return await connector.run(exchange);
    } catch (error) {
      if (error instanceof ProxyError) exchange.cancelLegs(error);
      if (!exchange.mayRepeat(error)) throw error;
    }
  }
}

/**
 * Reads requests, applies the faults of the wire, checks the key, and finds the route. Every answer carries
 * `x-pdscope-simulated: 1`: whatever a simulated instance says can be told from a real one.
 */
import type http from 'node:http';
import { errorMessage } from '#shared/errors.ts';
import { ApiError, badRequest, internalError } from './api-error.ts';
import { answerEmbeddings, EMBEDDINGS_PATH } from './embeddings-route.ts';
import { Exchange } from './exchange.ts';
import { generate } from './generation-routes.ts';
import type { HttpHandler } from './http-front.ts';
import { DEV_ROUTES, INFO_ROUTES, PROFILE_ROUTES, RENDER_ROUTES, responseRoute, type Route } from './info-routes.ts';
import type { ReceivedLog, ReceivedRequest } from './received-log.ts';
import { SIM_API_OF_PATH } from './sim-api.ts';
import type { SimContext } from './sim-context.ts';
import type { SimFaults } from './sim-faults.ts';

const SIMULATED_HEADER = 'x-pdscope-simulated';

const MAX_BODY_BYTES = 128 * 1024 * 1024;

/** Guarded by --api-key (serve/middleware/authenticate.py); /health and /metrics stay open. */
const GUARDED = ['/v1', '/v2', '/inference', '/cohere'];

/** Text to tokens and back. */
const TEXT_ROUTE = /\/(?:de)?(?:tokenize|render)$/u;

type Infer = (exchange: Exchange, context: SimContext, done: () => void) => void;

export interface SimServerOptions {
  readonly context: SimContext;
  readonly faults: SimFaults;
  readonly received: ReceivedLog;
  /** Counts inference requests: +1 at start, -1 at end. */
  readonly onInFlight: (change: 1 | -1) => void;
}

async function readBody(request: http.IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new ApiError(413, 'Request Entity Too Large', 'Request body is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

class SimServer {
  readonly #options: SimServerOptions;

  constructor(options: SimServerOptions) {
    this.#options = options;
  }

  async handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { faults, received, context } = this.#options;
    const url = new URL(request.url ?? '/', 'http://sim');
    const entry: ReceivedRequest = {
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: request.headers,
      body: Buffer.alloc(0),
      atMs: performance.now(),
    };
    received.add(entry);
    this.#observe(entry, url.pathname, response);
    response.setHeader('server', 'uvicorn');
    response.setHeader(SIMULATED_HEADER, '1');
    const requestId = request.headers['x-request-id'];
    if (context.options.requestIdHeaders && typeof requestId === 'string') response.setHeader('x-request-id', requestId);
    const body = await readBody(request);
    received.setBody(entry, body);
    if (faults.fault === 'hang') return;
    await context.options.gate?.(entry);
    if (response.destroyed) return;
    const exchange = new Exchange({ request, response, path: url.pathname, query: url.searchParams, body, faults });
    try {
      this.#dispatch(exchange);
    } catch (error) {
      if (!(error instanceof ApiError)) {
        context.options.logger.error({ instance: context.options.name, error: errorMessage(error) }, 'simulated route failed');
      }
      exchange.error(error instanceof ApiError ? error : internalError());
    }
  }

  #observe(entry: ReceivedRequest, pathname: string, response: http.ServerResponse): void {
    response.on('close', () => {
      if (!response.writableFinished) entry.abortedAtMs = performance.now();
      this.#options.context.life().http.observe({
        method: entry.method,
        // Templates, not addresses: the ids of responses are the clients' to choose.
        handler: responseRoute(entry.method, pathname) === undefined && this.#isKnown(entry.method, pathname) ? pathname : 'none',
        status: response.statusCode,
        seconds: (performance.now() - entry.atMs) / 1000,
      });
    });
  }

  #dispatch(exchange: Exchange): void {
    const { context, faults, onInFlight } = this.#options;
    if (!this.#isAllowed(exchange)) {
      exchange.json({ error: 'Unauthorized' }, 401);
      return;
    }
    const infer = exchange.method === 'POST' ? this.#inference(exchange.path) : undefined;
    if (infer === undefined) {
      this.#info(exchange);
      return;
    }
    if (faults.fault === 'reset') {
      exchange.reset();
      return;
    }
    if (faults.fault === 'error-400') throw badRequest('The request was refused (simulated fault)');
    if (faults.fault === 'error-500') throw internalError('Internal server error (simulated fault)');
    if (faults.fault === 'empty-200') {
      exchange.setHeader('content-type', 'application/json');
      exchange.empty();
      return;
    }
    onInFlight(1);
    let isDone = false;
    const done = (): void => {
      if (isDone) return;
      isDone = true;
      onInFlight(-1);
    };
    try {
      infer(exchange, context, done);
    } catch (error) {
      done();
      throw error;
    }
  }

  #info(exchange: Exchange): void {
    const { context } = this.#options;
    const route = this.#route(exchange.method, exchange.path);
    if (route !== undefined) {
      route(exchange, context);
      return;
    }
    const other = exchange.method === 'GET' ? 'POST' : 'GET';
    const isWrongMethod = this.#isKnown(other, exchange.path);
    throw isWrongMethod ? new ApiError(405, 'Method Not Allowed', 'Method Not Allowed') : new ApiError(404, 'Not Found', 'Not Found');
  }

  /** What an instance of this kind infers on a path; these are what the faults of inference act on. */
  #inference(path: string): Infer | undefined {
    const { pooling } = this.#options.context.options;
    if (pooling) return path === EMBEDDINGS_PATH ? answerEmbeddings : undefined;
    const api = SIM_API_OF_PATH.get(path);
    return api === undefined ? undefined : (exchange, context, done) => generate(exchange, api, context, done);
  }

  #route(method: string, path: string): Route | undefined {
    const { devMode, profiler, pooling, textRoutes } = this.#options.context.options;
    if (!textRoutes && TEXT_ROUTE.test(path)) return undefined;
    const key = `${method} ${path}`;
    return (
      INFO_ROUTES.get(key) ??
      (pooling ? undefined : (RENDER_ROUTES.get(key) ?? responseRoute(method, path))) ??
      (profiler ? PROFILE_ROUTES.get(key) : undefined) ??
      (devMode ? DEV_ROUTES.get(key) : undefined)
    );
  }

  #isKnown(method: string, path: string): boolean {
    return (method === 'POST' && this.#inference(path) !== undefined) || this.#route(method, path) !== undefined;
  }

  #isAllowed(exchange: Exchange): boolean {
    const { apiKey } = this.#options.context.options;
    if (apiKey === undefined || !GUARDED.some((prefix) => exchange.path.startsWith(prefix))) return true;
    return exchange.header('authorization') === `Bearer ${apiKey}`;
  }
}

export function createSimHandler(options: SimServerOptions): HttpHandler {
  const server = new SimServer(options);
  return (request, response) => {
    server.handle(request, response).catch((error: unknown) => {
      // The client left while its body was read, or sent too much of it; there is nobody or nothing to answer otherwise.
      if (error instanceof ApiError && !response.headersSent) {
        response.writeHead(error.status, { connection: 'close' }).end(JSON.stringify(error.toBody()));
      } else response.destroy();
    });
  };
}

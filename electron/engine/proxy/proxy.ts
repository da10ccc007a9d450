/**
 * The P/D proxy: an OpenAI-compatible HTTP server that sends each request over a prefill and a decode instance.
 * Here: the listener, the route table, switching of connector and policy, and the end. A request's life is in
 * inference.ts; sockets to instances are the fleet's pools.
 *
 * Invariants: a switch concerns requests that begin after it; an unknown route or method is answered with the list of
 * those that exist; `close` is over within 1.5 s whatever clients and instances do.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { Verdict } from '#shared/findings.ts';
import { ProtocolOptionsSchema, ProtocolSettingsSchema, type ConnectorStatus, type ProtocolOptions, type ProtocolSettings } from '#shared/protocol.ts';
import { API_PATHS, type ConnectorName, type PolicyName } from '#shared/vocabulary.ts';
import type { VerdictSink } from '../findings/findings.ts';
import type { FleetRoster, LegScheduler } from '../fleet/ports.ts';
import type { Logger } from '../log.ts';
import type { Tracer } from '../telemetry/trace.ts';
import { handleAdmin, type ProxyAdmin } from './admin-routes.ts';
import { ConnectWatch } from './connect-watch.ts';
import { createConnectors } from './connectors/connectors.ts';
import { DegradedRouting } from './degraded-routing.ts';
import { FORWARD_ROUTES } from './forward-routes.ts';
import { authorizationFor } from './headers.ts';
import { Inference } from './inference.ts';
import { NO_LINTER, type Linter } from './lint/linter.ts';
import { ModelsPage } from './models-page.ts';
import { createPolicy } from './policies/policies.ts';
import type { Random } from './policies/policy.ts';
import type { PrefixLookup } from './policies/prefix-lookup.ts';
import { handleProfile } from './profile-routes.ts';
import { ProxyError } from './proxy-error.ts';
import { sendError, sendJson } from './respond.ts';
import { healthcheckPage, healthPage, statusPage } from './status-pages.ts';
import { DEFAULT_TIMEOUTS, type ProxyTimeouts } from './timeouts.ts';

export interface ProxyOptions {
  readonly scheduler: LegScheduler;
  readonly fleet: FleetRoster;
  /** Settings and sizes of the connectors. Each default: see ProtocolOptions. */
  readonly protocol?: Partial<ProtocolOptions>;
  /** Default: finds nothing. */
  readonly linter?: Linter;
  /** Gets what connectors conclude outside requests. Default: nobody. */
  readonly findings?: VerdictSink;
  /** What instances hold, for routing by prefix. Default: nobody keeps an index, and such policies balance by load. */
  readonly prefixes?: PrefixLookup;
  readonly tracer: Tracer;
  readonly logger: Logger;
  readonly connector: ConnectorName;
  readonly policy: PolicyName;
  /** Each default: see ProxyTimeouts. */
  readonly timeouts?: Partial<ProxyTimeouts>;
  /** Default 64 MiB. */
  readonly maxBodyBytes?: number;
  /** Repetitions per request, over all its legs. Default 2. */
  readonly maxRetries?: number;
  /** Sent as a bearer token for clients without one of their own. */
  readonly openaiApiKey?: string;
  readonly admin: ProxyAdmin;
  /** pdscope's own metrics in Prometheus text format. */
  metricsPage(): Promise<{ readonly contentType: string; readonly body: string }>;
  readonly version: string;
  /** Source of randomness of the policies that draw. Default Math.random. */
  readonly random?: Random;
}

export interface Proxy {
  /** Starts listening; port 0 picks a free one. Rejects with PdscopeError `port_in_use` or `listen_failed`. */
  listen(port: number, host: string): Promise<{ readonly port: number; readonly host: string }>;
  /** For requests that begin from now on. Rejects with PdscopeError when it cannot come into force; then nothing changes. */
  setConnector(name: ConnectorName): Promise<void>;
  /** For requests that begin from now on. Fields not given stay. */
  setProtocol(change: ProtocolChange): ProtocolSettings;
  readonly protocol: ProtocolSettings;
  connectorStatus(): ConnectorStatus;
  setPolicy(name: PolicyName): void;
  readonly connector: ConnectorName;
  readonly policy: PolicyName;
  /** Stops accepting, lets running requests end for a moment, then cuts them. */
  close(): Promise<void>;
}

const MAX_BODY_BYTES = 64 * 1024 * 1024;
const MAX_RETRIES = 2;
/** Longer than the clients' pools keep idle connections, so that they and not we close first. */
const KEEP_ALIVE_MS = 75_000;
const MAX_HEADER_BYTES = 64 * 1024;
/** Requests of one connection that may wait behind another's answer. */
const MAX_PIPELINED = 8;
/** Node's 511 drops connections of a burst of clients, which then wait a second for their next try. */
const ACCEPT_BACKLOG = 4096;
const CLOSE_GRACE_MS = 900;
const CLOSE_FLUSH_MS = 200;

export type ProtocolChange = { readonly [K in keyof ProtocolSettings]?: ProtocolSettings[K] | undefined };

type Handler = (req: IncomingMessage, res: ServerResponse) => Promise<void> | void;
type Method = 'GET' | 'POST';

export function createProxy(options: ProxyOptions): Proxy {
  return new ProxyServer(options);
}

class ProxyServer implements Proxy {
  readonly #options: ProxyOptions;
  readonly #connectors;
  readonly #connectWatch = new ConnectWatch();
  readonly #inference: Inference;
  readonly #models: ModelsPage;
  readonly #routes: ReadonlyMap<string, Partial<Record<Method, Handler>>>;
  readonly #server;
  readonly #pipelined = new WeakMap<object, number>();
  #connector;
  #policy;
  #protocol: ProtocolSettings;
  #switching: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  constructor(options: ProxyOptions) {
    this.#options = options;
    const protocol = ProtocolOptionsSchema.parse(options.protocol ?? {});
    this.#protocol = ProtocolSettingsSchema.parse(protocol);
    this.#connectors = createConnectors({
      fleet: options.fleet,
      logger: options.logger,
      options: protocol,
      settings: () => this.#protocol,
      report: (verdict) => this.#report(verdict),
    });
    this.#connector = this.#connectors[options.connector];
    this.#policy = createPolicy(options.policy, options.random);
    const degraded = new DegradedRouting((verdict) => this.#report(verdict));
    this.#inference = new Inference({
      scheduler: options.scheduler,
      tracer: options.tracer,
      logger: options.logger,
      connectWatch: this.#connectWatch,
      timeouts: { ...DEFAULT_TIMEOUTS, ...options.timeouts },
      maxBodyBytes: options.maxBodyBytes ?? MAX_BODY_BYTES,
      maxRetries: options.maxRetries ?? MAX_RETRIES,
      openaiApiKey: options.openaiApiKey,
      linter: options.linter ?? NO_LINTER,
      ...(options.prefixes !== undefined && { prefixes: options.prefixes }),
      onDegraded: (why) => degraded.seen(why),
    });
    this.#models = new ModelsPage(options.scheduler);
    this.#routes = this.#createRoutes();
    const listener = (req: IncomingMessage, res: ServerResponse): void => void this.#serve(req, res);
    this.#server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS, maxHeaderSize: MAX_HEADER_BYTES }, listener);
    // The body is asked for (100 Continue) only after the head was found acceptable.
    this.#server.on('checkContinue', listener);
  }

  get connector(): ConnectorName {
    return this.#connector.name;
  }

  get policy(): PolicyName {
    return this.#policy.name;
  }

  get protocol(): ProtocolSettings {
    return this.#protocol;
  }

  setConnector(name: ConnectorName): Promise<void> {
    const turn = this.#switching.then(() => this.#switchTo(name));
    this.#switching = turn.catch(() => {});
    return turn;
  }

  setProtocol(change: ProtocolChange): ProtocolSettings {
    const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
    this.#protocol = { ...this.#protocol, ...given };
    return this.#protocol;
  }

  connectorStatus(): ConnectorStatus {
    return this.#connector.status();
  }

  setPolicy(name: PolicyName): void {
    if (name !== this.#policy.name) this.#policy = createPolicy(name, this.#options.random);
  }

  async listen(port: number, host: string): Promise<{ readonly port: number; readonly host: string }> {
    await this.#connector.activate?.();
    return new Promise((resolve, reject) => {
      const onError = (error: NodeJS.ErrnoException): void => {
        const isTaken = error.code === 'EADDRINUSE';
        const message = isTaken
          ? `Port ${port} on ${host} is taken by another program: choose another with --port.`
          : `The proxy cannot listen on ${host}:${port}: ${error.message}`;
        reject(new PdscopeError(isTaken ? 'port_in_use' : 'listen_failed', message, { cause: error }));
      };
      this.#server.once('error', onError);
      this.#server.listen({ port, host, backlog: ACCEPT_BACKLOG }, () => {
        this.#server.removeListener('error', onError);
        this.#server.on('error', (error) => this.#options.logger.error({ error: error.message }, 'proxy listener failed'));
        const address = this.#server.address();
        if (address === null || typeof address === 'string') throw new Error('the proxy listens on something other than a TCP port');
        resolve({ port: address.port, host: address.address });
      });
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  async #switchTo(name: ConnectorName): Promise<void> {
    if (this.#closing !== undefined) throw new PdscopeError('shutting_down', 'pdscope is shutting down: the connector stays as it is.');
    const next = this.#connectors[name];
    const previous = this.#connector;
    if (next === previous) return;
    await next.activate?.();
    this.#connector = next;
    await previous.deactivate?.();
  }

  #report(verdict: Verdict): void {
    const { findings, fleet } = this.#options;
    const instanceName = verdict.instance === undefined ? undefined : fleet.get(verdict.instance)?.name;
    findings?.report(verdict, { connector: this.connector, ...(instanceName !== undefined && { instanceName }) });
  }

  async #shutDown(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    await within(closed, CLOSE_GRACE_MS);
    this.#inference.stopAll(new ProxyError(503, 'shutting_down', 'pdscope is shutting down.'));
    this.#server.closeIdleConnections();
    await within(closed, CLOSE_FLUSH_MS);
    this.#server.closeAllConnections();
    await closed;
    this.#connectWatch.close();
    // One that is coming into force would open its sockets after they were closed.
    await this.#switching;
    for (const connector of Object.values(this.#connectors)) await connector.close?.();
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    // A connection that breaks emits errors on both; its 'close' is what is acted on.
    res.on('error', ignoreBrokenConnection);
    try {
      this.#limitPipelining(req, res);
      if (this.#closing !== undefined) throw new ProxyError(503, 'shutting_down', 'pdscope is shutting down.', { headers: ['connection', 'close'] });
      await this.#route(req)(req, res);
    } catch (error) {
      if (res.headersSent || res.destroyed) return;
      if (error instanceof ProxyError) {
        sendError(res, error);
        return;
      }
      this.#options.logger.error({ error: errorMessage(error), url: req.url }, 'a request failed inside the proxy');
      sendError(res, new ProxyError(500, 'internal_error', `pdscope failed: ${errorMessage(error)}`));
    }
  }

  #route(req: IncomingMessage): Handler {
    const url = req.url ?? '/';
    const query = url.indexOf('?');
    const path = query < 0 ? url : url.slice(0, query);
    const route = this.#routes.get(path);
    if (route === undefined && path.startsWith('/v1/responses/')) {
      throw new ProxyError(404, 'instance_state', 'Responses are kept by the instance that made them, and pdscope does not know which: ask that instance directly.');
    }
    if (route === undefined) {
      throw new ProxyError(404, 'unknown_route', `There is no ${req.method} ${path.slice(0, 200)} here. Routes: ${this.#listRoutes()}.`);
    }
    const handler = route[(req.method === 'HEAD' ? 'GET' : req.method) as Method];
    if (handler !== undefined) return handler;
    const allowed = Object.keys(route).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
    const message = `${path} takes ${allowed.join(', ')}, not ${req.method}. Routes: ${this.#listRoutes()}.`;
    throw new ProxyError(405, 'method_not_allowed', message, { headers: ['allow', allowed.join(', ')] });
  }

  #listRoutes(): string {
    return [...this.#routes].flatMap(([path, route]) => Object.keys(route).map((method) => `${method} ${path}`)).join(', ');
  }

  #createRoutes(): ReadonlyMap<string, Partial<Record<Method, Handler>>> {
    const { scheduler, admin, openaiApiKey, version } = this.#options;
    const inForce = () => ({ connector: this.#connector, policy: this.policy, version });
    const profile = { scheduler, adminApiKey: admin.apiKey, openaiApiKey };
    const modes = () => ({ connector: this.#connector, policy: this.#policy, settings: this.#protocol });
    return new Map<string, Partial<Record<Method, Handler>>>([
      [API_PATHS.completions, { POST: (req, res) => this.#inference.handle('completions', req, res, modes()) }],
      [API_PATHS.chat, { POST: (req, res) => this.#inference.handle('chat', req, res, modes()) }],
      [API_PATHS.generate, { POST: (req, res) => this.#inference.handle('generate', req, res, modes()) }],
      ...FORWARD_ROUTES.map((route): [string, Partial<Record<Method, Handler>>] => [
        route.path,
        { POST: (req, res) => this.#inference.forward(route, req, res, modes()) },
      ]),
      ['/v1/models', { GET: async (req, res) => sendJson(res, 200, await this.#models.page(authorizationFor(req.headers, openaiApiKey))) }],
      [
        '/health',
        {
          GET: (_req, res) => {
            const { isHealthy, json } = healthPage(scheduler, inForce());
            sendJson(res, isHealthy ? 200 : 503, json);
          },
        },
      ],
      ['/status', { GET: (_req, res) => sendJson(res, 200, statusPage(scheduler, inForce())) }],
      ['/healthcheck', { GET: (_req, res) => sendJson(res, 200, healthcheckPage(scheduler)) }],
      ['/start_profile', { POST: (req, res) => handleProfile('start', profile, req, res) }],
      ['/stop_profile', { POST: (req, res) => handleProfile('stop', profile, req, res) }],
      ['/instances/add', { POST: (req, res) => handleAdmin('add', admin, req, res) }],
      ['/instances/remove', { POST: (req, res) => handleAdmin('remove', admin, req, res) }],
      [
        '/metrics',
        {
          GET: async (_req, res) => {
            const { contentType, body } = await this.#options.metricsPage();
            res.writeHead(200, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
            res.end(body);
          },
        },
      ],
    ]);
  }

  /** A client may send ahead, but not start engines for an unbounded number of answers it has not read. */
  #limitPipelining(req: IncomingMessage, res: ServerResponse): void {
    if (res.socket !== null) return;
    const { socket } = req;
    const waiting = (this.#pipelined.get(socket) ?? 0) + 1;
    this.#pipelined.set(socket, waiting);
    res.once('finish', () => this.#pipelined.set(socket, (this.#pipelined.get(socket) ?? 1) - 1));
    if (waiting > MAX_PIPELINED) {
      const message = `At most ${MAX_PIPELINED} requests may wait on one connection.`;
      throw new ProxyError(429, 'too_many_pipelined', message, { headers: ['connection', 'close'] });
    }
  }
}

function ignoreBrokenConnection(): void {
  // Written to after the client left: 'close' follows and ends the request.
}

/** Waits for `done`, at most `ms`. */
async function within(done: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([done, deadline]);
  clearTimeout(timer);
}

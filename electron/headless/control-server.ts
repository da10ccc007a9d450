/**
 * The control port: the page, its WebSocket, and the operations over HTTP.
 *
 * Every request passes, in this order, the Host check, the Origin check, and (but for /login and /api/health) the sign-in
 * check; nothing is read of a request that fails one. Inference clients have their own port and never reach this one.
 */
import { existsSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import fastifyCookie from '@fastify/cookie';
import fastifyStatic from '@fastify/static';
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Engine } from '#engine/engine.ts';
import { hostInUrl, kindOfHost } from '#engine/fleet/host-kind.ts';
import { silentLogger, type Logger } from '#engine/log.ts';
import { PdscopeError, type ErrorBody } from '#shared/errors.ts';
import { ControlAuth } from './control-auth.ts';
import { addOperationRoutes } from './operation-routes.ts';
import { createOriginGuard } from './origin-guard.ts';
import {
  LINK_UNKNOWN, LINK_USED, NOT_BUILT, PAGE_NOT_FOUND, PLAIN_PAGE_CSP, renderPlainPage, SIGNED_OUT, type PlainPage,
} from './plain-pages.ts';
import { createRendererPage } from './renderer-page.ts';
import { serveSessionSockets } from './session-sockets.ts';

/** Operations' inputs are small; nothing else is posted here. */
const MAX_BODY_BYTES = 1024 * 1024;
/** Paths that answer without a sign-in. */
const OPEN_PATHS = new Set(['/login', '/api/health', '/favicon.ico']);

export interface ControlServerOptions {
  readonly engine: Engine;
  /** Folder of the built page. */
  readonly rendererDir: string;
  readonly version: string;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** 0 = any free one. */
  readonly port: number;
  /** Must be true to bind anything but loopback. Default false. */
  readonly allowRemote?: boolean;
  /** Token that stays the same and can be used again (PDSCOPE_TOKEN). Default: random ones. */
  readonly fixedToken?: string;
  readonly logger?: Logger;
}

export interface ControlServer {
  readonly host: string;
  readonly port: number;
  /** Address of the page, e.g. `http://127.0.0.1:7080`. */
  readonly url: string;
  /** For `Authorization: Bearer`. */
  readonly apiToken: string;
  /** A link that signs one browser in. */
  issueLoginUrl(): string;
  /** Pages connected now. */
  sessions(): number;
  close(): Promise<void>;
}

/**
 * Starts listening. Throws PdscopeError: `remote_control_refused` (not loopback without `allowRemote`), `port_in_use`,
 * `cannot_listen`.
 */
export async function startControlServer(options: ControlServerOptions): Promise<ControlServer> {
  const { engine, rendererDir, version, host = '127.0.0.1', allowRemote = false, logger = silentLogger } = options;
  if (kindOfHost(host) !== 'loopback' && !allowRemote) {
    throw new PdscopeError(
      'remote_control_refused',
      `The control port on ${host} would let others on the network try to sign in. Keep 127.0.0.1 and use ssh -L, or say --allow-remote-control.`,
    );
  }
  const auth = new ControlAuth(options.fixedToken === undefined ? {} : { fixedToken: options.fixedToken });
  const guard = createOriginGuard(host);
  const page = createRendererPage(rendererDir);
  const app = Fastify({ bodyLimit: MAX_BODY_BYTES, forceCloseConnections: true, logger: false, requestTimeout: 30_000, routerOptions: { maxParamLength: 128 } });
  // Only JSON is taken: fastify would parse text/plain too, which a page of another site may send without asking.
  app.removeContentTypeParser('text/plain');
  await app.register(fastifyCookie);
  let cookieName = 'pdscope_session';

  const isSignedIn = (cookies: Readonly<Record<string, string | undefined>>, authorization: string | undefined): boolean =>
    auth.hasSession(cookies[cookieName]) || auth.hasApiToken(authorization);
  /** Why a request's Host or Origin is not ours. */
  const refusal = (headers: IncomingMessage['headers'], needsOrigin: boolean): string | undefined => {
    const requestHost = headers.host;
    if (requestHost === undefined || !guard.isAllowedHost(requestHost)) return 'This Host is not served here. Use localhost, or the address given to --control-host.';
    if (headers.origin === undefined) return needsOrigin ? 'A browser must say its Origin here.' : undefined;
    return guard.isOwnOrigin(headers.origin, requestHost) ? undefined : 'Requests of other sites are refused.';
  };

  app.addHook('onRequest', async (request, reply) => {
    setSecurityHeaders(reply);
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    const why = refusal(request.headers, !isRead && comesWithCookie(request.headers));
    if (why !== undefined) return fail(reply, 403, { code: 'forbidden', message: why, retryable: false });
    const path = request.url.split('?')[0] ?? '';
    if (OPEN_PATHS.has(path) || isSignedIn(request.cookies, request.headers.authorization)) return undefined;
    if (wantsPage(request)) return showPage(reply, 401, SIGNED_OUT);
    return fail(reply, 401, { code: 'unauthorized', message: 'Sign in with the link pdscope printed, or send Authorization: Bearer <token>.', retryable: false });
  });
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    const status = error.statusCode ?? 500;
    if (status < 500) return fail(reply, status, { code: 'bad_request', message: error.message, retryable: false });
    logger.error({ err: error }, 'the control server failed to answer a request');
    return fail(reply, status, { code: 'internal', message: 'Something in pdscope itself went wrong; its log has the details.', retryable: false });
  });
  app.setNotFoundHandler((request, reply) =>
    wantsPage(request)
      ? showPage(reply, 404, PAGE_NOT_FOUND)
      : fail(reply, 404, { code: 'unknown_path', message: `There is nothing at ${request.method} ${request.url.slice(0, 200)}.`, retryable: false }),
  );

  app.get<{ Querystring: { readonly token?: string | string[] } }>('/login', async (request, reply) => {
    const { token } = request.query;
    const result = auth.login(typeof token === 'string' ? token : '');
    // A used link opened again in the browser it signed in is a reload, not a problem.
    if (result.outcome === 'used' && isSignedIn(request.cookies, undefined)) return reply.redirect('/', 303);
    if (result.outcome !== 'ok') return showPage(reply, 401, result.outcome === 'used' ? LINK_USED : LINK_UNKNOWN);
    reply.setCookie(cookieName, result.sessionId, { path: '/', httpOnly: true, sameSite: 'strict' });
    return reply.redirect('/', 303);
  });
  // Asked for by browsers unasked; a 404 would be the only error in their console.
  app.get('/favicon.ico', (_request, reply) => reply.code(204).send());
  app.get('/api/health', () => ({ status: 'ok', version }));
  app.post('/api/login-links', () => ({ url: issueLoginUrl() }));
  addOperationRoutes(app, engine, logger);
  await addPage(app, rendererDir, page);

  const sockets = serveSessionSockets({
    engine,
    server: app.server,
    logger,
    refusal: ({ headers }) => refusal(headers, comesWithCookie(headers)),
    isSignedIn: ({ headers }) => isSignedIn(app.parseCookie(headers.cookie ?? ''), headers.authorization),
  });

  await listen(app, host, options.port);
  const port = portOf(app);
  // Cookies do not know ports: two pdscopes on one machine must not sign each other's pages out.
  cookieName = `pdscope_session_${port}`;
  const url = `http://${hostInUrl(host)}:${port}`;
  const issueLoginUrl = (): string => `${url}/login?token=${encodeURIComponent(auth.issueLoginToken())}`;

  return {
    host,
    port,
    url,
    apiToken: auth.apiToken,
    issueLoginUrl,
    sessions: () => sockets.count(),
    async close() {
      sockets.close();
      await app.close();
    },
  };
}

/** The index with its nonce, and the hashed files that never change. */
async function addPage(app: FastifyInstance, rendererDir: string, page: ReturnType<typeof createRendererPage>): Promise<void> {
  const index = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const rendered = await page(request.headers.host ?? '');
    if (rendered === undefined) return showPage(reply, 503, NOT_BUILT);
    return reply
      .header('content-security-policy', rendered.csp)
      .header('cache-control', 'no-store')
      .type('text/html; charset=utf-8')
      .send(rendered.html);
  };
  app.get('/', index);
  app.get('/index.html', index);
  if (!existsSync(rendererDir)) return;
  await app.register(fastifyStatic, {
    root: rendererDir,
    index: false,
    dotfiles: 'ignore',
    preCompressed: true,
    cacheControl: false,
    setHeaders: (reply, path) => {
      // The build puts a hash of the content into every name under assets/.
      const isHashed = /[/\\]assets[/\\]/u.test(path);
      reply.header('cache-control', isHashed ? 'public, max-age=31536000, immutable' : 'no-cache');
    },
  });
}

/** A cookie goes along by itself, so its use must prove its origin; browsers name it in everything but plain reads. */
function comesWithCookie({ cookie, authorization }: IncomingMessage['headers']): boolean {
  return cookie !== undefined && authorization === undefined;
}

function setSecurityHeaders(reply: FastifyReply): void {
  reply.headers({
    'content-security-policy': PLAIN_PAGE_CSP,
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  });
}

function wantsPage(request: FastifyRequest): boolean {
  return request.method === 'GET' && !request.url.startsWith('/api/') && (request.headers.accept ?? '').includes('text/html');
}

function showPage(reply: FastifyReply, status: number, page: PlainPage): FastifyReply {
  return reply.code(status).type('text/html; charset=utf-8').send(renderPlainPage(page));
}

function fail(reply: FastifyReply, status: number, error: ErrorBody): FastifyReply {
  return reply.code(status).send({ error });
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    await app.close();
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'EADDRINUSE') {
      throw new PdscopeError('port_in_use', `Control port ${port} on ${host} is taken, perhaps by another pdscope. Give another with --control-port (0 = any).`, { cause: error });
    }
    throw new PdscopeError('cannot_listen', `Cannot listen on ${host}:${port} for the control port: ${(error as Error).message}`, { cause: error });
  }
}

function portOf(app: FastifyInstance): number {
  const address = app.server.address();
  if (address === null || typeof address === 'string') throw new Error('the control server listens on no TCP port');
  return address.port;
}

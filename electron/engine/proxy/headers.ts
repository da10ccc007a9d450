/**
 * Header rules between client, proxy and instances.
 * Upstream: everything the client sent except hop-by-hop fields (RFC 9110 7.6.1, those named in `Connection` included)
 * and what undici writes itself; one X-Request-Id for all legs. Downstream: the decode leg's fields as they came, in
 * their order, spelling and number, without hop-by-hop fields.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** Lower-case names, one value each: what undici and the trace take. */
export type LegHeaders = Record<string, string>;

const HOP_BY_HOP = new Set([
  'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'proxy-authentication-info',
  'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings',
]);

/** Written anew for each leg, or meant for this hop only. */
const NOT_FORWARDED = new Set([...HOP_BY_HOP, 'host', 'content-length', 'expect', 'x-request-id', 'authorization']);

/** Pins a request to a data-parallel rank (vllm/entrypoints/openai/generate/base/serving.py). */
export const RANK_HEADER = 'x-data-parallel-rank';

const MAX_REQUEST_ID_LENGTH = 256;
const VALID_REQUEST_ID = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Whether `value` can travel as an X-Request-Id: visible ASCII, inner spaces, 256 characters at most. */
export function isValidRequestId(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_REQUEST_ID_LENGTH && VALID_REQUEST_ID.test(value);
}

/** The client's X-Request-Id, or a new one when there is none that can travel. */
export function pickRequestId(header: string | string[] | undefined): string {
  return isValidRequestId(header) ? header : randomUUID();
}

export interface UpstreamHeaderOptions {
  readonly requestId: string;
  /** Sent as a bearer token when the client has no Authorization of its own. */
  readonly openaiApiKey: string | undefined;
}

/** What every leg of a request carries; a leg overrides single fields on a copy. */
export function upstreamHeaders(client: IncomingHttpHeaders, options: UpstreamHeaderOptions): LegHeaders {
  const headers: LegHeaders = {};
  const named = connectionTokens(client.connection);
  for (const name in client) {
    if (NOT_FORWARDED.has(name) || named?.has(name) === true) continue;
    const value = client[name];
    if (value !== undefined) headers[name] = typeof value === 'string' ? value : value.join(', ');
  }
  headers['x-request-id'] = options.requestId;
  const authorization = authorizationFor(client, options.openaiApiKey);
  if (authorization !== undefined) headers['authorization'] = authorization;
  return headers;
}

/** The client's own Authorization, else the configured key, else none. */
export function authorizationFor(client: IncomingHttpHeaders, openaiApiKey: string | undefined): string | undefined {
  if (client.authorization !== undefined) return client.authorization;
  return openaiApiKey === undefined || openaiApiKey === '' ? undefined : `Bearer ${openaiApiKey}`;
}

/** Raw header list of an instance's answer as undici hands it over: name, value, name, value. */
export type RawHeaders = readonly (Buffer | string)[];

/** The flat list to write to the client. Content-Length stays: the bytes that follow are the same. */
export function downstreamHeaders(raw: RawHeaders, requestId: string): string[] {
  const headers: string[] = [];
  let named: Set<string> | undefined;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = text(raw[at]);
    const lower = name.toLowerCase();
    const value = text(raw[at + 1]);
    if (lower === 'connection') named = connectionTokens(value, named);
    if (HOP_BY_HOP.has(lower) || lower === 'x-request-id') continue;
    headers.push(name, value);
  }
  if (named !== undefined) removeNamed(headers, named);
  headers.push('X-Request-Id', requestId);
  return headers;
}

/** Fields that describe the body as it came. */
const OF_THE_BODY = new Set(['content-type', 'content-length', 'content-encoding', 'transfer-encoding', 'etag']);

/** Fields of an answer whose body is made anew: without those that describe the old one. */
export function headersWithoutBody(raw: RawHeaders): RawHeaders {
  const kept: (Buffer | string)[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at];
    const value = raw[at + 1];
    if (name !== undefined && value !== undefined && !OF_THE_BODY.has(text(name).toLowerCase())) kept.push(name, value);
  }
  return kept;
}

/** Value of the first `name` (lower case) in a raw list. */
export function rawHeader(raw: RawHeaders, name: string): string | undefined {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const candidate = raw[at];
    if (candidate?.length === name.length && text(candidate).toLowerCase() === name) return text(raw[at + 1]);
  }
  return undefined;
}

/** Field names listed in a Connection header, without the two that name no field. */
function connectionTokens(value: string | undefined, into?: Set<string>): Set<string> | undefined {
  if (value === undefined) return into;
  let tokens = into;
  for (const part of value.split(',')) {
    const token = part.trim().toLowerCase();
    if (token === '' || token === 'close' || token === 'keep-alive') continue;
    tokens ??= new Set();
    tokens.add(token);
  }
  return tokens;
}

function removeNamed(headers: string[], named: ReadonlySet<string>): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (named.has((headers[at] ?? '').toLowerCase())) headers.splice(at, 2);
  }
}

function text(value: Buffer | string | undefined): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : value.toString('latin1');
}

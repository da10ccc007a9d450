/**
 * Turns what went wrong on a leg into the one error the client, the record and the breaker see: a status other than
 * 2xx with whatever body an engine or a gateway gives, or a failure of the connection.
 */
import type { LegKind } from '#shared/vocabulary.ts';
import { cut } from '../cut-text.ts';
import type { Instance } from '../fleet/instance.ts';
import { rawHeader, type RawHeaders } from './headers.ts';
import { describeLeg, ProxyError } from './proxy-error.ts';

const MAX_MESSAGE_LENGTH = 2000;
/** Fields of a refusal that the client needs to act on it. */
const PASSED_HEADERS = ['retry-after', 'www-authenticate'] as const;

export interface RefusedLeg {
  readonly kind: LegKind;
  readonly instance: Instance;
  readonly status: number;
  readonly rawHeaders: RawHeaders;
  /** First bytes of the answer's body. */
  readonly body: Buffer;
  /** The leg carried a reference to another instance's KV, which may be what failed. */
  readonly hasTransferParams: boolean;
}

/** A leg answered with a status other than 2xx: the engine's status, message, type, param and code are kept. */
export function upstreamStatusError(refused: RefusedLeg): ProxyError {
  const { kind, instance, status } = refused;
  const where = describeLeg(kind, instance);
  if (status < 400) {
    const message = `${where} answered with a redirect (${status}), which pdscope does not follow: give the instance's final address.`;
    return new ProxyError(502, 'upstream_redirect', message, { leg: kind, instance });
  }
  // 501 says that the engine cannot do what was asked; another instance cannot either, and this one is well.
  const isInstanceFault = status >= 500 && status !== 501;
  const upstreamError = errorObject(refused.body);
  const message = typeof upstreamError?.['message'] === 'string' ? upstreamError['message'] : `${where} answered ${status}.`;
  const headers = PASSED_HEADERS.flatMap((name) => {
    const value = rawHeader(refused.rawHeaders, name);
    return value === undefined ? [] : [name, value];
  });
  return new ProxyError(status, 'upstream_status', message, {
    leg: kind,
    instance,
    headers,
    ...(upstreamError !== undefined && { upstreamError }),
    retryable: isInstanceFault,
    isRequestFault: !isInstanceFault,
    mayRepeatOnSame: isInstanceFault && kind === 'decode' && refused.hasTransferParams,
  });
}

/** What an engine reported inside a stream or body that had begun with 200. */
export function reportedError(kind: LegKind, instance: Instance, error: unknown): ProxyError {
  const object = typeof error === 'object' && error !== null ? (error as Readonly<Record<string, unknown>>) : undefined;
  const said = object?.['message'] ?? error;
  const code = object?.['code'];
  const message = `${describeLeg(kind, instance)} reported an error inside its answer: ${cut(asText(said), MAX_MESSAGE_LENGTH)}`;
  return new ProxyError(502, 'upstream_reported_error', message, {
    leg: kind,
    instance,
    isRequestFault: typeof code === 'number' && code < 500,
  });
}

/**
 * A stream that begins with an error event: vLLM has sent 200 by then, but failed before the first token, e.g. while
 * loading KV. No byte of it went to the client, so it is what the same error with its own status would have been.
 */
export function streamRefusal(kind: LegKind, instance: Instance, error: unknown, hasTransferParams: boolean): ProxyError {
  const object = typeof error === 'object' && error !== null ? (error as Readonly<Record<string, unknown>>) : {};
  const { code } = object;
  const status = typeof code === 'number' && code >= 400 && code <= 599 ? code : 502;
  return upstreamStatusError({ kind, instance, status, rawHeaders: [], body: Buffer.from(JSON.stringify({ error: object })), hasTransferParams });
}

export type LegStage = 'connecting' | 'waiting' | 'streaming';

/** A failure of the connection, as undici reports it. */
export function transportError(kind: LegKind, instance: Instance, stage: LegStage, error: Error): ProxyError {
  const where = describeLeg(kind, instance);
  const code = codeOf(error);
  const options = { leg: kind, instance, cause: error, retryable: true } as const;
  switch (code) {
    case 'UND_ERR_HEADERS_TIMEOUT':
      return new ProxyError(504, 'headers_timeout', `${where} sent no answer in time.`, options);
    case 'UND_ERR_BODY_TIMEOUT':
      return new ProxyError(504, 'idle_timeout', `${where} fell silent in the middle of its answer.`, options);
    case 'UND_ERR_CONNECT_TIMEOUT':
      return new ProxyError(504, 'connect_timeout', `${where}: no connection in time.`, options);
    // The code of the error that the fleet destroys a removed instance's pool with.
    case 'instance_removed':
    case 'UND_ERR_DESTROYED':
    case 'UND_ERR_CLOSED':
      return new ProxyError(503, 'instance_removed', `${where}: the instance was removed.`, options);
    case 'UND_ERR_INVALID_ARG':
    case 'UND_ERR_NOT_SUPPORTED':
      return new ProxyError(400, 'unsendable_request', `The request cannot be sent to an instance: ${error.message}.`, { isRequestFault: true, cause: error });
    default:
  }
  if (stage === 'connecting') {
    return new ProxyError(502, 'connect_failed', `${where}: connection failed (${reasonOf(error, code)}).`, options);
  }
  if (code.startsWith('HPE_')) {
    return new ProxyError(502, 'bad_response', `${where} does not speak HTTP/1.1 as it should: ${error.message}`, options);
  }
  const when = stage === 'waiting' ? 'before it answered' : 'in the middle of its answer';
  return new ProxyError(502, 'upstream_reset', `${where} closed the connection ${when} (${reasonOf(error, code)}).`, { ...options, mayRepeatOnSame: true });
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** An attempt over several addresses fails with an AggregateError without a message of its own. */
function reasonOf(error: Error, code: string): string {
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map((one) => (one instanceof Error ? one.message : String(one))).join('; ');
  }
  return error.message === '' ? code : error.message;
}

/** vLLM's nested object, its flat one from before 2025-08, a plain string, FastAPI's detail, or text. */
function errorObject(body: Buffer): Readonly<Record<string, unknown>> | undefined {
  const text = body.toString('utf8').trim();
  if (text === '') return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return { message: cut(text, MAX_MESSAGE_LENGTH) };
  }
  if (typeof parsed !== 'object' || parsed === null) return { message: cut(asText(parsed), MAX_MESSAGE_LENGTH) };
  const object = parsed as Readonly<Record<string, unknown>>;
  const { error } = object;
  if (typeof error === 'object' && error !== null) return error as Readonly<Record<string, unknown>>;
  if (typeof error === 'string') return { message: error };
  if (typeof object['message'] === 'string') {
    const { message, type, param, code } = object;
    return { message, ...(type !== undefined && { type }), ...(param !== undefined && { param }), ...(code !== undefined && { code }) };
  }
  return { message: cut(asText(object['detail'] ?? object), MAX_MESSAGE_LENGTH) };
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
}

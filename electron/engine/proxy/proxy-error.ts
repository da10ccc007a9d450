/**
 * What the proxy answers when it cannot hand over an engine's answer: an OpenAI-shaped error body with a `pdscope`
 * object beside it that names the leg and the instance. One class for refusals of pdscope itself and for failed legs.
 *
 * Invariant: an engine's own 4xx or 5xx keeps its status and its message; only what pdscope concluded gets a status of
 * its own (502 for a broken answer, 503 for no instance, 504 for a timeout).
 */
import { PdscopeError, type PdscopeErrorOptions } from '#shared/errors.ts';
import type { RequestError } from '#shared/request.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from '../fleet/instance.ts';

export interface ProxyErrorOptions extends PdscopeErrorOptions {
  /** Overrides the status's usual type, e.g. an engine's own `BadRequestError`. */
  readonly type?: string;
  readonly param?: string;
  readonly leg?: LegKind;
  readonly instance?: Instance;
  /** The engine's own `error` object, passed on inside ours. */
  readonly upstreamError?: Readonly<Record<string, unknown>>;
  /** Headers for the client, flat name/value list, e.g. `Retry-After`. */
  readonly headers?: readonly string[];
  /** Says nothing about the instance's health although the leg failed (the request itself was refused). */
  readonly isRequestFault?: boolean;
  /** Trying the same instance once more makes sense when there is no other: it did not refuse, the connection was lost. */
  readonly mayRepeatOnSame?: boolean;
}

/** An expected failure of a proxied request. `retryable` means: on another instance, as long as no byte went out. */
export class ProxyError extends PdscopeError {
  readonly status: number;
  readonly leg: LegKind | undefined;
  readonly instance: Instance | undefined;
  readonly headers: readonly string[];
  readonly isRequestFault: boolean;
  readonly mayRepeatOnSame: boolean;
  readonly #type: string;
  readonly #param: string | undefined;
  readonly #upstreamError: Readonly<Record<string, unknown>> | undefined;

  constructor(status: number, code: string, message: string, options: ProxyErrorOptions = {}) {
    super(code, message, options);
    this.status = status;
    this.leg = options.leg;
    this.instance = options.instance;
    this.headers = options.headers ?? [];
    this.isRequestFault = options.isRequestFault ?? false;
    this.mayRepeatOnSame = options.mayRepeatOnSame ?? false;
    this.#type = options.type ?? typeOfStatus(status);
    this.#param = options.param;
    this.#upstreamError = options.upstreamError;
  }

  /** The OpenAI-shaped body. Fields of an engine's own error object win over pdscope's. */
  toJson(requestId?: string): string {
    const error = { message: this.message, type: this.#type, param: this.#param ?? null, code: this.code, ...this.#upstreamError };
    const pdscope = {
      code: this.code,
      ...(this.leg !== undefined && { leg: this.leg }),
      ...(this.instance !== undefined && {
        instance: this.instance.id,
        instance_name: this.instance.name,
        instance_url: this.instance.origin,
      }),
      ...(requestId !== undefined && { request_id: requestId }),
    };
    return JSON.stringify({ error, pdscope });
  }

  toRequestError(): RequestError {
    return {
      message: this.message,
      code: this.code,
      ...(this.leg !== undefined && { leg: this.leg }),
      ...(this.instance !== undefined && { instance: this.instance.id, instanceName: this.instance.name }),
    };
  }
}

/** Codes of legs that their instance never saw. */
export const NEVER_SENT: ReadonlySet<string> = new Set(['connect_failed', 'connect_timeout']);

/** `decode leg on D0 (http://10.0.0.2:8200)`. */
export function describeLeg(kind: LegKind, instance: Instance): string {
  return `${kind} leg on ${instance.name} (${instance.origin})`;
}

function typeOfStatus(status: number): string {
  if (status === 404) return 'not_found_error';
  if (status === 403) return 'permission_error';
  if (status < 500) return 'invalid_request_error';
  return status === 503 ? 'service_unavailable_error' : 'upstream_error';
}

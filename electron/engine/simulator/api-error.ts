/** Errors in vLLM's shapes (protocol facts: vllm/entrypoints/serve/exception_handling). */

const VALIDATION_TYPE = 'Bad Request';

/** A refusal that the client sees. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly type: string;
  readonly param: string | undefined;

  constructor(status: number, type: string, message: string, param?: string) {
    super(message);
    this.status = status;
    this.type = type;
    this.param = param;
  }

  toBody(): object {
    return { error: { message: this.message, type: this.type, param: this.param ?? null, code: this.status } };
  }

  /** Of the Messages API (vllm/entrypoints/anthropic/api_router.py); what pydantic refuses looks the same on all routes. */
  toMessagesBody(): object {
    return this.type === VALIDATION_TYPE ? this.toBody() : { type: 'error', error: { type: this.type, message: this.message } };
  }
}

export function badRequest(message: string, param?: string): ApiError {
  return new ApiError(400, 'BadRequestError', message, param);
}

/** Pydantic's refusals: the type is the HTTP phrase, with a space. */
export function validationError(kind: string, path: readonly string[], message: string): ApiError {
  const location = ['body', ...path].map((part) => `'${part}'`).join(', ');
  const tuple = path.length === 0 ? `(${location},)` : `(${location})`;
  const text = `1 validation error:\n  {'type': '${kind}', 'loc': ${tuple}, 'msg': '${message}'}`;
  return new ApiError(400, VALIDATION_TYPE, text, ['body', ...path].join('.'));
}

export function internalError(message = 'Internal server error'): ApiError {
  return new ApiError(500, 'InternalServerError', message);
}

/**
 * The one error type that crosses module and process borders. A `code` is stable and documented by its use; the
 * message names the thing and what to do next. Broken invariants are plain `Error`s and crash loudly.
 */

export interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
}

export interface PdscopeErrorOptions {
  readonly cause?: unknown;
  /** Whether the same call may succeed later without a change. Default false. */
  readonly retryable?: boolean;
}

/** An expected failure: typed, shown to the person as it is. */
export class PdscopeError extends Error {
  override readonly name = 'PdscopeError';
  readonly code: string;
  readonly retryable: boolean;

  constructor(code: string, message: string, options: PdscopeErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
  }

  toBody(): ErrorBody {
    return { code: this.code, message: this.message, retryable: this.retryable };
  }

  static fromBody(body: ErrorBody): PdscopeError {
    return new PdscopeError(body.code, body.message, { retryable: body.retryable });
  }
}

/** The text of anything that was thrown. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A request's JSON body, and what identifies the request: read the same way by every route. */
import { ApiError, validationError } from './api-error.ts';
import type { Exchange } from './exchange.ts';
import { uuidFrom, type Prng } from './prng.ts';

/** Throws the refusal that vLLM's FastAPI gives. */
export function readJsonBody(exchange: Exchange): unknown {
  const mediaType = exchange.header('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (mediaType !== 'application/json') {
    throw new ApiError(400, 'Bad Request', "Unsupported Media Type: Only 'application/json' is allowed");
  }
  try {
    return JSON.parse(exchange.body.toString('utf8'));
  } catch {
    throw validationError('json_invalid', [], 'JSON decode error');
  }
}

/** vLLM's `random_uuid()`: 32 hex digits. */
export function randomId(prng: Prng): string {
  return uuidFrom(prng).replaceAll('-', '');
}

/**
 * A client's inference request, read once and parsed once. The bytes stay beside the parsed form: legs are made from
 * the bytes, decisions from the parsed form.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Api } from '#shared/vocabulary.ts';
import { cut } from '../cut-text.ts';
import { scanMembers, type JsonMember } from './json-members.ts';
import { ProxyError } from './proxy-error.ts';

export interface ClientRequest {
  readonly api: Api;
  readonly requestId: string;
  readonly headers: IncomingHttpHeaders;
  /** Exactly what the client sent. */
  readonly body: Buffer;
  readonly json: Readonly<Record<string, unknown>>;
  /** Where the top-level members of `body` are. */
  readonly members: readonly JsonMember[];
  readonly isStream: boolean;
}

export interface ParsedBody {
  readonly json: Readonly<Record<string, unknown>>;
  readonly members: readonly JsonMember[];
}

/** Throws ProxyError 400 `malformed_json` unless `body` is a JSON object. */
export function parseBody(body: Buffer): ParsedBody {
  let json: unknown;
  try {
    json = JSON.parse(body.toString('utf8'));
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    throw new ProxyError(400, 'malformed_json', `The request body is not valid JSON: ${cut(detail, 200)}`, { cause: error });
  }
  const members = scanMembers(body);
  if (typeof json !== 'object' || json === null || Array.isArray(json) || members === undefined) {
    throw new ProxyError(400, 'malformed_json', 'The request body must be a JSON object.');
  }
  return { json: json as Record<string, unknown>, members };
}

/** Throws ProxyError 415 unless the body is announced as plain JSON. */
export function checkContentType(headers: IncomingHttpHeaders): void {
  const type = headers['content-type'];
  const media = type?.split(';', 1)[0]?.trim().toLowerCase();
  if (media !== 'application/json') {
    const got = type === undefined ? 'none was given' : `got ${cut(type, 100)}`;
    throw new ProxyError(415, 'unsupported_media_type', `Content-Type must be application/json; ${got}.`);
  }
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new ProxyError(415, 'unsupported_media_type', `Content-Encoding ${cut(encoding, 100)} is not supported: send the JSON uncompressed.`);
  }
}

/**
 * Why this request must not be handed from a prefill to a decode instance, or undefined when it may be.
 * Several sequences: the handoff is single-consumer; each decode child would pull, and the first to finish frees the
 * blocks. Prompt logprobs: only an instance that computes the prompt has them, and vLLM turns prefix caching off for such
 * a request (vllm/sampling_params.py, skip_reading_prefix_cache), so what was handed over would not be used. `echo` with
 * `logprobs` is the completions API's way to ask for them (vllm/entrypoints/openai/completion/protocol.py).
 * A generate request has these fields in `sampling_params`.
 */
export function reasonAgainstHandoff(json: Json): string | undefined {
  const sampling = json['sampling_params'];
  if (sampling !== undefined) {
    const reason = reasonInFields(asJsonObject(sampling) ?? {});
    if (reason !== undefined) return reason;
  }
  return reasonInFields(json);
}

function reasonInFields(fields: Json): string | undefined {
  const { logprobs } = fields;
  const [n, bestOf] = [asNumber(fields['n']), asNumber(fields['best_of'])];
  if (n !== undefined && n > 1) return `n=${n}: the handoff serves one sequence`;
  if (bestOf !== undefined && bestOf > 1) return `best_of=${bestOf}: the handoff serves one sequence`;
  if (fields['use_beam_search'] === true) return 'use_beam_search: the handoff serves one sequence';
  if (asNumber(fields['prompt_logprobs']) !== undefined) return 'prompt_logprobs: only an instance that computes the prompt can give them';
  if (fields['echo'] === true && asNumber(logprobs) !== undefined) {
    return 'echo with logprobs: only an instance that computes the prompt can give them';
  }
  return undefined;
}

/** Engines take numbers written as texts, too (pydantic's lax mode). */
function asNumber(value: unknown): number | undefined {
  return typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value)) ? Number(value) : undefined;
}

type Json = Readonly<Record<string, unknown>>;

/** `value` when it is a JSON object. */
export function asJsonObject(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}

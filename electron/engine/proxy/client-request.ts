/**
 * A client's inference request, read once and parsed once. The bytes stay beside the parsed form: legs are made from
 * the bytes, decisions from the parsed form.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Api } from '#shared/vocabulary.ts';
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
 * Why this request must not be handed from a prefill to a decode instance, or undefined when it may be. The handoff is
 * single-consumer: with several sequences each decode child would pull, and the first to finish frees the blocks.
 */
export function reasonAgainstHandoff(json: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof json['n'] === 'number' && json['n'] > 1) return `n=${json['n']}: the handoff serves one sequence`;
  if (typeof json['best_of'] === 'number' && json['best_of'] > 1) return `best_of=${json['best_of']}: the handoff serves one sequence`;
  if (json['use_beam_search'] === true) return 'use_beam_search: the handoff serves one sequence';
  return undefined;
}

/** `text`, at most `length` characters, marked when cut. */
export function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

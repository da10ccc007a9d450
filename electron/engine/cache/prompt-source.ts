/** Where the tokens of a client's prompt are to be had, read from its body. Pure. */
import { asJsonObject } from '../proxy/client-request.ts';
import type { RequestInit } from '../telemetry/trace.ts';
import type { Api } from '#shared/vocabulary.ts';
import { mediaOf } from './prompt-tokens.ts';
import { tokenIdsOf } from '../proxy/token-ids.ts';

export type Json = Readonly<Record<string, unknown>>;

export interface MediaItem {
  /** As the engine identifies it. */
  readonly hash: string;
  /** First token, counted from the prompt's start, and tokens. */
  readonly offset: number;
  readonly length: number;
}

export type PromptSource =
  | { readonly kind: 'tokens'; readonly json: Json; readonly tokens: Uint32Array; readonly media: readonly MediaItem[] }
  | { readonly kind: 'text'; readonly json: Json; readonly text: string }
  | { readonly kind: 'chat'; readonly json: Json; readonly body: Buffer; readonly hasMedia: boolean }
  /** No route of an engine renders it. */
  | { readonly kind: 'unrendered'; readonly json: Json; readonly reason: string }
  | { readonly kind: 'none'; readonly reason: string };

/** Where a request came in, as far as telemetry tells. */
export type RequestRoute = Pick<RequestInit, 'api' | 'path'>;

export const NO_PROMPT_REASON = 'requests of this route are passed on whole and have no one prompt that could be explained';

/**
 * Routes whose prompt only the engine makes: vLLM has render routes for chat and completions only, and /tokenize takes
 * the same two (vllm/entrypoints/launchers/api_server/routers.py).
 */
const UNRENDERED: ReadonlySet<string> = new Set(['/v1/responses', '/v1/messages']);

/** How a route's prompt is explained; undefined: not at all. */
export function explainedApi({ api, path = '' }: RequestRoute): Api | 'unrendered' | undefined {
  if (api !== 'forward') return api;
  return UNRENDERED.has(path) ? 'unrendered' : undefined;
}

export function promptSource(route: RequestRoute, body: Buffer): PromptSource {
  const api = explainedApi(route);
  if (api === undefined) return { kind: 'none', reason: NO_PROMPT_REASON };
  const json = parse(body);
  if (json === undefined) return { kind: 'none', reason: 'the body is no JSON object' };
  const skips = cacheSkipped(json);
  if (skips !== undefined) return { kind: 'none', reason: skips };
  switch (api) {
    case 'chat': return Array.isArray(json['messages']) ? { kind: 'chat', json, body, hasMedia: hasMedia(json['messages'] as readonly unknown[]) } : { kind: 'none', reason: 'the body has no messages' };
    case 'generate': {
      const tokens = tokenIdsOf(json['token_ids']);
      return tokens === undefined ? { kind: 'none', reason: 'token_ids is no list of token ids' } : { kind: 'tokens', json, tokens, media: mediaOf(json['features']) };
    }
    case 'completions': return completionSource(json);
    case 'unrendered': return { kind: 'unrendered', json, reason: `no engine renders or tokenises ${route.path ?? 'this route'}` };
  }
  return api;
}

function completionSource(json: Json): PromptSource {
  if (json['prompt_embeds'] !== undefined && json['prompt_embeds'] !== null) return { kind: 'none', reason: 'the prompt is embeddings, not tokens' };
  let { prompt } = json;
  if (Array.isArray(prompt) && (typeof prompt[0] === 'string' || Array.isArray(prompt[0]))) {
    if (prompt.length > 1) return { kind: 'none', reason: `the request has ${prompt.length} prompts, which engines run as requests of their own` };
    [prompt] = prompt as readonly unknown[];
  }
  if (typeof prompt === 'string') return { kind: 'text', json, text: prompt };
  const tokens = tokenIdsOf(prompt);
  if (tokens === undefined) return { kind: 'none', reason: 'the body has no prompt' };
  const limit = json['truncate_prompt_tokens'];
  return { kind: 'tokens', json, tokens: typeof limit === 'number' && limit > 0 ? tokens.subarray(-limit) : tokens, media: [] };
}

/** Requests for which the engine does not look into its cache (vllm/sampling_params.py, skip_reading_prefix_cache). */
function cacheSkipped(json: Json): string | undefined {
  const fields = asJsonObject(json['sampling_params']) ?? json;
  if (typeof fields['prompt_logprobs'] === 'number') return 'prompt_logprobs: the engine computes the whole prompt and does not look into its cache';
  if (json['echo'] === true && typeof json['logprobs'] === 'number') return 'echo with logprobs: the engine computes the whole prompt and does not look into its cache';
  return undefined;
}

function hasMedia(messages: readonly unknown[]): boolean {
  return messages.some((message) => {
    const content: unknown = asJsonObject(message)?.['content'];
    return Array.isArray(content) && content.some((part: unknown) => {
      const type: unknown = asJsonObject(part)?.['type'];
      return typeof type === 'string' && type !== 'text' && type !== 'refusal' && type !== 'thinking';
    });
  });
}

function parse(body: Buffer): Json | undefined {
  try {
    return asJsonObject(JSON.parse(body.toString('utf8')));
  } catch {
    // The proxy parsed it before; what fails here is told as a reason.
    return undefined;
  }
}

/** The request's `cache_salt`. */
export function saltOf(source: PromptSource): string | undefined {
  const salt = source.kind === 'none' ? undefined : source.json['cache_salt'];
  return typeof salt === 'string' && salt !== '' ? salt : undefined;
}

/** The session that engines note with what they store: of the body, else the header, else `vllm_xargs` (vllm, since 2026-08). */
export function sessionOf(source: PromptSource, headers: RequestInit['headers']): string | undefined {
  const json = source.kind === 'none' ? {} : source.json;
  const ids = [json['session_id'], headers['x-session-id'], asJsonObject(json['vllm_xargs'])?.['session_id']];
  return ids.find((id): id is string => typeof id === 'string' && id !== '');
}

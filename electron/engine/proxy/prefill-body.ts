/**
 * What a prefill leg's body changes relative to the client's: a table, one row per field, from the facts of vLLM's
 * request validation (vllm/entrypoints/openai/chat_completion/protocol.py and vllm/sampling_params.py). Everything
 * else stays byte for byte, because both legs must tokenise identically: messages, prompt, model, tools, chat template
 * fields, truncation, cache_salt and every field pdscope does not know.
 */
import type { LegInit } from '../telemetry/trace.ts';
import { cut, type ClientRequest } from './client-request.ts';
import { KV_TRANSFER_PARAMS } from './connectors/transfer-params.ts';
import { editMembers, memberValue } from './json-members.ts';

export type Rewrite = LegInit['rewrites'][number];

export interface PrefillRule {
  readonly field: string;
  /** JSON text to put there, or undefined to remove the field. */
  readonly value: string | undefined;
  /** `present`: only when the client sent the field. */
  readonly when: 'present' | ((request: ClientRequest) => boolean);
  readonly why: string;
}

/** In chat, max_completion_tokens wins over max_tokens, and some servers reject a body with both: keep the client's spelling. */
function needsMaxTokens({ api, json }: ClientRequest): boolean {
  return 'max_tokens' in json || api === 'completions' || !('max_completion_tokens' in json);
}

export const PREFILL_RULES: readonly PrefillRule[] = [
  { field: 'stream', value: 'false', when: 'present', why: 'the answer is read whole' },
  { field: 'stream_options', value: undefined, when: 'present', why: 'refused with 400 without stream' },
  { field: 'max_tokens', value: '1', when: needsMaxTokens, why: 'prefill ends with the first token' },
  { field: 'max_completion_tokens', value: '1', when: 'present', why: 'wins over max_tokens in chat' },
  { field: 'min_tokens', value: undefined, when: 'present', why: 'min_tokens > max_tokens is refused with 400' },
  { field: 'min_completion_tokens', value: undefined, when: 'present', why: 'as min_tokens' },
  { field: 'n', value: '1', when: 'present', why: 'the handoff serves one sequence' },
  { field: 'best_of', value: undefined, when: 'present', why: 'must not be below n, and needs several sequences' },
  { field: 'use_beam_search', value: undefined, when: 'present', why: 'needs several sequences' },
  { field: 'logprobs', value: undefined, when: 'present', why: 'cost without benefit: the answer is discarded' },
  { field: 'top_logprobs', value: undefined, when: 'present', why: 'refused without logprobs' },
  { field: 'prompt_logprobs', value: undefined, when: 'present', why: 'turns prefix caching off for the request' },
  { field: 'response_format', value: undefined, when: 'present', why: 'compiles a grammar for one discarded token' },
  { field: 'stop', value: undefined, when: 'present', why: 'the one token must end by length' },
  { field: 'echo', value: undefined, when: 'present', why: 'sends the prompt back for nothing' },
];

export interface RewrittenBody {
  readonly body: Buffer;
  readonly rewrites: readonly Rewrite[];
}

export interface PrefillOptions {
  /** `kv_transfer_params` of the leg, JSON text. */
  readonly transferParams?: string;
  /** For protocols whose prefill keeps no KV unless its one token ends by length: EOS and stop tokens are ignored. */
  readonly mustEndByLength?: boolean;
}

/** The prefill leg's body: the table's edits plus what the connector needs. */
export function prefillBody(request: ClientRequest, options: PrefillOptions = {}): RewrittenBody {
  const edits = new Map<string, string | undefined>();
  const rewrites: Rewrite[] = [];
  for (const { field, value, when } of PREFILL_RULES) {
    if (when === 'present' ? field in request.json : when(request)) addEdit(request, field, value, edits, rewrites);
  }
  if (options.mustEndByLength === true) {
    addEdit(request, 'ignore_eos', 'true', edits, rewrites);
    if ('stop_token_ids' in request.json) addEdit(request, 'stop_token_ids', undefined, edits, rewrites);
  }
  const { transferParams } = options;
  if (transferParams !== undefined) addEdit(request, KV_TRANSFER_PARAMS, transferParams, edits, rewrites);
  return { body: editMembers(request.body, request.members, edits), rewrites };
}

/** The decode leg's body: the client's own bytes with `params` (raw JSON) put where the engine reads them. */
export function decodeBody(request: ClientRequest, params: Buffer): RewrittenBody {
  const own = memberValue(request.body, request.members, KV_TRANSFER_PARAMS);
  const rewrite = describeRewrite(KV_TRANSFER_PARAMS, own?.toString('utf8', 0, 400), params.toString('utf8', 0, 400));
  return { body: editMembers(request.body, request.members, new Map([[KV_TRANSFER_PARAMS, params]])), rewrites: [rewrite] };
}

/** One entry for the record, values cut to 200 characters. */
export function describeRewrite(field: string, from: string | undefined, to: string | undefined): Rewrite {
  const rewrite: { field: string; from?: string; to?: string } = { field };
  if (from !== undefined) rewrite.from = cut(from, 200);
  if (to !== undefined) rewrite.to = cut(to, 200);
  return rewrite;
}

function addEdit(
  request: ClientRequest,
  field: string,
  value: string | undefined,
  edits: Map<string, string | undefined>,
  rewrites: Rewrite[],
): void {
  const old = memberValue(request.body, request.members, field);
  edits.set(field, value);
  // A cut multi-byte character at the end is cut off again by describeRewrite's limit.
  const from = old?.toString('utf8', 0, 1024);
  if (from !== value) rewrites.push(describeRewrite(field, from, value));
}

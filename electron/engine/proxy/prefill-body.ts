/**
 * What each leg's body changes relative to the client's: a table, one row per field, from the facts of vLLM's request
 * validation (vllm/entrypoints/openai/{chat_completion,completion}/protocol.py, vllm/sampling_params.py and, for
 * /inference/v1/generate, vllm/entrypoints/scale_out/token_in_token_out/{protocol,serving}.py). Everything else stays
 * byte for byte, because both legs must tokenise identically: messages, prompt, model, tools, chat template fields,
 * truncation, cache_salt, seed and every field pdscope does not know. The decode leg changes nothing but
 * `kv_transfer_params`: caps, min_tokens, stop, seed, ignore_eos and response formats are the client's to the letter.
 *
 * Requests whose fields rule a handoff out altogether (n > 1 and the like) never get here: see reasonAgainstHandoff.
 */
import type { Api } from '#shared/vocabulary.ts';
import { cut } from '../cut-text.ts';
import type { LegInit } from '../telemetry/trace.ts';
import { asJsonObject, type ClientRequest } from './client-request.ts';
import { KV_TRANSFER_PARAMS } from './connectors/transfer-params.ts';
import { editMembers, memberValue, scanMembers, type JsonMember } from './json-members.ts';

export type Rewrite = LegInit['rewrites'][number];

/** Where an API has a field: at the top of the body, or among the sampling parameters of a generate request. */
export type FieldPlace = 'body' | 'sampling_params';

type Json = Readonly<Record<string, unknown>>;

export interface PrefillRule {
  readonly field: string;
  /** JSON text to put there, or undefined to remove the field. */
  readonly value: string | undefined;
  /** `present`: only when the client sent the field. */
  readonly when: 'present' | 'always' | ((fields: Json, api: Api) => boolean);
  /** APIs that have the field; absent = it means nothing there and stays. */
  readonly in: Readonly<Partial<Record<Api, FieldPlace>>>;
  /** Only for protocols whose prefill keeps its KV only when the one token ends by length. */
  readonly onlyByLength?: true;
  readonly why: string;
}

const IN_BODY = { chat: 'body', completions: 'body' } as const;
const EVERYWHERE = { chat: 'body', completions: 'body', generate: 'body' } as const;
const SAMPLING = { chat: 'body', completions: 'body', generate: 'sampling_params' } as const;

/** In chat, max_completion_tokens wins over max_tokens, and some servers reject a body with both: keep the client's spelling. */
function needsMaxTokens(fields: Json, api: Api): boolean {
  return api !== 'chat' || 'max_tokens' in fields || !('max_completion_tokens' in fields);
}

export const PREFILL_RULES: readonly PrefillRule[] = [
  { field: 'stream', value: 'false', when: 'present', in: EVERYWHERE, why: 'the answer is read whole' },
  { field: 'stream_options', value: undefined, when: 'present', in: EVERYWHERE, why: 'refused with 400 without stream' },
  { field: 'max_tokens', value: '1', when: needsMaxTokens, in: SAMPLING, why: 'prefill ends with the first token' },
  { field: 'max_completion_tokens', value: '1', when: 'present', in: IN_BODY, why: 'wins over max_tokens in chat' },
  { field: 'min_tokens', value: undefined, when: 'present', in: SAMPLING, why: 'min_tokens > max_tokens is refused with 400' },
  { field: 'min_completion_tokens', value: undefined, when: 'present', in: IN_BODY, why: 'as min_tokens' },
  { field: 'n', value: '1', when: 'present', in: SAMPLING, why: 'the handoff serves one sequence' },
  { field: 'best_of', value: undefined, when: 'present', in: SAMPLING, why: 'must not be below n, and needs several sequences' },
  { field: 'use_beam_search', value: undefined, when: 'present', in: SAMPLING, why: 'needs several sequences' },
  { field: 'logprobs', value: undefined, when: 'present', in: SAMPLING, why: 'cost without benefit: the answer is discarded' },
  { field: 'top_logprobs', value: undefined, when: 'present', in: IN_BODY, why: 'refused without logprobs' },
  { field: 'prompt_logprobs', value: undefined, when: 'present', in: SAMPLING, why: 'turns prefix caching off for the request' },
  { field: 'response_format', value: undefined, when: 'present', in: IN_BODY, why: 'compiles a grammar for one discarded token' },
  { field: 'structured_outputs', value: undefined, when: 'present', in: SAMPLING, why: 'as response_format' },
  { field: 'stop', value: undefined, when: 'present', in: SAMPLING, why: 'the one token must end by length' },
  { field: 'echo', value: undefined, when: 'present', in: IN_BODY, why: 'sends the prompt back for nothing' },
  { field: 'ignore_eos', value: 'true', when: 'always', in: SAMPLING, onlyByLength: true, why: 'an EOS token would end it by stop, and its KV is freed' },
  { field: 'stop_token_ids', value: undefined, when: 'present', in: SAMPLING, onlyByLength: true, why: 'as ignore_eos' },
];

/** The rows of one API in one place. */
function rulesFor(api: Api, place: FieldPlace): readonly PrefillRule[] {
  return PREFILL_RULES.filter((rule) => rule.in[api] === place);
}

const BODY_RULES: Readonly<Record<Api, readonly PrefillRule[]>> = {
  chat: rulesFor('chat', 'body'),
  completions: rulesFor('completions', 'body'),
  generate: rulesFor('generate', 'body'),
};
const SAMPLING_RULES = rulesFor('generate', 'sampling_params');

const SAMPLING_PARAMS = 'sampling_params';
const EXTRA_ARGS = 'extra_args';
const EMPTY_OBJECT = Buffer.from('{}');
const NO_MEMBERS: readonly JsonMember[] = [];

/** Top-level fields to replace (JSON text) or remove (undefined) beside what a leg needs anyway. */
export type FieldEdits = ReadonlyMap<string, string | undefined>;

const NO_EDITS: FieldEdits = new Map();

export interface RewrittenBody {
  readonly body: Buffer;
  readonly rewrites: readonly Rewrite[];
}

export interface PrefillOptions {
  /** `kv_transfer_params` of the leg, JSON text. */
  readonly transferParams?: string;
  /** For protocols whose prefill keeps no KV unless its one token ends by length: EOS and stop tokens are ignored. */
  readonly mustEndByLength?: boolean;
  readonly also?: FieldEdits;
}

/** The prefill leg's body: the table's edits plus what the connector needs. */
export function prefillBody(request: ClientRequest, options: PrefillOptions = {}): RewrittenBody {
  const { api, json } = request;
  const { transferParams, also = NO_EDITS } = options;
  const body = new Edits(request.body, request.members, '');
  for (const [field, value] of also) body.set(field, value);
  body.apply(BODY_RULES[api], { fields: json, api, options });
  if (api === 'generate') {
    const sampling = samplingParams(request, body);
    sampling?.apply(SAMPLING_RULES, { fields: asJsonObject(json[SAMPLING_PARAMS]) ?? {}, api, options });
    if (transferParams !== undefined) sampling?.setExtraArg(transferParams);
    if (sampling !== undefined) body.edits.set(SAMPLING_PARAMS, sampling.finish());
  }
  if (transferParams !== undefined) body.set(KV_TRANSFER_PARAMS, transferParams);
  return { body: body.finish(), rewrites: body.rewrites };
}

/**
 * The decode leg's body: the client's own bytes with `params` (raw JSON) put where the engine reads them. On
 * /inference/v1/generate that is two places: the Python frontend ignores the top-level field and reads
 * `sampling_params.extra_args.kv_transfer_params`, the Rust frontend merges the top-level one. Both get the same bytes.
 */
export function decodeBody(request: ClientRequest, params: Buffer, also: FieldEdits = NO_EDITS): RewrittenBody {
  const body = new Edits(request.body, request.members, '');
  for (const [field, value] of also) body.set(field, value);
  body.edits.set(KV_TRANSFER_PARAMS, params);
  const own = memberValue(request.body, request.members, KV_TRANSFER_PARAMS);
  body.rewrites.push(describeRewrite(KV_TRANSFER_PARAMS, own?.toString('utf8', 0, 400), params.toString('utf8', 0, 400)));
  if (request.api === 'generate') {
    const sampling = samplingParams(request, body);
    sampling?.setExtraArg(params);
    if (sampling !== undefined) body.edits.set(SAMPLING_PARAMS, sampling.finish());
  }
  return { body: body.finish(), rewrites: body.rewrites };
}

/** The client's own bytes but for `also`. */
export function editedBody(request: ClientRequest, also: FieldEdits): RewrittenBody {
  if (also.size === 0) return { body: request.body, rewrites: [] };
  const body = new Edits(request.body, request.members, '');
  for (const [field, value] of also) body.set(field, value);
  return { body: body.finish(), rewrites: body.rewrites };
}

/** Edits of a generate request's sampling parameters; undefined when they are something the engine will refuse anyway. */
function samplingParams(request: ClientRequest, body: Edits): Edits | undefined {
  return body.nested(SAMPLING_PARAMS, request.json[SAMPLING_PARAMS]);
}

/** Edits of one object of the body, and their description. */
class Edits {
  readonly edits = new Map<string, string | Buffer | undefined>();
  readonly rewrites: Rewrite[];
  readonly #json: Buffer;
  readonly #members: readonly JsonMember[];
  /** Path of the object, with a dot at its end. */
  readonly #prefix: string;

  constructor(json: Buffer, members: readonly JsonMember[], prefix: string, rewrites: Rewrite[] = []) {
    this.#json = json;
    this.#members = members;
    this.#prefix = prefix;
    this.rewrites = rewrites;
  }

  apply(rules: readonly PrefillRule[], { fields, api, options }: { readonly fields: Json; readonly api: Api; readonly options: PrefillOptions }): void {
    for (const { field, value, when, onlyByLength } of rules) {
      if (onlyByLength === true && options.mustEndByLength !== true) continue;
      const isDue = when === 'present' ? field in fields : when === 'always' || when(fields, api);
      if (isDue) this.set(field, value);
    }
  }

  set(field: string, value: string | undefined): void {
    const old = memberValue(this.#json, this.#members, field);
    this.edits.set(field, value);
    // A cut multi-byte character at the end is cut off again by describeRewrite's limit.
    const from = old?.toString('utf8', 0, 1024);
    if (from !== value) this.rewrites.push(describeRewrite(this.#prefix + field, from, value));
  }

  /** Puts `kv_transfer_params` among the arguments that the Python frontend hands to its connector. */
  setExtraArg(params: string | Buffer): void {
    const extra = memberValue(this.#json, this.#members, EXTRA_ARGS);
    const members = extra === undefined ? undefined : scanMembers(extra);
    const edits = new Map([[KV_TRANSFER_PARAMS, params]]);
    this.edits.set(EXTRA_ARGS, members === undefined || extra === undefined ? editMembers(EMPTY_OBJECT, NO_MEMBERS, edits) : editMembers(extra, members, edits));
  }

  /** Edits of the object at `key`, made anew when it is absent or null; undefined when `value` is no object. */
  nested(key: string, value: unknown): Edits | undefined {
    const prefix = `${key}.`;
    if (value === undefined || value === null) return new Edits(EMPTY_OBJECT, NO_MEMBERS, prefix, this.rewrites);
    const json = memberValue(this.#json, this.#members, key);
    const members = json === undefined ? undefined : scanMembers(json);
    return json === undefined || members === undefined ? undefined : new Edits(json, members, prefix, this.rewrites);
  }

  finish(): Buffer {
    return editMembers(this.#json, this.#members, this.edits);
  }
}

/** One entry for the record, values cut to 200 characters. */
export function describeRewrite(field: string, from: string | undefined, to: string | undefined): Rewrite {
  const rewrite: { field: string; from?: string; to?: string } = { field };
  if (from !== undefined) rewrite.from = cut(from, 200);
  if (to !== undefined) rewrite.to = cut(to, 200);
  return rewrite;
}

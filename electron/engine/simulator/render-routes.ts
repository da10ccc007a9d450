/**
 * POST /v1/{chat/completions,completions}/render: a request as token ids with everything that `/inference/v1/generate`
 * needs, without generating (protocol facts: vllm/entrypoints/scale_out/render/serving.py,
 * scale_out/token_in_token_out/protocol.py). As there: chat gives one object, completions a list even for one prompt;
 * `kv_transfer_params` and `vllm_xargs` go to `sampling_params.extra_args`, the top-level field stays null; `max_tokens` is
 * filled in; a forced tool call is a JSON schema. `kwargs_data` stands in for the serialised tensors of a processor.
 */
import { createHash } from 'node:crypto';
import { badRequest } from './api-error.ts';
import { readInteger, readNumber, readStrings, type Body } from './body-fields.ts';
import { isRecord, type RenderedPrompt } from './chat-template.ts';
import type { Exchange } from './exchange.ts';
import type { GenerationRequest } from './generation-request.ts';
import { randomId, readJsonBody } from './json-body.ts';
import { parseGeneration } from './request-parsing.ts';
import { ID_PREFIX } from './sim-api.ts';
import type { SimContext } from './sim-context.ts';
import type { MediaItem } from './sequence.ts';

function modalities(media: readonly MediaItem[], value: (item: MediaItem) => unknown): Readonly<Record<string, unknown[]>> {
  const lists: Record<string, unknown[]> = {};
  for (const item of media) (lists[item.modality] ??= []).push(value(item));
  return lists;
}

function features({ media }: RenderedPrompt): object | null {
  if (media.length === 0) return null;
  return {
    mm_hashes: modalities(media, ({ hash }) => hash),
    mm_placeholders: modalities(media, ({ start, length }) => ({ offset: start, length })),
    kwargs_data: modalities(media, ({ hash }) => createHash('sha512').update(hash).digest('base64')),
  };
}

/** What constrains the output: the answer's JSON format, or the call that `tool_choice` demands. */
function structuredOutputs(body: Body, { json, tools, toolChoice }: GenerationRequest): object | null {
  if (toolChoice === 'required') {
    const [only] = tools;
    if (isRecord(body['tool_choice']) && only !== undefined) return { json: only.parameters };
    const calls = tools.map(({ name, parameters }) => ({
      properties: { name: { type: 'string', enum: [name] }, parameters },
      required: ['name', 'parameters'],
    }));
    return { json: { type: 'array', minItems: 1, items: { type: 'object', anyOf: calls } } };
  }
  if (json === undefined) return null;
  return json.schema === undefined ? { json_object: true } : { json: json.schema };
}

function samplingParams(body: Body, request: GenerationRequest, maxTokens: number): object {
  const xargs = isRecord(body['vllm_xargs']) ? body['vllm_xargs'] : {};
  const extra = { ...xargs, ...(request.kvTransferParams !== undefined && { kv_transfer_params: request.kvTransferParams }) };
  return {
    n: request.n,
    presence_penalty: readNumber(body, 'presence_penalty') ?? 0,
    frequency_penalty: readNumber(body, 'frequency_penalty') ?? 0,
    repetition_penalty: readNumber(body, 'repetition_penalty') ?? 1,
    temperature: readNumber(body, 'temperature') ?? 1,
    top_p: readNumber(body, 'top_p') ?? 1,
    top_k: readInteger(body, 'top_k') ?? 0,
    min_p: readNumber(body, 'min_p') ?? 0,
    seed: request.seed ?? null,
    stop: readStrings(body['stop']),
    stop_token_ids: request.stopTokenIds,
    bad_words: [],
    include_stop_str_in_output: body['include_stop_str_in_output'] === true,
    ignore_eos: request.ignoreEos,
    max_tokens: maxTokens,
    min_tokens: request.minTokens,
    logprobs: request.logprobs ?? null,
    prompt_logprobs: request.promptLogprobs ?? null,
    detokenize: true,
    skip_special_tokens: body['skip_special_tokens'] !== false,
    structured_outputs: structuredOutputs(body, request),
    extra_args: Object.keys(extra).length === 0 ? null : extra,
  };
}

function generateRequest(body: Body, request: GenerationRequest, input: { readonly prompt: RenderedPrompt; readonly id: string; readonly limit: number }): object {
  const { prompt, id, limit } = input;
  const room = limit - prompt.tokens.length;
  return {
    request_id: id,
    token_ids: prompt.tokens,
    assistant_tokens_mask: null,
    token_offsets: null,
    features: features(prompt),
    content_parts: null,
    sampling_params: samplingParams(body, request, Math.min(request.maxTokens ?? room, room)),
    model: body['model'] ?? null,
    stream: request.isStream,
    stream_options: request.isStream ? (body['stream_options'] ?? null) : null,
    cache_salt: request.cacheSalt ?? null,
    priority: readInteger(body, 'priority') ?? 0,
    kv_transfer_params: null,
    ec_transfer_params: null,
  };
}

/** Throws ApiError, with the refusals of the route that would generate. */
export function render(exchange: Exchange, api: 'chat' | 'completions', { options, prng }: SimContext): void {
  const body = readJsonBody(exchange);
  const request = parseGeneration(body, api, options);
  if (!isRecord(body)) return;
  if (body['use_beam_search'] === true) throw badRequest('Beam search is not supported by the render endpoint', 'use_beam_search');
  const requests = request.prompts.map((prompt) =>
    generateRequest(body, request, { prompt, id: `${ID_PREFIX[api]}${randomId(prng)}`, limit: options.maxModelLen }),
  );
  exchange.json(api === 'chat' ? (requests[0] ?? {}) : requests);
}

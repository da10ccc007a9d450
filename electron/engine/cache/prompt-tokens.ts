/**
 * The tokens of a client's prompt, exactly as the engine makes them: from the request itself where it carries tokens,
 * else asked from an instance that serves the model.
 *
 *   generate                token_ids of the body
 *   completions             a list of ids is taken as it is; a text is asked from /tokenize
 *   responses, messages     nothing: no route renders them
 *   chat                    /v1/chat/completions/render (exact, and with the hashes of media), else /tokenize with the
 *                           messages and everything that the template sees; not for media, whose blocks have keys that
 *                           only render tells
 *
 * Both routes apply the model's chat template in the API server, off the GPU (vllm/entrypoints/scale_out/render/serving.py,
 * vllm/entrypoints/serve/tokenize/serving.py).
 */
import type { Instance } from '../fleet/instance.ts';
import type { PromptKeys } from '../kv-index/prompt.ts';
import { asJsonObject } from '../proxy/client-request.ts';
import type { EngineCall } from './engine-call.ts';
import { tokenIdsOf } from '../proxy/token-ids.ts';
import type { Json, MediaItem, PromptSource } from './prompt-source.ts';

/** A prompt as engines hash it. */
export interface PromptTokens {
  /** From `events`: those of whole blocks only. */
  readonly tokens: Uint32Array;
  readonly from: 'render' | 'tokenize' | 'request' | 'events';
  readonly media: readonly MediaItem[];
  /** Media by block, where these are known rather than the items. */
  readonly mediaByBlock?: PromptKeys['media'];
  /** Of the whole prompt, where that is more than `tokens`. From `events`, absent: not known. */
  readonly length?: number;
}

export type PromptAnswer = { readonly ok: true; readonly prompt: PromptTokens } | { readonly ok: false; readonly reason: string };

export interface AskOptions {
  readonly call: EngineCall;
  /** Who may be asked, best first. */
  readonly instances: readonly Instance[];
  readonly authorization: string | undefined;
}

const RENDER = '/v1/chat/completions/render';
const TOKENIZE = '/tokenize';
/** Instances asked for one prompt. */
const MAX_ASKED = 2;
/** What /tokenize takes of a chat request beside the messages. */
const TEMPLATE_FIELDS = ['model', 'messages', 'tools', 'add_generation_prompt', 'continue_final_message', 'add_special_tokens', 'chat_template', 'chat_template_kwargs', 'mm_processor_kwargs'] as const;

/** Whether some instance may tell the tokens of such a request, as far as is known. */
export function canTell(api: 'chat' | 'completions', { call, instances }: Pick<AskOptions, 'call' | 'instances'>): boolean {
  return instances.some((instance) => !call.lacks(instance, TOKENIZE) || (api === 'chat' && !call.lacks(instance, RENDER)));
}

/** Never rejects. */
export async function promptTokens(source: PromptSource, options: AskOptions): Promise<PromptAnswer> {
  switch (source.kind) {
    case 'none': case 'unrendered': return { ok: false, reason: source.reason };
    case 'tokens': return { ok: true, prompt: { tokens: source.tokens, from: 'request', media: source.media } };
    case 'text': {
      const { json, text } = source;
      const body = pick(json, ['model', 'add_special_tokens'], { prompt: text });
      return await ask(TOKENIZE, body, { ...options, read: (answer) => cutTo(tokenIdsOf(answer['tokens']), json), from: 'tokenize' });
    }
    case 'chat': {
      const rendered = await ask(RENDER, source.body, { ...options, read: (answer) => tokenIdsOf(answer['token_ids']), from: 'render' });
      if (rendered.ok || source.hasMedia) return rendered.ok ? rendered : { ok: false, reason: `the prompt has media, and only ${RENDER} tells how the engine names them: ${rendered.reason}` };
      return await ask(TOKENIZE, pick(source.json, TEMPLATE_FIELDS, {}), { ...options, read: (answer) => cutTo(tokenIdsOf(answer['tokens']), source.json), from: 'tokenize' });
    }
  }
  return source;
}

interface Ask extends AskOptions {
  readonly read: (answer: Json) => Uint32Array | undefined;
  readonly from: 'render' | 'tokenize';
}

/**
 * Of a rendered request with media, the tensors made of them are most of the bytes, and last
 * (vllm/entrypoints/scale_out/token_in_token_out/protocol.py): they are not read.
 */
const WITHOUT_TENSORS = { before: '"kwargs_data"', close: '}}' };

async function ask(path: string, body: Buffer | string, { call, instances, authorization, read, from }: Ask): Promise<PromptAnswer> {
  const able = instances.filter((instance) => !call.lacks(instance, path));
  let reason = instances.length === 0 ? 'no instance of the model is up' : `no instance has ${path}`;
  for (const instance of able.slice(0, MAX_ASKED)) {
    const answer = await call.post(instance, path, { body, authorization, ...(from === 'render' && { cut: WITHOUT_TENSORS }) });
    if (!answer.ok) {
      reason = answer.reason;
      // Another one would refuse it too.
      if (answer.why === 'refused') break;
      continue;
    }
    const json = asJsonObject(answer.json);
    const tokens = json === undefined ? undefined : read(json);
    if (json !== undefined && tokens !== undefined) return { ok: true, prompt: { tokens, from, media: mediaOf(json['features']) } };
    reason = `${path} on ${instance.name} answered no tokens`;
  }
  return { ok: false, reason };
}

/** `truncate_prompt_tokens` keeps the last ones (vllm/entrypoints/openai/completion/protocol.py). */
function cutTo(tokens: Uint32Array | undefined, json: Json): Uint32Array | undefined {
  const limit = json['truncate_prompt_tokens'];
  return tokens !== undefined && typeof limit === 'number' && limit > 0 ? tokens.subarray(-limit) : tokens;
}

function pick(json: Json, fields: readonly string[], extra: Json): string {
  const picked: Record<string, unknown> = { ...extra };
  for (const field of fields) if (json[field] !== undefined) picked[field] = json[field];
  return JSON.stringify(picked);
}

/** Media of a rendered or generate request, in the order of the prompt. */
export function mediaOf(features: unknown): MediaItem[] {
  const json = asJsonObject(features);
  const hashes = asJsonObject(json?.['mm_hashes']) ?? {};
  const places = asJsonObject(json?.['mm_placeholders']) ?? {};
  const items: MediaItem[] = [];
  for (const [modality, names] of Object.entries(hashes)) {
    const ranges: unknown = places[modality];
    if (!Array.isArray(names) || !Array.isArray(ranges)) continue;
    for (const [index, hash] of (names as readonly unknown[]).entries()) {
      const range = asJsonObject((ranges as readonly unknown[])[index]);
      const offset = range?.['offset'];
      const length = range?.['length'];
      if (typeof hash === 'string' && typeof offset === 'number' && typeof length === 'number') items.push({ hash, offset, length });
    }
  }
  return items.sort((a, b) => a.offset - b.offset);
}

/**
 * Keys of media by block: identifier, and its offset relative to the block's first token, which is negative in blocks
 * after its first (vllm/v1/core/kv_cache_utils.py, _gen_mm_extra_hash_keys).
 */
export function mediaByBlock(media: readonly MediaItem[], blockSize: number): (readonly (readonly [string, number])[] | undefined)[] | undefined {
  if (media.length === 0 || blockSize === 0) return undefined;
  const blocks: [string, number][][] = [];
  for (const { hash, offset, length } of media) {
    const last = Math.floor((offset + Math.max(1, length) - 1) / blockSize);
    for (let block = Math.floor(offset / blockSize); block <= last; block += 1) (blocks[block] ??= []).push([hash, offset - block * blockSize]);
  }
  return Array.from(blocks);
}

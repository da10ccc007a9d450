/**
 * Bodies of `POST /inference/v1/generate`: token ids in, sampling parameters in an object of their own (protocol facts:
 * vllm/entrypoints/scale_out/token_in_token_out/{protocol,serving}.py). The Python frontend ignores a top-level
 * `kv_transfer_params`: they are read from `sampling_params.extra_args`. A missing `max_tokens` means up to the model's
 * limit, and a cap above the limit is no error here.
 */
import { badRequest, validationError } from './api-error.ts';
import { checkTokens, readInteger, readBoolean, type Body } from './body-fields.ts';
import { isRecord } from './chat-template.ts';
import type { GenerationRequest } from './generation-request.ts';
import { readCacheSalt } from './request-parsing.ts';
import { checkCaps, checkLength, readCommonSampling, readModel, readStreamOptions } from './sampling-parsing.ts';
import type { MediaItem } from './sequence.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

const MODALITIES = ['image', 'audio', 'video'] as const;

/** Media by hash and place, as `features` of a rendered request carry them. */
function readFeatures(value: unknown, length: number): MediaItem[] {
  if (!isRecord(value)) return [];
  const refuse = (text: string): never => {
    throw validationError('value_error', ['features'], `Value error, ${text}`);
  };
  const hashes = isRecord(value['mm_hashes']) ? value['mm_hashes'] : refuse('mm_hashes must be an object');
  const places = isRecord(value['mm_placeholders']) ? value['mm_placeholders'] : refuse('mm_placeholders must be an object');
  if (Object.keys(hashes).toSorted().join() !== Object.keys(places).toSorted().join()) {
    refuse('mm_hashes and mm_placeholders must use the same modalities');
  }
  const items = MODALITIES.flatMap((modality) => {
    const names: readonly unknown[] = Array.isArray(hashes[modality]) ? hashes[modality] : [];
    const ranges: readonly unknown[] = Array.isArray(places[modality]) ? places[modality] : [];
    if (names.length !== ranges.length) refuse(`${modality} mm_hashes and mm_placeholders must have the same length`);
    return names.map((hash, index): MediaItem => {
      const range = ranges[index];
      const start = isRecord(range) ? Number(range['offset']) : Number.NaN;
      const count = isRecord(range) ? Number(range['length']) : Number.NaN;
      if (!(start >= 0 && count > 0 && start + count <= length)) refuse('mm_placeholders must remain within the token_ids sequence');
      return { hash: String(hash), modality, start, length: count };
    });
  });
  return items.toSorted((left, right) => left.start - right.start);
}

function readStructured(sampling: Body): GenerationRequest['json'] {
  const wanted = sampling['structured_outputs'];
  if (!isRecord(wanted)) return undefined;
  if (wanted['json_object'] === true) return { schema: undefined };
  const { json } = wanted;
  if (json === undefined || json === null) return undefined;
  if (typeof json !== 'string') return { schema: json };
  try {
    return { schema: JSON.parse(json) as unknown };
  } catch {
    throw badRequest('structured_outputs.json is not valid JSON', 'structured_outputs');
  }
}

/** Throws ApiError. */
export function parseTokenRequest(value: unknown, options: ResolvedSimOptions): GenerationRequest {
  if (!isRecord(value)) throw validationError('model_attributes_type', [], 'Input should be a valid dictionary');
  const { token_ids: ids, sampling_params: sampling } = value;
  if (ids === undefined) throw validationError('missing', ['token_ids'], 'Field required');
  if (!Array.isArray(ids)) throw validationError('list_type', ['token_ids'], 'Input should be a valid list');
  if (ids.length === 0) throw validationError('too_short', ['token_ids'], 'List should have at least 1 item after validation, not 0');
  if (sampling === undefined) throw validationError('missing', ['sampling_params'], 'Field required');
  if (!isRecord(sampling)) throw validationError('model_attributes_type', ['sampling_params'], 'Input should be a valid dictionary');
  const tokens = checkTokens(ids, 'token_ids');
  const prompt = { tokens, media: readFeatures(value['features'], tokens.length) };
  const extra = sampling['extra_args'];
  const promptLogprobs = readInteger(sampling, 'prompt_logprobs');
  const request: GenerationRequest = {
    api: 'generate',
    ...readModel(value, options),
    prompts: [prompt],
    ...readCommonSampling(sampling),
    maxTokens: readInteger(sampling, 'max_tokens'),
    isStream: readBoolean(value, 'stream'),
    ...readStreamOptions(value['stream_options']),
    streamInterval: 1,
    logprobs: readInteger(sampling, 'logprobs'),
    promptLogprobs: promptLogprobs === undefined ? undefined : Math.max(0, promptLogprobs),
    returnTokenIds: true,
    showsReasoning: false,
    tools: [],
    toolChoice: 'none',
    json: readStructured(sampling),
    cacheSalt: readCacheSalt(value),
    kvTransferParams: isRecord(extra) && isRecord(extra['kv_transfer_params']) ? extra['kv_transfer_params'] : undefined,
    isFullReport: isRecord(extra) && extra['kv_cache_report_mode'] === 'full',
    requestId: typeof value['request_id'] === 'string' ? value['request_id'] : undefined,
  };
  checkCaps(request);
  checkLength(prompt, undefined, options.maxModelLen);
  return request;
}

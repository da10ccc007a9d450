/**
 * Sampling fields and their limits, refused in vLLM's words (protocol facts: vllm/sampling_params.py,
 * vllm/entrypoints/openai/{chat_completion,completion}/protocol.py).
 */
import { ApiError, badRequest, validationError } from './api-error.ts';
import { readBoolean, readInteger, readNumber, readStrings, checkTokens, type Body } from './body-fields.ts';
import { isRecord, type RenderedPrompt } from './chat-template.ts';
import type { Sampling, ServedModel, Streaming } from './generation-request.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

const MAX_N = 128;
/** vLLM takes a temperature below this for greedy sampling. */
const GREEDY_BELOW = 1e-5;

/** What all routes name alike; the caps, log probabilities and JSON formats differ. */
export function readCommonSampling(body: Body): Pick<Sampling, 'n' | 'minTokens' | 'ignoreEos' | 'seed' | 'stop' | 'stopTokenIds'> {
  const n = readInteger(body, 'n') ?? 1;
  if (n < 1 || n > MAX_N) throw badRequest(`n must be between 1 and ${MAX_N}, got ${n}.`, 'n');
  const bestOf = readInteger(body, 'best_of');
  if (bestOf !== undefined && bestOf < n) {
    throw badRequest(`best_of must be greater than or equal to n, got n=${n} and best_of=${bestOf}.`, 'best_of');
  }
  const temperature = readNumber(body, 'temperature');
  if (temperature !== undefined && temperature < 0) throw badRequest(`temperature must be non-negative, got ${temperature}.`, 'temperature');
  if (temperature !== undefined && temperature < GREEDY_BELOW && n > 1) {
    throw badRequest(`n must be 1 when using greedy sampling, got ${n}.`, 'n');
  }
  const topP = readNumber(body, 'top_p');
  if (topP !== undefined && (topP <= 0 || topP > 1)) throw badRequest(`top_p must be in (0, 1], got ${topP}.`, 'top_p');
  return {
    n,
    minTokens: readInteger(body, 'min_tokens') ?? 0,
    ignoreEos: readBoolean(body, 'ignore_eos'),
    seed: readInteger(body, 'seed'),
    stop: readStrings(body['stop']),
    stopTokenIds: Array.isArray(body['stop_token_ids']) ? checkTokens(body['stop_token_ids'], 'stop_token_ids') : [],
  };
}

export function readPromptLogprobs(body: Body, isStream: boolean): number | undefined {
  const count = readInteger(body, 'prompt_logprobs');
  if (count === undefined) return undefined;
  if (isStream && (count > 0 || count === -1)) {
    throw validationError('value_error', [], 'Value error, `prompt_logprobs` are not available when `stream=True`.');
  }
  if (count < -1) throw validationError('value_error', [], 'Value error, `prompt_logprobs` must be a positive value or -1.');
  return Math.max(0, count);
}

export function readStreaming(body: Body): Streaming {
  const isStream = readBoolean(body, 'stream');
  const options = body['stream_options'];
  if (isRecord(options) && !isStream) {
    throw validationError('value_error', [], 'Value error, Stream options can only be defined when `stream=True`.');
  }
  return { isStream, ...readStreamOptions(options), streamInterval: Math.max(1, readInteger(body, 'stream_interval') ?? 1) };
}

export function readStreamOptions(options: unknown): Pick<Streaming, 'includeUsage' | 'continuousUsage'> {
  const includeUsage = isRecord(options) && options['include_usage'] === true;
  return { includeUsage, continuousUsage: includeUsage && options['continuous_usage_stats'] === true };
}

/** Throws 404 for a model that is not served. */
export function readModel(body: Body, options: ResolvedSimOptions): ServedModel {
  const model = body['model'];
  if (model === undefined || model === null || model === options.model) return { model: options.model, lora: undefined };
  if (typeof model !== 'string') throw validationError('string_type', ['model'], 'Input should be a valid string');
  const index = options.loras.indexOf(model);
  if (index < 0) throw new ApiError(404, 'NotFoundError', `The model \`${model}\` does not exist.`, 'model');
  const name = options.loras[index] ?? '';
  return { model: name, lora: { id: index + 1, name } };
}

/** The rules between the caps themselves. */
export function checkCaps({ maxTokens, minTokens }: Pick<Sampling, 'maxTokens' | 'minTokens'>): void {
  if (minTokens < 0) throw badRequest(`min_tokens must be greater than or equal to 0, got ${minTokens}.`, 'min_tokens');
  if (maxTokens !== undefined && maxTokens < 1) throw badRequest(`max_tokens must be at least 1, got ${maxTokens}.`, 'max_tokens');
  if (maxTokens !== undefined && minTokens > maxTokens) {
    throw badRequest(`min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`, 'min_tokens');
  }
}

/** A prompt must leave room for a token, and (where vLLM checks it) for the cap. */
export function checkLength({ tokens }: RenderedPrompt, maxTokens: number | undefined, limit: number): void {
  if (tokens.length >= limit) {
    throw badRequest(
      `This model's maximum context length is ${limit} tokens. However, your request has ${tokens.length} input tokens. Please reduce the length of the input messages.`,
      'input_tokens',
    );
  }
  if (maxTokens !== undefined && tokens.length + maxTokens > limit) {
    throw badRequest(
      `'max_tokens' or 'max_completion_tokens' is too large: ${maxTokens}. This model's maximum context length is ${limit} tokens and your request has ${tokens.length} input tokens (${maxTokens} > ${limit} - ${tokens.length}).`,
      'max_tokens',
    );
  }
}

/**
 * Reads completion and chat bodies and refuses what vLLM refuses, in its words (protocol facts:
 * vllm/entrypoints/openai/{chat_completion,completion}/protocol.py, vllm/sampling_params.py). Unknown fields are ignored.
 */
import type { Api } from '#shared/vocabulary.ts';
import { ApiError, badRequest, validationError } from './api-error.ts';
import { isRecord, renderChat, type RenderedPrompt } from './chat-template.ts';
import { readKvTransferParams, type KvTransferRequest } from './nixl-params.ts';
import type { ToolChoice } from './output-plan.ts';
import type { ResolvedSimOptions } from './sim-options.ts';
import { encodeText, VOCABULARY_SIZE } from './tokenizer.ts';

export interface GenerationRequest {
  readonly api: Api;
  readonly model: string;
  readonly lora: { readonly id: number; readonly name: string } | undefined;
  /** One per prompt; chat has one. */
  readonly prompts: readonly RenderedPrompt[];
  readonly n: number;
  /** Undefined: up to the model's limit. */
  readonly maxTokens: number | undefined;
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  readonly seed: number | undefined;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly isStream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  /** Tokens per chunk. */
  readonly streamInterval: number;
  /** Number of alternatives; undefined = no logprobs. */
  readonly logprobs: number | undefined;
  readonly returnTokenIds: boolean;
  readonly tools: readonly ToolChoice[];
  readonly toolChoice: 'none' | 'auto' | 'required';
  readonly json: { readonly schema: unknown } | undefined;
  readonly cacheSalt: string | undefined;
  readonly kvTransfer: KvTransferRequest | undefined;
  readonly isFullReport: boolean;
  /** The body's `request_id`; the header wins. */
  readonly requestId: string | undefined;
}

type Body = Readonly<Record<string, unknown>>;

/** vLLM's default for completions (OpenAI's); chat has none. */
const COMPLETION_MAX_TOKENS = 16;
const MAX_N = 128;

function readInteger(body: Body, field: string): number | undefined {
  const value = body[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    throw validationError('int_parsing', [field], 'Input should be a valid integer');
  }
  return value;
}

function readBoolean(body: Body, field: string): boolean {
  const value = body[field];
  if (value === undefined || value === null) return false;
  if (typeof value !== 'boolean') throw validationError('bool_parsing', [field], 'Input should be a valid boolean');
  return value;
}

function readStrings(value: unknown): string[] {
  if (typeof value === 'string') return value === '' ? [] : [value];
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string' && item !== '') : [];
}

function checkTokens(tokens: readonly unknown[]): number[] {
  return tokens.map((token) => {
    if (typeof token !== 'number' || !Number.isInteger(token) || token < 0 || token >= VOCABULARY_SIZE) {
      throw badRequest(`Token id ${String(token)} is out of vocabulary`, 'prompt');
    }
    return token;
  });
}

function readPrompts(value: unknown): RenderedPrompt[] {
  const one = (tokens: number[]): RenderedPrompt => {
    if (tokens.length === 0) throw badRequest('The prompt must not be empty', 'prompt');
    return { tokens, media: [] };
  };
  if (value === undefined || value === null) {
    throw badRequest('Either prompt or prompt_embeds must be provided and non-empty.', 'prompt');
  }
  if (typeof value === 'string') return [one(encodeText(value))];
  if (!Array.isArray(value) || value.length === 0) throw badRequest('The prompt must be a string or a non-empty list', 'prompt');
  const items = value as readonly unknown[];
  if (typeof items[0] === 'number') return [one(checkTokens(items))];
  return items.map((item) => one(typeof item === 'string' ? encodeText(item) : checkTokens(Array.isArray(item) ? item : [])));
}

function readTools(body: Body): Pick<GenerationRequest, 'tools' | 'toolChoice'> {
  const declared = Array.isArray(body['tools']) ? (body['tools'] as readonly unknown[]) : [];
  const tools = declared.flatMap((tool): ToolChoice[] => {
    const definition = isRecord(tool) ? tool['function'] : undefined;
    if (!isRecord(definition) || typeof definition['name'] !== 'string') return [];
    return [{ name: definition['name'], parameters: definition['parameters'] ?? { type: 'object' } }];
  });
  const choice = body['tool_choice'];
  if (isRecord(choice)) {
    const wanted = isRecord(choice['function']) ? choice['function']['name'] : undefined;
    const named = tools.filter((tool) => tool.name === wanted);
    if (named.length === 0) throw badRequest('The tool specified in `tool_choice` does not match any of the specified `tools`', 'tool_choice');
    return { tools: named, toolChoice: 'required' };
  }
  if (choice === 'required' && tools.length === 0) {
    throw badRequest('When using `tool_choice`, `tools` must be set.', 'tool_choice');
  }
  if (tools.length === 0 || choice === 'none') return { tools: [], toolChoice: 'none' };
  return { tools, toolChoice: choice === 'required' ? 'required' : 'auto' };
}

function readJsonFormat(body: Body): GenerationRequest['json'] {
  const format = body['response_format'];
  if (!isRecord(format)) return undefined;
  if (format['type'] === 'json_object') return { schema: undefined };
  if (format['type'] !== 'json_schema') return undefined;
  const holder = format['json_schema'];
  return { schema: isRecord(holder) ? holder['schema'] : undefined };
}

function readStreaming(body: Body): Pick<GenerationRequest, 'isStream' | 'includeUsage' | 'continuousUsage' | 'streamInterval'> {
  const isStream = readBoolean(body, 'stream');
  const options = body['stream_options'];
  if (isRecord(options) && !isStream) {
    throw validationError('value_error', [], 'Value error, Stream options can only be defined when `stream=True`.');
  }
  const includeUsage = isRecord(options) && options['include_usage'] === true;
  return {
    isStream,
    includeUsage,
    continuousUsage: includeUsage && isRecord(options) && options['continuous_usage_stats'] === true,
    streamInterval: Math.max(1, readInteger(body, 'stream_interval') ?? 1),
  };
}

function readLogprobs(body: Body, api: Api): number | undefined {
  if (api === 'completions') return readInteger(body, 'logprobs');
  return readBoolean(body, 'logprobs') ? (readInteger(body, 'top_logprobs') ?? 0) : undefined;
}

function readModel(body: Body, options: ResolvedSimOptions): Pick<GenerationRequest, 'model' | 'lora'> {
  const model = body['model'];
  if (model === undefined || model === null || model === options.model) return { model: options.model, lora: undefined };
  if (typeof model !== 'string') throw validationError('string_type', ['model'], 'Input should be a valid string');
  const index = options.loras.indexOf(model);
  if (index < 0) throw new ApiError(404, 'NotFoundError', `The model \`${model}\` does not exist.`, 'model');
  const name = options.loras[index] ?? '';
  return { model: name, lora: { id: index + 1, name } };
}

function checkLimits(request: Pick<GenerationRequest, 'prompts' | 'maxTokens' | 'minTokens' | 'n'>, limit: number): void {
  const { maxTokens, minTokens, n } = request;
  if (n < 1 || n > MAX_N) throw badRequest(`n must be between 1 and ${MAX_N}, got ${n}.`, 'n');
  if (minTokens < 0) throw badRequest(`min_tokens must be greater than or equal to 0, got ${minTokens}.`, 'min_tokens');
  if (maxTokens !== undefined && maxTokens < 1) throw badRequest(`max_tokens must be at least 1, got ${maxTokens}.`, 'max_tokens');
  if (maxTokens !== undefined && minTokens > maxTokens) {
    throw badRequest(`min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`, 'min_tokens');
  }
  for (const { tokens } of request.prompts) {
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
}

/** Throws ApiError with the status and body that vLLM would send. */
export function parseGeneration(value: unknown, api: Api, options: ResolvedSimOptions): GenerationRequest {
  if (!isRecord(value)) throw validationError('model_attributes_type', [], 'Input should be a valid dictionary');
  const body = value;
  const prompts = api === 'chat' ? [renderChat({ messages: body['messages'], tools: body['tools'] })] : readPrompts(body['prompt']);
  const model = readModel(body, options);
  const cap = readInteger(body, 'max_tokens');
  const maxTokens = api === 'chat' ? (readInteger(body, 'max_completion_tokens') ?? cap) : (cap ?? COMPLETION_MAX_TOKENS);
  const request: GenerationRequest = {
    api,
    ...model,
    prompts,
    n: readInteger(body, 'n') ?? 1,
    maxTokens,
    minTokens: readInteger(body, 'min_tokens') ?? 0,
    ignoreEos: readBoolean(body, 'ignore_eos'),
    seed: readInteger(body, 'seed'),
    stop: readStrings(body['stop']),
    stopTokenIds: Array.isArray(body['stop_token_ids']) ? checkTokens(body['stop_token_ids']) : [],
    ...readStreaming(body),
    logprobs: readLogprobs(body, api),
    returnTokenIds: readBoolean(body, 'return_token_ids'),
    ...(api === 'chat' ? readTools(body) : { tools: [], toolChoice: 'none' as const }),
    json: readJsonFormat(body),
    cacheSalt: typeof body['cache_salt'] === 'string' && body['cache_salt'] !== '' ? body['cache_salt'] : undefined,
    kvTransfer: readKvTransferParams(body['kv_transfer_params']),
    isFullReport: isRecord(body['vllm_xargs']) && body['vllm_xargs']['kv_cache_report_mode'] === 'full',
    requestId: typeof body['request_id'] === 'string' ? body['request_id'] : undefined,
  };
  checkLimits(request, options.maxModelLen);
  return request;
}

/**
 * Reads completion and chat bodies and refuses what vLLM refuses, in its words (protocol facts:
 * vllm/entrypoints/openai/{chat_completion,completion}/protocol.py). Unknown fields are ignored.
 */
import type { Api } from '#shared/vocabulary.ts';
import { badRequest, validationError } from './api-error.ts';
import { checkTokens, readBoolean, readFlag, readInteger, type Body } from './body-fields.ts';
import { isRecord, renderChat, type RenderedPrompt } from './chat-template.ts';
import type { GenerationRequest } from './generation-request.ts';
import type { ToolChoice } from './output-plan.ts';
import { checkCaps, checkLength, readCommonSampling, readModel, readPromptLogprobs, readStreaming } from './sampling-parsing.ts';
import type { ResolvedSimOptions } from './sim-options.ts';
import { encodeText } from './tokenizer.ts';

/** vLLM's default for completions (OpenAI's); chat has none. */
const COMPLETION_MAX_TOKENS = 16;

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
  if (typeof items[0] === 'number') return [one(checkTokens(items, 'prompt'))];
  return items.map((item) => one(typeof item === 'string' ? encodeText(item) : checkTokens(Array.isArray(item) ? item : [], 'prompt')));
}

/** Also used to read a finished tool call back: what may be called, and whether something must be. */
export function readTools(body: Body): Pick<GenerationRequest, 'tools' | 'toolChoice'> {
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

function readLogprobs(body: Body, api: Api): number | undefined {
  if (api === 'completions') {
    const count = readInteger(body, 'logprobs');
    if (count !== undefined && count < 0) throw validationError('value_error', [], 'Value error, `logprobs` must be a positive value.');
    return count;
  }
  const isWanted = readBoolean(body, 'logprobs');
  const top = readInteger(body, 'top_logprobs');
  if (top !== undefined && top < 0 && top !== -1) throw validationError('value_error', [], 'Value error, `top_logprobs` must be a positive value or -1.');
  if (top !== undefined && top !== 0 && !isWanted) {
    throw validationError('value_error', [], 'Value error, when using `top_logprobs`, `logprobs` must be set to true.');
  }
  return isWanted ? Math.max(0, top ?? 0) : undefined;
}

/** Whether the chat template is asked to open the reasoning. */
export function isThinkingAsked(body: Body): boolean {
  const kwargs = body['chat_template_kwargs'];
  return isRecord(kwargs) && kwargs['enable_thinking'] === true;
}

/** Throws ApiError with the status and body that vLLM would send. */
export function parseGeneration(value: unknown, api: 'chat' | 'completions', options: ResolvedSimOptions): GenerationRequest {
  if (!isRecord(value)) throw validationError('model_attributes_type', [], 'Input should be a valid dictionary');
  const body = value;
  const streaming = readStreaming(body);
  const promptLogprobs = readPromptLogprobs(body, streaming.isStream);
  const logprobs = readLogprobs(body, api);
  const prompts =
    api === 'chat'
      ? [renderChat({ messages: body['messages'], tools: body['tools'], isThinking: isThinkingAsked(body) })]
      : readPrompts(body['prompt']);
  const cap = readInteger(body, 'max_tokens');
  const request: GenerationRequest = {
    api,
    ...readModel(body, options),
    prompts,
    ...readCommonSampling(body),
    maxTokens: api === 'chat' ? (readInteger(body, 'max_completion_tokens') ?? cap) : (cap ?? COMPLETION_MAX_TOKENS),
    ...streaming,
    logprobs,
    promptLogprobs,
    returnTokenIds: readBoolean(body, 'return_token_ids'),
    showsReasoning: readFlag(body, 'include_reasoning') ?? true,
    ...(api === 'chat' ? readTools(body) : { tools: [], toolChoice: 'none' as const }),
    json: readJsonFormat(body),
    cacheSalt: readCacheSalt(body),
    kvTransferParams: isRecord(body['kv_transfer_params']) ? body['kv_transfer_params'] : undefined,
    isFullReport: isRecord(body['vllm_xargs']) && body['vllm_xargs']['kv_cache_report_mode'] === 'full',
    requestId: typeof body['request_id'] === 'string' ? body['request_id'] : undefined,
  };
  checkCaps(request);
  for (const prompt of prompts) checkLength(prompt, request.maxTokens, options.maxModelLen);
  return request;
}

export function readCacheSalt(body: Body): string | undefined {
  return typeof body['cache_salt'] === 'string' && body['cache_salt'] !== '' ? body['cache_salt'] : undefined;
}

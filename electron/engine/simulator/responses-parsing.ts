/**
 * Bodies of `POST /v1/responses`, as far as text goes (protocol facts: vllm/entrypoints/openai/responses/{protocol,serving}.py).
 * Nothing is stored, as in a vLLM without VLLM_ENABLE_RESPONSES_API_STORE: earlier responses are unknown.
 */
import { ApiError, badRequest, validationError } from './api-error.ts';
import { readBoolean, readInteger, type Body } from './body-fields.ts';
import { isRecord, renderChat } from './chat-template.ts';
import type { GenerationRequest } from './generation-request.ts';
import { readCacheSalt } from './request-parsing.ts';
import { checkCaps, checkLength, readCommonSampling, readModel } from './sampling-parsing.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

export function responseNotFound(id: string): ApiError {
  return new ApiError(404, 'invalid_request_error', `Response with id '${id}' not found.`, 'response_id');
}

/** Input items become chat messages; content parts keep their text. */
function readMessages(body: Body): object[] {
  const { input, instructions } = body;
  const system = typeof instructions === 'string' && instructions !== '' ? [{ role: 'system', content: instructions }] : [];
  if (typeof input === 'string') return [...system, { role: 'user', content: input }];
  if (input === undefined) throw validationError('missing', ['input'], 'Field required');
  if (!Array.isArray(input)) throw validationError('string_type', ['input'], 'Input should be a valid string');
  const items = (input as readonly unknown[]).flatMap((item) => {
    if (!isRecord(item) || (item['type'] !== undefined && item['type'] !== 'message')) return [];
    return [{ role: typeof item['role'] === 'string' ? item['role'] : 'user', content: readContent(item['content']) }];
  });
  return [...system, ...items];
}

function readContent(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return (content as readonly unknown[]).map((part) => {
    if (!isRecord(part) || part['type'] !== 'input_image') return part;
    return { type: 'image_url', image_url: { url: part['image_url'] } };
  });
}

/** Throws ApiError. */
export function parseResponsesRequest(value: unknown, options: ResolvedSimOptions): GenerationRequest {
  if (!isRecord(value)) throw validationError('model_attributes_type', [], 'Input should be a valid dictionary');
  const previous = value['previous_response_id'];
  if (typeof previous === 'string') throw responseNotFound(previous);
  if (value['background'] === true) {
    throw badRequest('This vLLM engine does not support `store=True` and therefore does not support the background mode.', 'background');
  }
  if (value['tool_choice'] === 'required') throw badRequest('The simulated instance calls no tools in the Responses API.', 'tool_choice');
  const prompt = renderChat({ messages: readMessages(value) });
  const request: GenerationRequest = {
    api: 'responses',
    ...readModel(value, options),
    prompts: [prompt],
    ...readCommonSampling({ ...value, n: 1, min_tokens: undefined }),
    maxTokens: readInteger(value, 'max_output_tokens'),
    isStream: readBoolean(value, 'stream'),
    includeUsage: true,
    continuousUsage: false,
    streamInterval: 1,
    logprobs: undefined,
    promptLogprobs: undefined,
    returnTokenIds: false,
    showsReasoning: false,
    tools: [],
    toolChoice: 'none',
    json: undefined,
    cacheSalt: readCacheSalt(value),
    kvTransferParams: isRecord(value['kv_transfer_params']) ? value['kv_transfer_params'] : undefined,
    isFullReport: false,
    requestId: typeof value['request_id'] === 'string' ? value['request_id'] : undefined,
  };
  checkCaps(request);
  checkLength(prompt, request.maxTokens, options.maxModelLen);
  return request;
}

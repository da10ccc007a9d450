/**
 * POST /v1/{chat/completions,completions}/derender: finished token ids back into an OpenAI answer (protocol facts:
 * vllm/entrypoints/scale_out/derender/serving.py, scale_out/token_in_token_out/protocol.py).
 * chat: {model?, generate_response, prompt_tokens?, chat_request?}; completions: {model?, generate_responses: [...],
 * prompt_tokens?: [...], completion_request?}. Without `chat_request` there is text only, with it reasoning and tool calls
 * are told apart. Assumed: the parsers are those of the simulated model (`</think>`, JSON of a forced call).
 * Streaming derender (`stream: true`, one call per chunk) came later and is refused.
 */
import { badRequest, validationError } from './api-error.ts';
import { isRecord } from './chat-template.ts';
import type { Exchange } from './exchange.ts';
import { randomId, readJsonBody } from './json-body.ts';
import { isThinkingAsked, readTools } from './request-parsing.ts';
import { readModel } from './sampling-parsing.ts';
import type { SimContext } from './sim-context.ts';
import { decodeTokens, EOS_TOKEN, THINK_END_TOKEN, tokenText } from './tokenizer.ts';

type Json = Readonly<Record<string, unknown>>;

interface TokenChoice {
  readonly index: number;
  readonly tokens: readonly number[];
  readonly finishReason: string;
  readonly logprobs: unknown;
}

interface TokenAnswer {
  readonly id: string;
  readonly choices: readonly TokenChoice[];
  readonly source: Json;
}

function readAnswer(value: unknown, field: string): TokenAnswer {
  if (!isRecord(value)) throw validationError('missing', [field], 'Field required');
  const choices: readonly unknown[] = Array.isArray(value['choices']) ? value['choices'] : [];
  return {
    id: typeof value['request_id'] === 'string' ? value['request_id'] : '',
    source: value,
    choices: choices.map((choice, index): TokenChoice => {
      const tokens: readonly unknown[] = isRecord(choice) && Array.isArray(choice['token_ids']) ? choice['token_ids'] : [];
      const ids = tokens.filter((token): token is number => Number.isInteger(token));
      if (!isRecord(choice) || ids.length === 0) throw badRequest(`choice ${index} has empty or null token_ids`);
      return {
        index: typeof choice['index'] === 'number' ? choice['index'] : index,
        tokens: ids,
        finishReason: typeof choice['finish_reason'] === 'string' ? choice['finish_reason'] : 'stop',
        logprobs: choice['logprobs'],
      };
    }),
  };
}

function textOf(tokens: readonly number[]): string {
  return decodeTokens(tokens.filter((token) => token !== EOS_TOKEN));
}

/** `token_id:<n>` becomes the token's text. */
function resolveLogprobs(value: unknown): { readonly content: readonly Json[] } | null {
  if (!isRecord(value) || !Array.isArray(value['content'])) return null;
  const resolve = (entry: unknown): Json => {
    if (!isRecord(entry)) return {};
    const id = /^token_id:(\d+)$/u.exec(String(entry['token']))?.[1];
    const token = id === undefined ? String(entry['token']) : tokenText(Number(id));
    const top: readonly unknown[] | undefined = Array.isArray(entry['top_logprobs']) ? entry['top_logprobs'] : undefined;
    return { ...entry, token, bytes: [...Buffer.from(token, 'utf8')], ...(top !== undefined && { top_logprobs: top.map(resolve) }) };
  };
  return { content: (value['content'] as readonly unknown[]).map(resolve) };
}

function completionLogprobs(value: unknown): object | null {
  const resolved = resolveLogprobs(value);
  if (resolved === null) return null;
  let offset = 0;
  const tokens = resolved.content.map(({ token }) => String(token));
  const offsets = tokens.map((token) => {
    const start = offset;
    offset += token.length;
    return start;
  });
  const tops = resolved.content.map(({ top_logprobs: top }) =>
    Object.fromEntries((Array.isArray(top) ? (top as readonly Json[]) : []).map((entry) => [String(entry['token']), entry['logprob']])),
  );
  return { text_offset: offsets, token_logprobs: resolved.content.map(({ logprob }) => logprob), tokens, top_logprobs: tops };
}

/** The calls in a forced answer: a list of {name, parameters}, or the arguments of the one tool that was named. */
function readCalls(content: string, request: Json): { readonly name: string; readonly arguments: string }[] {
  const { tools, toolChoice } = readTools(request);
  if (toolChoice !== 'required') return [];
  const [only] = tools;
  if (isRecord(request['tool_choice']) && only !== undefined) return [{ name: only.name, arguments: content }];
  try {
    const calls: unknown = JSON.parse(content);
    return (Array.isArray(calls) ? calls : []).flatMap((call: unknown) =>
      isRecord(call) && typeof call['name'] === 'string' ? [{ name: call['name'], arguments: JSON.stringify(call['parameters'] ?? {}) }] : [],
    );
  } catch {
    // Cut off by the token cap: no call came to be, and the text is shown as it is.
    return [];
  }
}

function chatMessage(choice: TokenChoice, request: Json | undefined, newId: () => string): { readonly message: object; readonly finishReason: string } {
  const isThinking = request !== undefined && isThinkingAsked(request);
  const end = isThinking ? choice.tokens.indexOf(THINK_END_TOKEN) : -1;
  const isCutOff = isThinking && end < 0;
  const reasoning = isThinking ? textOf(choice.tokens.slice(0, isCutOff ? undefined : end)) : null;
  const content = isCutOff ? null : textOf(choice.tokens.slice(end + 1));
  const calls = request === undefined || content === null ? [] : readCalls(content, request);
  const isCall = calls.length > 0 && choice.finishReason === 'stop';
  const message = {
    role: 'assistant',
    content: isCall ? null : content,
    refusal: null,
    annotations: null,
    audio: null,
    function_call: null,
    tool_calls: isCall ? calls.map((call) => ({ id: newId(), type: 'function', function: call })) : [],
    reasoning: request?.['include_reasoning'] === false ? null : reasoning,
  };
  return { message, finishReason: isCall ? 'tool_calls' : choice.finishReason };
}

function usageOf(prompt: number, answers: readonly TokenAnswer[]): object {
  const completion = answers.reduce((sum, { choices }) => sum + choices.reduce((total, { tokens }) => total + tokens.length, 0), 0);
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: null,
    completion_tokens_details: null,
  };
}

function readBody(exchange: Exchange, { options }: SimContext): { readonly body: Json; readonly model: string } {
  const body = readJsonBody(exchange);
  if (!isRecord(body)) throw validationError('model_attributes_type', [], 'Input should be a valid dictionary');
  if (body['stream'] === true) throw validationError('literal_error', ['stream'], 'Input should be False');
  return { body, model: readModel(body, options).model };
}

function common(id: string, object: string, model: string): object {
  return { id, object, created: Math.floor(Date.now() / 1000), model };
}

/** Throws ApiError. */
export function derenderChat(exchange: Exchange, context: SimContext): void {
  const { body, model } = readBody(exchange, context);
  const answer = readAnswer(body['generate_response'], 'generate_response');
  const request = isRecord(body['chat_request']) ? body['chat_request'] : undefined;
  exchange.json({
    ...common(answer.id, 'chat.completion', model),
    choices: answer.choices.map((choice) => {
      const { message, finishReason } = chatMessage(choice, request, () => randomId(context.prng));
      return {
        index: choice.index, message, logprobs: resolveLogprobs(choice.logprobs), finish_reason: finishReason, stop_reason: null, token_ids: null, routed_experts: null,
      };
    }),
    service_tier: null,
    system_fingerprint: null,
    usage: usageOf(typeof body['prompt_tokens'] === 'number' ? body['prompt_tokens'] : 0, [answer]),
    prompt_logprobs: answer.source['prompt_logprobs'] ?? null,
    prompt_token_ids: null,
    kv_transfer_params: answer.source['kv_transfer_params'] ?? null,
  });
}

/** Throws ApiError. */
export function derenderCompletion(exchange: Exchange, context: SimContext): void {
  const { body, model } = readBody(exchange, context);
  const given: readonly unknown[] = Array.isArray(body['generate_responses']) ? body['generate_responses'] : [];
  const answers = given.map((value) => readAnswer(value, 'generate_responses'));
  const [first] = answers;
  if (first === undefined) throw badRequest('generate_responses must not be empty');
  const counts: readonly unknown[] | undefined = Array.isArray(body['prompt_tokens']) ? body['prompt_tokens'] : undefined;
  if (counts !== undefined && counts.length !== answers.length) {
    throw validationError('value_error', [], `Value error, prompt_tokens length (${counts.length}) must equal generate_responses length (${answers.length})`);
  }
  const params = answers.map(({ source }) => JSON.stringify(source['kv_transfer_params'] ?? null));
  exchange.json({
    ...common(first.id, 'text_completion', model),
    choices: answers
      .flatMap(({ choices }) => choices)
      .map((choice, index) => ({
        index,
        text: textOf(choice.tokens),
        logprobs: completionLogprobs(choice.logprobs),
        finish_reason: choice.finishReason,
        stop_reason: null,
        token_ids: null,
        prompt_logprobs: null,
        prompt_token_ids: null,
      })),
    service_tier: null,
    system_fingerprint: null,
    usage: usageOf((counts ?? []).reduce((sum: number, count) => sum + (typeof count === 'number' ? count : 0), 0), answers),
    kv_transfer_params: params.every((text) => text === params[0]) ? (first.source['kv_transfer_params'] ?? null) : null,
  });
}

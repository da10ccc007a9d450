/** Non-streaming bodies: every field present, null when unset (protocol facts: openai/{chat_completion,completion}/protocol.py). */
import type { Choice, Generation, GenerationWriter } from './generation.ts';
import { promptLogprobs } from './logprobs.ts';

export function usageOf(generation: Generation): object {
  const { prompt, completion, cached, media, reasoning } = generation.usage();
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: generation.options.promptTokensDetails
      ? { cached_tokens: cached, created_cache_tokens: null, multimodal_tokens: media > 0 ? media : null }
      : null,
    completion_tokens_details: reasoning === undefined ? null : { reasoning_tokens: reasoning },
  };
}

function chatChoice(generation: Generation, choice: Choice): object {
  const tool = choice.finish?.reason === 'tool_calls' ? choice.plan.tool : undefined;
  const reasoning = generation.request.showsReasoning ? choice.reasoning?.assembler.text : undefined;
  // Whoever was cut off while reasoning has no answer, which is not the same as an empty one.
  const hasAnswer = tool === undefined && choice.reasoning?.isOpen !== true;
  return {
    index: choice.index,
    message: {
      role: 'assistant',
      content: hasAnswer ? choice.assembler.text : null,
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      ...(tool !== undefined && {
        tool_calls: [{ id: tool.id, type: 'function', function: { name: tool.name, arguments: tool.arguments } }],
      }),
      reasoning: reasoning ?? null,
    },
    logprobs: generation.logprobsOf(choice.logprobs, 0),
    finish_reason: choice.finish?.reason ?? null,
    stop_reason: choice.finish?.stopReason ?? null,
    token_ids: generation.request.returnTokenIds ? choice.tokens : null,
    routed_experts: null,
  };
}

function completionChoice(generation: Generation, choice: Choice): object {
  const { request } = generation;
  const prompt = request.prompts[Math.floor(choice.index / request.n)];
  return {
    index: choice.index,
    text: choice.assembler.text,
    logprobs: generation.logprobsOf(choice.logprobs, 0),
    finish_reason: choice.finish?.reason ?? null,
    stop_reason: choice.finish?.stopReason ?? null,
    token_ids: request.returnTokenIds ? choice.tokens : null,
    prompt_logprobs: promptLogprobsOf(generation, prompt?.tokens),
    prompt_token_ids: request.returnTokenIds ? (prompt?.tokens ?? null) : null,
    routed_experts: null,
  };
}

function body(generation: Generation): object {
  const { request } = generation;
  const isChat = request.api === 'chat';
  return {
    id: generation.responseId,
    object: isChat ? 'chat.completion' : 'text_completion',
    created: generation.createdS,
    model: request.model,
    choices: generation.choices.map((choice) => (isChat ? chatChoice(generation, choice) : completionChoice(generation, choice))),
    service_tier: null,
    system_fingerprint: generation.fingerprint,
    usage: usageOf(generation),
    ...(isChat && {
      prompt_logprobs: promptLogprobsOf(generation, request.prompts[0]?.tokens),
      prompt_token_ids: request.returnTokenIds ? (request.prompts[0]?.tokens ?? null) : null,
      prompt_text: null,
    }),
    kv_transfer_params: generation.kvTransferParams ?? null,
    ec_transfer_params: null,
    metrics: generation.perRequestMetrics(),
  };
}

export function promptLogprobsOf({ request }: Generation, tokens: readonly number[] | undefined): (object | null)[] | null {
  return request.promptLogprobs === undefined || tokens === undefined ? null : promptLogprobs(tokens, request.promptLogprobs);
}

export interface JsonWriterInput {
  readonly generation: Generation;
  readonly send: (body: object) => void;
  readonly sendError: (message: string) => void;
}

export function createJsonWriter({ generation, send, sendError }: JsonWriterInput): GenerationWriter {
  return {
    begin() {},
    delta() {},
    complete: () => send(body(generation)),
    failed: sendError,
  };
}

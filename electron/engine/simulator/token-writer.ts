/**
 * Answers of `POST /inference/v1/generate`, whole and streamed: token ids, no text. The end-of-sequence token belongs to
 * the output here (protocol facts: vllm/entrypoints/scale_out/token_in_token_out/{protocol,serving}.py; usage and the
 * handoff as protocols.md 7.4).
 */
import { internalError } from './api-error.ts';
import type { Choice, Delta, Generation, GenerationWriter } from './generation.ts';
import { promptLogprobsOf, usageOf, type JsonWriterInput } from './json-writer.ts';
import { DONE_EVENT, type SseWriterInput } from './sse-writer.ts';
import { EOS_TOKEN } from './tokenizer.ts';

/** The model stopped by itself: its EOS is never shown as text, and always counted. */
function endsWithEos({ finish }: Choice): boolean {
  return finish !== undefined && finish.reason === 'stop' && finish.stopReason === null;
}

function body(generation: Generation): object {
  const { request, choices, responseId, createdS } = generation;
  return {
    request_id: responseId,
    created: createdS,
    model: request.model,
    choices: choices.map((choice) => ({
      index: choice.index,
      logprobs: generation.logprobsOf(choice.logprobs, 0),
      finish_reason: choice.finish?.reason ?? null,
      token_ids: endsWithEos(choice) ? [...choice.tokens, EOS_TOKEN] : choice.tokens,
      routed_experts: null,
      sampling_mask: null,
    })),
    usage: usageOf(generation),
    prompt_logprobs: promptLogprobsOf(generation, request.prompts[0]?.tokens),
    kv_transfer_params: generation.kvTransferParams ?? null,
    ec_transfer_params: null,
  };
}

export function createTokenJsonWriter({ generation, send, sendError }: JsonWriterInput): GenerationWriter {
  return { begin() {}, delta() {}, complete: () => send(body(generation)), failed: sendError };
}

export function createTokenSseWriter({ generation, write, end }: SseWriterInput): GenerationWriter {
  const { request, responseId } = generation;
  const usage = (): object => {
    const { prompt, completion } = generation.usage();
    return { prompt_tokens: prompt, total_tokens: prompt + completion, completion_tokens: completion };
  };
  return {
    begin() {},
    delta(choice: Choice, { tokens, logprobs }: Delta) {
      const ids = endsWithEos(choice) ? [...tokens, EOS_TOKEN] : tokens;
      if (ids.length === 0) return;
      const chunk = {
        request_id: responseId,
        choices: [{ index: choice.index, logprobs, finish_reason: choice.finish?.reason ?? null, token_ids: ids, routed_experts: null, sampling_mask: null }],
        usage: request.continuousUsage ? usage() : null,
      };
      write(`data: ${JSON.stringify(chunk)}\n\n`);
    },
    complete() {
      if (request.includeUsage) {
        const { cached } = generation.usage();
        const details = generation.options.promptTokensDetails ? { prompt_tokens_details: { cached_tokens: cached } } : {};
        write(`data: ${JSON.stringify({ request_id: responseId, choices: [], usage: { ...usage(), ...details } })}\n\n`);
      }
      write(DONE_EVENT);
      end();
    },
    failed(message) {
      write(`data: ${JSON.stringify(internalError(message).toBody())}\n\n${DONE_EVENT}`);
      end();
    },
  };
}

/**
 * Answers of `POST /v1/responses`: one message of text with its usage. A stream names each event and has no `[DONE]`
 * (protocol facts: vllm/entrypoints/openai/responses/{protocol,serving}.py).
 */
import { internalError } from './api-error.ts';
import type { Choice, Delta, Generation, GenerationWriter } from './generation.ts';
import type { JsonWriterInput } from './json-writer.ts';
import type { SseWriterInput } from './sse-writer.ts';

type Status = 'in_progress' | 'completed' | 'incomplete';

function statusOf(choice: Choice | undefined): Status {
  if (choice?.finish === undefined) return 'in_progress';
  return choice.finish.reason === 'length' ? 'incomplete' : 'completed';
}

function textPart(text: string): object {
  return { type: 'output_text', text, annotations: [], logprobs: null };
}

function itemIdOf({ responseId }: Generation): string {
  return `msg_${responseId.slice('resp_'.length)}`;
}

function message(generation: Generation, choice: Choice, content: readonly object[]): object {
  return { type: 'message', id: itemIdOf(generation), role: 'assistant', status: statusOf(choice), content };
}

function usage(generation: Generation): object {
  const { prompt, completion, cached } = generation.usage();
  return {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + completion,
  };
}

function body(generation: Generation): object {
  const { request, responseId, createdS, choices } = generation;
  const [choice] = choices;
  const status = statusOf(choice);
  const isOver = status !== 'in_progress';
  return {
    id: responseId,
    object: 'response',
    created_at: createdS,
    status,
    background: false,
    error: null,
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    instructions: null,
    max_output_tokens: request.maxTokens ?? null,
    metadata: null,
    model: request.model,
    output: isOver && choice !== undefined ? [message(generation, choice, [textPart(choice.assembler.text)])] : [],
    parallel_tool_calls: true,
    previous_response_id: null,
    service_tier: 'auto',
    tool_choice: 'auto',
    tools: [],
    truncation: 'disabled',
    usage: isOver ? usage(generation) : null,
    kv_transfer_params: generation.kvTransferParams ?? null,
  };
}

export function createResponsesJsonWriter({ generation, send, sendError }: JsonWriterInput): GenerationWriter {
  return { begin() {}, delta() {}, complete: () => send(body(generation)), failed: sendError };
}

/** Where the one part of the one item is. */
const PLACE = { output_index: 0, content_index: 0 };

export function createResponsesSseWriter({ generation, write, end }: SseWriterInput): GenerationWriter {
  let sequence = 0;
  const send = (type: string, fields: object): void => {
    write(`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence, ...fields })}\n\n`);
    sequence += 1;
  };
  const itemId = itemIdOf(generation);
  return {
    begin() {
      send('response.created', { response: body(generation) });
      send('response.in_progress', { response: body(generation) });
      const [choice] = generation.choices;
      if (choice === undefined) return;
      send('response.output_item.added', { output_index: 0, item: message(generation, choice, []) });
      send('response.content_part.added', { item_id: itemId, ...PLACE, part: textPart('') });
    },
    delta(_choice: Choice, { text }: Delta) {
      if (text !== '') send('response.output_text.delta', { item_id: itemId, ...PLACE, delta: text, logprobs: [] });
    },
    complete() {
      const [choice] = generation.choices;
      if (choice === undefined) return;
      const { text } = choice.assembler;
      send('response.output_text.done', { item_id: itemId, ...PLACE, text, logprobs: [] });
      send('response.content_part.done', { item_id: itemId, ...PLACE, part: textPart(text) });
      send('response.output_item.done', { output_index: 0, item: message(generation, choice, [textPart(text)]) });
      send(statusOf(choice) === 'incomplete' ? 'response.incomplete' : 'response.completed', { response: body(generation) });
      end();
    },
    failed(text) {
      send('error', internalError(text).toBody());
      end();
    },
  };
}

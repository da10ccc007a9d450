/**
 * Answers of `POST /v1/messages`. Whole ones leave out what is unset; streams name each event and have no `[DONE]`
 * (protocol facts: vllm/entrypoints/anthropic/{protocol,serving}.py).
 *
 * Usage is Anthropic's since mid-2026 (vLLM pull request 40912): `input_tokens` without those that were cached, which
 * `cache_read_input_tokens` tells. Both where the engine tells details of prompt tokens, and in streams at the end only;
 * else `input_tokens` is all of the prompt.
 */
import type { Choice, Delta, Generation, GenerationWriter } from './generation.ts';
import type { JsonWriterInput } from './json-writer.ts';
import type { SseWriterInput } from './sse-writer.ts';

/** A stop string ends a turn like any other end: vLLM does not tell them apart. */
const STOP_REASONS: Readonly<Record<string, string>> = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use' };

type BlockType = 'thinking' | 'text' | 'tool_use';

function usage(generation: Generation): object {
  const { prompt, completion, cached } = generation.usage();
  if (!generation.options.promptTokensDetails) return { input_tokens: prompt, output_tokens: completion };
  return { input_tokens: prompt - cached, output_tokens: completion, cache_creation_input_tokens: 0, cache_read_input_tokens: cached };
}

/** Stands in for the random signature of each block. */
function signatureOf({ responseId }: Generation): string {
  return Buffer.from(responseId).toString('hex').slice(0, 32);
}

function content(generation: Generation, choice: Choice): object[] {
  const { reasoning, assembler, plan, finish } = choice;
  const tool = finish?.reason === 'tool_calls' ? plan.tool : undefined;
  const { text } = assembler;
  return [
    ...(reasoning === undefined || reasoning.assembler.text === '' ? [] : [{ type: 'thinking', thinking: reasoning.assembler.text, signature: signatureOf(generation) }]),
    ...(tool !== undefined || text === '' ? [] : [{ type: 'text', text }]),
    ...(tool === undefined ? [] : [{ type: 'tool_use', id: tool.id, name: tool.name, input: JSON.parse(tool.arguments) as unknown }]),
  ];
}

function body(generation: Generation): object {
  const [choice] = generation.choices;
  const stopReason = STOP_REASONS[choice?.finish?.reason ?? ''];
  return {
    id: generation.responseId,
    type: 'message',
    role: 'assistant',
    content: choice === undefined ? [] : content(generation, choice),
    model: generation.request.model,
    ...(stopReason !== undefined && { stop_reason: stopReason }),
    usage: usage(generation),
    ...(generation.kvTransferParams !== undefined && { kv_transfer_params: generation.kvTransferParams }),
  };
}

export function createMessagesJsonWriter({ generation, send, sendError }: JsonWriterInput): GenerationWriter {
  return { begin() {}, delta() {}, complete: () => send(body(generation)), failed: sendError };
}

class MessagesSseWriter implements GenerationWriter {
  readonly #input: SseWriterInput;
  #block: BlockType | undefined;
  #index = 0;

  constructor(input: SseWriterInput) {
    this.#input = input;
  }

  begin(): void {
    const { generation } = this.#input;
    const { responseId: id, request: { model } } = generation;
    const message = { id, content: [], model, stop_reason: null, stop_sequence: null, usage: { input_tokens: generation.usage().prompt, output_tokens: 0 } };
    this.#send('message_start', { message });
  }

  delta(choice: Choice, { text, reasoning }: Delta): void {
    if (reasoning !== '') {
      this.#start('thinking', { type: 'thinking', thinking: '' });
      this.#send('content_block_delta', { delta: { type: 'thinking_delta', thinking: reasoning }, index: this.#index });
    }
    if (text === '') return;
    const { tool } = choice.plan;
    if (tool === undefined) this.#start('text', { type: 'text', text: '' });
    else this.#start('tool_use', { type: 'tool_use', id: tool.id, name: tool.name, input: {} });
    const delta = tool === undefined ? { type: 'text_delta', text } : { type: 'input_json_delta', partial_json: text };
    this.#send('content_block_delta', { delta, index: this.#index });
  }

  complete(): void {
    const { generation, end } = this.#input;
    const [choice] = generation.choices;
    this.#stop();
    this.#send('message_delta', { delta: { stop_reason: STOP_REASONS[choice?.finish?.reason ?? 'stop'] ?? null }, usage: usage(generation) });
    this.#send('message_stop', {});
    end();
  }

  failed(message: string): void {
    this.#send('error', { error: { type: 'internal_error', message } });
    this.#input.end();
  }

  #start(type: BlockType, block: object): void {
    if (this.#block === type) return;
    this.#stop();
    this.#block = type;
    this.#send('content_block_start', { content_block: block, index: this.#index });
  }

  #stop(): void {
    if (this.#block === undefined) return;
    if (this.#block === 'thinking') this.#send('content_block_delta', { delta: { type: 'signature_delta', signature: signatureOf(this.#input.generation) }, index: this.#index });
    this.#send('content_block_stop', { index: this.#index });
    this.#block = undefined;
    this.#index += 1;
  }

  #send(type: string, fields: object): void {
    this.#input.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  }
}

export function createMessagesSseWriter(input: SseWriterInput): GenerationWriter {
  return new MessagesSseWriter(input);
}

/**
 * Streaming bodies, byte for byte in vLLM's format: `data: <json>` and a blank line per chunk, then `data: [DONE]`. Chunks
 * are put together from constant text, because a busy instance writes thousands per second.
 */
import { internalError } from './api-error.ts';
import type { Choice, Delta, Generation, GenerationWriter } from './generation.ts';

export interface SseWriterInput {
  readonly generation: Generation;
  readonly write: (text: string) => void;
  readonly end: () => void;
}

export const DONE_EVENT = 'data: [DONE]\n\n';

class SseWriter implements GenerationWriter {
  readonly #generation: Generation;
  readonly #input: SseWriterInput;
  readonly #head: string;
  readonly #announcedTools = new Set<Choice>();

  constructor(input: SseWriterInput) {
    this.#input = input;
    const { generation } = input;
    this.#generation = generation;
    const object = generation.request.api === 'chat' ? 'chat.completion.chunk' : 'text_completion';
    const { responseId: id, createdS: created } = generation;
    this.#head = `data: ${JSON.stringify({ id, object, created, model: generation.request.model }).slice(0, -1)},"choices":[`;
  }

  begin(): void {
    const { request, choices } = this.#generation;
    if (request.api !== 'chat') return;
    for (const choice of choices) {
      const ids = request.returnTokenIds ? JSON.stringify(request.prompts[0]?.tokens ?? null) : 'null';
      this.#write(
        `{"index":${choice.index},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":${ids},"prompt_text":null`,
      );
    }
  }

  delta(choice: Choice, delta: Delta): void {
    const isChat = this.#generation.request.api === 'chat';
    // Text held back for a stop string gives nothing to send yet.
    if (delta.text === '' && delta.reasoning === '' && choice.finish === undefined && delta.tokens.length > 0 && delta.logprobs === null) return;
    this.#write(`${isChat ? this.#chatChoice(choice, delta) : this.#completionChoice(choice, delta)}${this.#transferParams(choice)}`);
  }

  /** Only a patched engine says them in a stream, on the last chunk that has a choice. */
  #transferParams(choice: Choice): string {
    const { options, choices, kvTransferParams } = this.#generation;
    if (!options.paramsInStream || choice.finish === undefined || choices.some(({ finish }) => finish === undefined)) return '';
    return `,"kv_transfer_params":${JSON.stringify(kvTransferParams ?? null)}`;
  }

  complete(): void {
    const { request, fingerprint } = this.#generation;
    if (request.includeUsage) {
      const metrics = this.#generation.perRequestMetrics();
      const tail = metrics === null ? '' : `,"metrics":${JSON.stringify(metrics)}`;
      this.#input.write(`${this.#head}],"usage":${this.#usage(true)},"system_fingerprint":"${fingerprint}"${tail}}\n\n`);
    }
    this.#input.write(DONE_EVENT);
    this.#input.end();
  }

  failed(message: string): void {
    this.#input.write(`data: ${JSON.stringify(internalError(message).toBody())}\n\n${DONE_EVENT}`);
    this.#input.end();
  }

  #write(choiceAndMore: string): void {
    const usage = this.#generation.request.continuousUsage ? `,"usage":${this.#usage(false)}` : '';
    this.#input.write(`${this.#head}${choiceAndMore}${usage}}\n\n`);
  }

  #chatChoice(choice: Choice, { text, reasoning, tokens, logprobs }: Delta): string {
    const parts: string[] = [];
    if (reasoning !== '') parts.push(`"reasoning":${JSON.stringify(reasoning)}`);
    if (choice.plan.kind === 'tool') parts.push(...this.#toolDelta(choice, text));
    else if (text !== '' || reasoning === '') parts.push(`"content":${JSON.stringify(text)}`);
    return `{"index":${choice.index},"delta":{${parts.join(',')}},"logprobs":${JSON.stringify(logprobs)},${finishFields(choice)},"token_ids":${this.#ids(tokens)}}]`;
  }

  #toolDelta(choice: Choice, text: string): string[] {
    const { tool } = choice.plan;
    if (tool === undefined || text === '') return [];
    if (this.#announcedTools.has(choice)) return [`"tool_calls":${JSON.stringify([{ index: 0, function: { arguments: text } }])}`];
    this.#announcedTools.add(choice);
    const call = { index: 0, id: tool.id, type: 'function', function: { name: tool.name, arguments: text } };
    return [`"tool_calls":${JSON.stringify([call])}`];
  }

  #completionChoice(choice: Choice, { text, tokens, logprobs }: Delta): string {
    const stop = choice.finish === undefined ? 'null' : JSON.stringify(choice.finish.stopReason);
    const reason = choice.finish === undefined ? 'null' : JSON.stringify(choice.finish.reason);
    return `{"index":${choice.index},"text":${JSON.stringify(text)},"logprobs":${JSON.stringify(logprobs)},"finish_reason":${reason},"stop_reason":${stop},"prompt_token_ids":null,"token_ids":${this.#ids(tokens)}}]`;
  }

  #ids(tokens: readonly number[]): string {
    return this.#generation.request.returnTokenIds ? JSON.stringify(tokens) : 'null';
  }

  #usage(isFinal: boolean): string {
    const { prompt, completion, cached, reasoning } = this.#generation.usage();
    const details =
      isFinal && this.#generation.options.promptTokensDetails ? `,"prompt_tokens_details":{"cached_tokens":${cached}}` : '';
    const completionDetails = isFinal && reasoning !== undefined ? `,"completion_tokens_details":{"reasoning_tokens":${reasoning}}` : '';
    return `{"prompt_tokens":${prompt},"total_tokens":${prompt + completion},"completion_tokens":${completion}${details}${completionDetails}}`;
  }
}

function finishFields(choice: Choice): string {
  if (choice.finish === undefined) return '"finish_reason":null';
  return `"finish_reason":"${choice.finish.reason}","stop_reason":${JSON.stringify(choice.finish.stopReason)}`;
}

export function createSseWriter(input: SseWriterInput): GenerationWriter {
  return new SseWriter(input);
}

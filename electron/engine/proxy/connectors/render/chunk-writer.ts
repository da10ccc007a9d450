/**
 * Stream chunks of chat and completion answers, made from text (vllm/entrypoints/openai/{chat_completion,completion}/protocol.py).
 */
import type { Api } from '#shared/vocabulary.ts';
import { dataEvent } from '../../sse-text.ts';

export interface ChunkText {
  readonly index: number;
  readonly text: string;
  readonly isFirst: boolean;
  /** With the last chunk of a choice. */
  readonly finishReason?: string;
  readonly stopReason?: unknown;
  /** JSON text, when the engine sent usage with the tokens. */
  readonly usage?: string | undefined;
}

export interface ChunkWriterOptions {
  readonly api: Api;
  readonly requestId: string;
  readonly model: string | undefined;
  readonly createdAtUnixS: number;
}

/** Ids as the engine gives them: `chatcmpl-` or `cmpl-` before the request id. */
export function answerId(api: Api, requestId: string): string {
  return `${api === 'chat' ? 'chatcmpl' : 'cmpl'}-${requestId}`;
}

export class ChunkWriter {
  readonly #isChat: boolean;
  readonly #head: string;

  constructor({ api, requestId, model, createdAtUnixS }: ChunkWriterOptions) {
    this.#isChat = api === 'chat';
    const object = this.#isChat ? 'chat.completion.chunk' : 'text_completion';
    const fields = JSON.stringify({ id: answerId(api, requestId), object, created: createdAtUnixS, model: model ?? null });
    this.#head = `${fields.slice(0, -1)},"choices":[`;
  }

  /** Events of one piece of text: the role first, as its own event. */
  text(chunk: ChunkText): { readonly events: string; readonly count: number } {
    const usage = chunk.usage === undefined ? '' : `,"usage":${chunk.usage}`;
    const own = dataEvent(`${this.#head}${this.#isChat ? this.#chatChoice(chunk) : this.#completionChoice(chunk)}]${usage}}`);
    if (!this.#isChat || !chunk.isFirst) return { events: own, count: 1 };
    const role = dataEvent(`${this.#head}{"index":${chunk.index},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]${usage}}`);
    return { events: role + own, count: 2 };
  }

  /** The event without choices that ends a stream with `include_usage`. @param usage JSON text. */
  usage(usage: string): string {
    return dataEvent(`${this.#head}],"usage":${usage}}`);
  }

  #chatChoice({ index, text, finishReason, stopReason }: ChunkText): string {
    const end = finishReason === undefined ? 'null' : `${JSON.stringify(finishReason)},"stop_reason":${JSON.stringify(stopReason ?? null)}`;
    return `{"index":${index},"delta":{"content":${JSON.stringify(text)}},"logprobs":null,"finish_reason":${end}}`;
  }

  #completionChoice({ index, text, finishReason, stopReason }: ChunkText): string {
    const end = `${JSON.stringify(finishReason ?? null)},"stop_reason":${JSON.stringify(stopReason ?? null)}`;
    return `{"index":${index},"text":${JSON.stringify(text)},"logprobs":null,"finish_reason":${end}}`;
  }
}

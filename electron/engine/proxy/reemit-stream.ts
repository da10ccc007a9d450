/**
 * A whole answer as the stream of server-sent events that the engine would have sent for it
 * (vllm/entrypoints/openai/{chat_completion,completion}/serving.py and
 * vllm/entrypoints/scale_out/token_in_token_out/serving.py). The engine's values are copied as bytes: text,
 * log probabilities, tool calls and numbers arrive as they were written. `kv_transfer_params` stays behind, as in vLLM's
 * own streams. Each choice comes in few, large chunks, because that is how it came from the engine.
 */
import type { Answer, AnswerSink, LegAnswer } from './connectors/connector.ts';
import { asJsonObject, type ClientRequest } from './client-request.ts';
import { headersWithoutBody, type RawHeaders } from './headers.ts';
import { memberValue, scanElements, scanMembers, type JsonMember } from './json-members.ts';
import { ProxyError } from './proxy-error.ts';
import { DONE_EVENT, EVENT_STREAM, dataEvent } from './sse-text.ts';


/** Throws ProxyError 502 `bad_response` when the answer has no choices to stream. */
export function reemitAsStream(answer: LegAnswer, request: Pick<ClientRequest, 'api' | 'json'>): Answer {
  return new ReemittedStream(eventsOf(answer, request), answer.rawHeaders);
}

class ReemittedStream implements Answer {
  readonly status = 200;
  readonly statusText = 'OK';
  readonly rawHeaders: RawHeaders;
  readonly isEventStream = true;
  readonly #events: readonly Buffer[];
  #next = 0;
  #sink: AnswerSink | undefined;

  constructor(events: readonly Buffer[], rawHeaders: RawHeaders) {
    this.#events = events;
    this.rawHeaders = [...headersWithoutBody(rawHeaders), ...EVENT_STREAM];
  }

  pipe(sink: AnswerSink): void {
    this.#sink = sink;
    this.resume();
  }

  resume(): void {
    const sink = this.#sink;
    if (sink === undefined) return;
    while (this.#next < this.#events.length) {
      const event = this.#events[this.#next++];
      if (event !== undefined && !sink.data(event, 1) && this.#next < this.#events.length) return;
    }
    this.#sink = undefined;
    sink.end();
  }
}

/** Every `data:` event, `[DONE]` included. */
function eventsOf({ body, members }: LegAnswer, { api, json }: Pick<ClientRequest, 'api' | 'json'>): readonly Buffer[] {
  const writer = new AnswerChunks(body, members, api === 'chat');
  const choices = scanElements(memberValue(body, members, 'choices') ?? Buffer.alloc(0));
  if (choices === undefined || choices.length === 0) throw unstreamable('it has no choices');
  for (const choice of choices) {
    const choiceMembers = scanMembers(choice);
    if (choiceMembers === undefined) throw unstreamable('a choice is no object');
    if (api === 'chat') writeChatChoice(writer, choice, choiceMembers);
    else writer.choice(choice.toString('utf8'));
  }
  if (asJsonObject(json['stream_options'])?.['include_usage'] === true) writer.usage();
  writer.events.push(Buffer.from(DONE_EVENT));
  return writer.events;
}

/** Role, reasoning, text, tool calls, end: in the order in which the model wrote them. */
function writeChatChoice(writer: AnswerChunks, choice: Buffer, members: readonly JsonMember[]): void {
  const value = (key: string): string | undefined => given(memberValue(choice, members, key));
  const index = value('index') ?? '0';
  const rawMessage = memberValue(choice, members, 'message');
  const messageMembers = rawMessage === undefined ? undefined : scanMembers(rawMessage);
  if (rawMessage === undefined || messageMembers === undefined) throw unstreamable('a choice has no message');
  // Of all tokens of the choice, so they go with the first chunk that has any.
  let perToken = [['logprobs', value('logprobs')], ['token_ids', value('token_ids')]] as const;
  const write = (delta: string, more = '', hasTokens = true): void => {
    const [logprobs, tokenIds] = hasTokens ? perToken : NO_TOKENS;
    if (hasTokens) perToken = NO_TOKENS;
    const ids = tokenIds[1] === undefined ? '' : `,"token_ids":${tokenIds[1]}`;
    writer.choice(`{"index":${index},"delta":${delta},"logprobs":${logprobs[1] ?? 'null'},${more === '' ? '"finish_reason":null' : more}${ids}}`);
  };
  write(`{"role":${given(memberValue(rawMessage, messageMembers, 'role')) ?? '"assistant"'},"content":""}`, '', false);
  for (const { key, text } of deltasOf(rawMessage, messageMembers)) write(`{${JSON.stringify(key)}:${text}}`);
  const rest = members
    .filter(({ key }) => !HANDLED_IN_CHOICE.has(key))
    .map(({ key, valueStart, end }) => [key, given(choice.subarray(valueStart, end))] as const)
    .filter(([, text]) => text !== undefined)
    .map(([key, text]) => `,${JSON.stringify(key)}:${text}`)
    .join('');
  write('{"content":""}', `"finish_reason":${value('finish_reason') ?? 'null'},"stop_reason":${value('stop_reason') ?? 'null'}${rest}`);
}

const NO_TOKENS = [['logprobs', undefined], ['token_ids', undefined]] as const;
const HANDLED_IN_CHOICE = new Set(['index', 'message', 'logprobs', 'token_ids', 'finish_reason', 'stop_reason']);
const REASONING = ['reasoning', 'reasoning_content'];

/** What a message says, a delta each. Text comes before tool calls, and both before what else there is. */
function deltasOf(message: Buffer, members: readonly JsonMember[]): readonly { readonly key: string; readonly text: string }[] {
  const order = [...REASONING, 'content', 'tool_calls'];
  const rank = (key: string): number => (order.includes(key) ? order.indexOf(key) : order.length);
  return members
    .filter(({ key }) => key !== 'role')
    .map(({ key, valueStart, end }) => ({ key, text: given(message.subarray(valueStart, end)) ?? '' }))
    .filter(({ text }) => text !== '' && text !== '""' && text !== '[]')
    .sort((a, b) => rank(a.key) - rank(b.key))
    .map(({ key, text }) => ({ key, text: key === 'tool_calls' ? indexedCalls(text) : text }));
}

/** In streams every tool call says which one it is, because it may come in pieces. */
function indexedCalls(text: string): string {
  const calls = scanElements(Buffer.from(text)) ?? [];
  return `[${calls.map((call, index) => call.toString('utf8').replace(/^\{\s*(?:"index"\s*:\s*\d+\s*,)?/, `{"index":${index},`)).join(',')}]`;
}

/** Writes events that share the head of one answer. */
class AnswerChunks {
  readonly events: Buffer[] = [];
  readonly #body: Buffer;
  readonly #members: readonly JsonMember[];
  readonly #head: string;
  #isFirst = true;

  constructor(body: Buffer, members: readonly JsonMember[], isChat: boolean) {
    this.#body = body;
    this.#members = members;
    const object = isChat ? '"chat.completion.chunk"' : this.#value('object');
    const head = ['request_id', 'id'].map((key) => this.#member(key)).join('') + (object === undefined ? '' : `"object":${object},`);
    this.#head = head + ['created', 'model', 'service_tier', 'system_fingerprint'].map((key) => this.#member(key)).join('');
  }

  /** @param choice JSON text. What belongs to the prompt goes with the first chunk. */
  choice(choice: string): void {
    const more = this.#isFirst ? ['prompt_logprobs', 'prompt_token_ids', 'prompt_text'].map((key) => this.#member(key)).join('') : '';
    this.#isFirst = false;
    this.#push(`{${this.#head}${more}"choices":[${choice}]}`);
  }

  /** The extra chunk of `include_usage`; engines that time requests put their timings on it. */
  usage(): void {
    this.#push(`{${this.#head}${this.#member('metrics')}"choices":[],"usage":${this.#value('usage') ?? 'null'}}`);
  }

  #value(key: string): string | undefined {
    return given(memberValue(this.#body, this.#members, key));
  }

  #member(key: string): string {
    const value = this.#value(key);
    return value === undefined ? '' : `"${key}":${value},`;
  }

  /** A line break in JSON can only be white space (in strings it is escaped), and would end the event. */
  #push(json: string): void {
    this.events.push(Buffer.from(dataEvent(json.replaceAll(/[\r\n]+/g, ' '))));
  }
}

/** JSON text, unless it is null. */
function given(value: Buffer | undefined): string | undefined {
  const text = value?.toString('utf8');
  return text === 'null' ? undefined : text;
}

function unstreamable(why: string): ProxyError {
  return new ProxyError(502, 'bad_response', `The decode answer cannot be sent as a stream: ${why}.`, {});
}

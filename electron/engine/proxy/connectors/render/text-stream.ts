/**
 * The answer of a streaming request in render mode: the tokens of the decode leg, as chat or completion chunks.
 *
 * Invariants: pieces of a choice go out in order; at the end everything that was received is shown before the stream
 * ends, well or not; tokens that wait for text are bounded by holding the decode leg back.
 */
import { asJsonObject } from '../../client-request.ts';
import { headersWithoutBody, type RawHeaders } from '../../headers.ts';
import { jsonKey, lastValueOf } from '../../json-members.ts';
import { ProxyError } from '../../proxy-error.ts';
import { DONE_EVENT, EVENT_STREAM, dataEvent } from '../../sse-text.ts';
import type { Answer, AnswerSink } from '../connector.ts';
import { ChoiceText } from './choice-text.ts';
import type { ChunkWriter } from './chunk-writer.ts';
import { Detokenizer } from './detokenizer.ts';
import { EventLines } from './event-lines.ts';
import type { StopRules } from './stop-text.ts';

/** Beyond this the decode leg is held back until calls have caught up. */
const MAX_WAITING_TOKENS = 1024;
const USAGE = jsonKey('usage');

export interface TextStreamOptions {
  /** The decode leg's stream of tokens. */
  readonly tokens: Answer;
  readonly writer: ChunkWriter;
  readonly promptTail: readonly number[];
  readonly stop: StopRules;
  readonly decode: (tokens: readonly number[]) => Promise<string>;
  /** No text can be had any more: stops the legs. */
  readonly cancel: (error: ProxyError) => void;
}

export class TextStream implements Answer, AnswerSink {
  readonly status = 200;
  readonly statusText = 'OK';
  readonly isEventStream = true;
  readonly rawHeaders: RawHeaders;
  readonly #options: TextStreamOptions;
  readonly #lines = new EventLines();
  readonly #choices = new Map<number, ChoiceText>();
  #sink: AnswerSink | undefined;
  #busy = 0;
  #isHeld = false;
  #usage: string | undefined;
  #finalUsage: string | undefined;
  #errorEvent: string | undefined;
  #isDone = false;
  /** Nothing more comes from the decode leg; sent on when all text is out. */
  #ending: 'well' | ProxyError | undefined;
  #hasEnded = false;

  constructor(options: TextStreamOptions) {
    this.#options = options;
    this.rawHeaders = [...headersWithoutBody(options.tokens.rawHeaders), ...EVENT_STREAM];
  }

  pipe(sink: AnswerSink): void {
    this.#sink = sink;
    this.#options.tokens.pipe(this);
  }

  resume(): void {
    this.#isHeld = false;
    this.#pump();
    if (!this.#isCrowded) this.#options.tokens.resume();
  }

  data(chunk: Buffer): boolean {
    for (const payload of this.#lines.push(chunk)) this.#read(payload);
    this.#pump();
    return !this.#isHeld && !this.#isCrowded;
  }

  end(): void {
    this.#finish('well');
  }

  fail(error: ProxyError): void {
    this.#finish(error);
  }

  get #isCrowded(): boolean {
    let waiting = 0;
    for (const choice of this.#choices.values()) waiting += choice.waiting;
    return waiting > MAX_WAITING_TOKENS;
  }

  #finish(ending: 'well' | ProxyError): void {
    this.#ending ??= ending;
    for (const choice of this.#choices.values()) choice.end();
    this.#pump();
  }

  #read(payload: string): void {
    if (payload === '[DONE]') {
      this.#isDone = true;
      return;
    }
    let event: Readonly<Record<string, unknown>> | undefined;
    try {
      event = asJsonObject(JSON.parse(payload));
    } catch {
      event = undefined;
    }
    if (event === undefined) {
      this.#break(new ProxyError(502, 'bad_response', `The decode leg's stream has an event that is no JSON object: ${payload.slice(0, 200)}`));
      return;
    }
    if (event['error'] !== undefined && event['error'] !== null) {
      this.#errorEvent = dataEvent(payload);
      return;
    }
    const choices: readonly unknown[] = Array.isArray(event['choices']) ? event['choices'] : [];
    if (event['usage'] !== undefined && event['usage'] !== null) {
      const usage = lastValueOf(Buffer.from(payload), USAGE)?.toString();
      if (choices.length === 0) this.#finalUsage = usage;
      else this.#usage = usage;
    }
    for (const choice of choices) this.#readChoice(asJsonObject(choice) ?? {});
  }

  #readChoice(fields: Readonly<Record<string, unknown>>): void {
    const index = typeof fields['index'] === 'number' ? fields['index'] : 0;
    const list: readonly unknown[] = Array.isArray(fields['token_ids']) ? fields['token_ids'] : [];
    const tokens = list.filter((token): token is number => typeof token === 'number');
    const reason = fields['finish_reason'];
    let choice = this.#choices.get(index);
    if (choice === undefined) {
      const { decode, promptTail, stop } = this.#options;
      choice = new ChoiceText(index, new Detokenizer(decode, promptTail), stop);
      this.#choices.set(index, choice);
    }
    choice.add(tokens, typeof reason === 'string' ? { reason, stopReason: fields['stop_reason'] } : undefined);
  }

  /** Starts a call for every choice that waits for none, and ends the stream when nothing is left to say. */
  #pump(): void {
    if (this.#hasEnded) return;
    for (const choice of this.#choices.values()) {
      if (choice.isBusy || !choice.hasWork) continue;
      choice.isBusy = true;
      this.#busy++;
      void this.#advance(choice);
    }
    if (this.#busy === 0 && this.#ending !== undefined) this.#sendEnd(this.#ending);
  }

  async #advance(choice: ChoiceText): Promise<void> {
    let error: unknown;
    try {
      const { text, finish } = await choice.next();
      if (text !== '' || finish !== undefined) this.#send(choice, text, finish);
    } catch (caught) {
      error = caught;
    }
    choice.isBusy = false;
    this.#busy--;
    if (error !== undefined) this.#break(asProxyError(error));
    this.#pump();
    if (!this.#hasEnded && !this.#isHeld && !this.#isCrowded) this.#options.tokens.resume();
  }

  #send(choice: ChoiceText, text: string, finish: { readonly reason: string; readonly stopReason: unknown } | undefined): void {
    if (this.#hasEnded) return;
    const { events, count } = this.#options.writer.text({
      index: choice.index,
      text,
      isFirst: !choice.isStarted,
      ...(finish !== undefined && { finishReason: finish.reason, stopReason: finish.stopReason }),
      usage: this.#usage,
    });
    choice.isStarted = true;
    if (this.#sink?.data(Buffer.from(events), count) === false) this.#isHeld = true;
  }

  /** Ends the stream with an error at once: what is missing cannot be had. */
  #break(error: ProxyError): void {
    if (this.#hasEnded) return;
    const reason = this.#ending === undefined || this.#ending === 'well' ? error : this.#ending;
    this.#hasEnded = true;
    this.#sink?.fail(reason, true);
    this.#options.cancel(reason);
  }

  #sendEnd(ending: 'well' | ProxyError): void {
    this.#hasEnded = true;
    if (ending !== 'well') {
      this.#sink?.fail(ending, true);
      return;
    }
    const usage = this.#finalUsage === undefined ? '' : this.#options.writer.usage(this.#finalUsage);
    const error = this.#errorEvent ?? '';
    const rest = usage + error + (this.#isDone ? DONE_EVENT : '');
    const count = Number(usage !== '') + Number(error !== '') + Number(this.#isDone);
    if (rest !== '') this.#sink?.data(Buffer.from(rest), count);
    this.#sink?.end();
  }
}

function asProxyError(error: unknown): ProxyError {
  if (error instanceof ProxyError) return error;
  return new ProxyError(500, 'internal_error', `pdscope failed: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
}

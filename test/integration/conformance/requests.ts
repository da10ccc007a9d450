/** Client bodies of the conformance suite, and how their answers are read. */
import { expect } from 'vitest';
import type { SimInstance } from '#engine/simulator/sim-instance.ts';
import { API_PATHS } from '#shared/vocabulary.ts';
import type { Answer } from './client.ts';
import type { ConformanceApi, Json, Mode } from './modes.ts';

export const MODEL = 'sim/Qwen3-8B';
export const MAX_TOKENS = 12;
export const MEDIA_ITEMS = 2;
/** Of the request under test, as its client names it. */
export const REQUEST_ID = 'conformance-1';
const WORDS = Array.from({ length: 150 }, (_, index) => `word${index}`).join(' ');
const IMAGES = Array.from({ length: MEDIA_ITEMS }, (_, index) => ({ type: 'image_url', image_url: { url: `data:image/png;base64,AAA${index}` } }));

export interface ClientBody {
  readonly path: string;
  readonly body: Json;
}

/** `unknown` must reach every engine as it is; `min_tokens` and `stop` must not reach prefill. */
export function clientBody(mode: Mode, api: ConformanceApi, { isStream, maxTokens = MAX_TOKENS }: { readonly isStream: boolean; readonly maxTokens?: number }): ClientBody {
  const common = {
    model: MODEL, max_tokens: maxTokens, min_tokens: 4, seed: 11, stop: ['\u0000'], unknown: { of: ['nobody'] },
    ...(isStream && { stream: true, stream_options: { include_usage: true } }), ...mode.privateFields,
  };
  if (api === 'completions') return { path: API_PATHS.completions, body: { prompt: WORDS, ...common } };
  const content = mode.hasMedia === true ? [{ type: 'text', text: WORDS }, ...IMAGES] : WORDS;
  return { path: API_PATHS.chat, body: { messages: [{ role: 'user', content }], ...common } };
}

/** The client's next request after `answer`: the conversation goes on. */
export function nextTurn({ path, body }: ClientBody, answer: Answer): ClientBody {
  const said = textOf(answer);
  if (path === API_PATHS.completions) return { path, body: { ...body, prompt: `${String(body['prompt'])}${said} and then` } };
  const messages = [...(body['messages'] as Json[]), { role: 'assistant', content: said }, { role: 'user', content: 'and then?' }];
  return { path, body: { ...body, messages } };
}

/** JSON objects of a stream, and whether it ended as it should. */
export function eventsOf(text: string): { readonly objects: readonly Json[]; readonly isDone: boolean } {
  const payloads = text.split('\n\n').filter((event) => event !== '').map((event) => event.replace(/^data: /u, ''));
  const isDone = payloads.at(-1) === '[DONE]';
  return { objects: payloads.filter((payload) => payload !== '[DONE]').map((payload) => JSON.parse(payload) as Json), isDone };
}

interface Choice {
  readonly text?: string;
  readonly message?: { readonly content: string };
  readonly delta?: { readonly content?: string | null };
  readonly finish_reason?: string | null;
}

/** The generated text of a complete answer, streamed or whole. */
export function textOf({ text, contentType }: Answer): string {
  const objects = contentType.includes('event-stream') ? eventsOf(text).objects : [JSON.parse(text) as Json];
  return objects
    .flatMap((object) => (object['choices'] as Choice[] | undefined) ?? [])
    .map((choice) => choice.text ?? choice.message?.content ?? choice.delta?.content ?? '')
    .join('');
}

/** Asserts an answer that is complete in every part a client may look at. */
export function expectComplete(answer: Answer, isStream: boolean, tokens = MAX_TOKENS): void {
  expect({ status: answer.status, isCut: answer.isCut }).toEqual({ status: 200, isCut: false });
  if (!isStream) {
    const body = JSON.parse(answer.text) as Json;
    expect(body).toMatchObject({ model: MODEL, usage: { completion_tokens: tokens }, choices: [{ index: 0, finish_reason: 'length' }] });
    return;
  }
  const { objects, isDone } = eventsOf(answer.text);
  expect(isDone).toBe(true);
  expect(objects.every((object) => !('error' in object))).toBe(true);
  expect(objects.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: tokens } });
  const finishes = objects.flatMap((object) => (object['choices'] as Choice[]).map((choice) => choice.finish_reason)).filter((reason) => typeof reason === 'string');
  expect(finishes).toEqual(['length']);
}

/** What an instance says when asked directly. */
export async function directText(reference: SimInstance, { path, body }: ClientBody): Promise<string> {
  const response = await fetch(`${reference.url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`the reference instance answered ${response.status}: ${text}`);
  return textOf({ status: 200, text, contentType: response.headers.get('content-type') ?? '', isCut: false });
}

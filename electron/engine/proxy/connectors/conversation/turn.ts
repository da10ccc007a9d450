/**
 * Whether the prompt of a conversation's next turn extends what the decode instance holds of the last one. Engines do
 * not check: blocks are read by position, so after an edited history or stripped thinking the answer is wrong with
 * status 200 (vllm issue 43094). What cannot be compared is refused; a refusal costs one prefill.
 *
 * Only digests are kept. Messages of the history are compared by the bytes the client wrote them with: a client repeats
 * them as they were, and numbers or key order, which templates print, cannot hide a difference. The answer comes back in
 * a form of the client's own and is compared by its text.
 */
import { hash } from 'node:crypto';
import type { Api } from '#shared/vocabulary.ts';
import { asJsonObject, type ClientRequest } from '../../client-request.ts';
import { memberValue, scanElements } from '../../json-members.ts';
import { isReasoning, otherMembers, type Answered } from './answered.ts';

/** Why blocks are not reused: a verdict's code, and the reason in words, with the index of the first message that differs. */
export interface Refusal {
  readonly code:
    | 'conversation_edited'
    | 'conversation_settings_changed'
    | 'conversation_not_comparable'
    | 'conversation_unknown_answer'
    | 'reasoning_stripped'
    | 'tool_calls_rerendered';
  readonly why: string;
}

/** A request as far as it decides the prompt's tokens. */
export interface SentTurn {
  readonly api: Api;
  /** Other fields that shape the prompt: their JSON text, or a digest of it when it is long. */
  readonly fields: ReadonlyMap<string, string>;
  readonly prompt:
    | { readonly kind: 'chat'; readonly digests: string; readonly messages: readonly unknown[] }
    | { readonly kind: 'text'; readonly text: string }
    | { readonly kind: 'tokens'; readonly tokens: Int32Array }
    | { readonly kind: 'unknown' };
  /** Why the engine's cache after this turn cannot be known from outside. */
  readonly obstacle?: Refusal;
}

interface Extent {
  readonly length: number;
  readonly digest: string;
}

/** A turn that ended: what a prompt must begin with to extend it. Bounded by `digestBytes`. */
export interface KeptTurn {
  readonly api: Api;
  readonly fields: ReadonlyMap<string, string>;
  readonly prompt:
    | { readonly kind: 'chat'; readonly digests: string; readonly answer: string }
    | { readonly kind: 'text'; readonly asked: Extent; readonly whole: Extent; readonly end: string }
    | { readonly kind: 'tokens'; readonly asked: Extent; readonly whole: Extent };
}

/** Fields that change how an answer is sampled or written, never the prompt. Anything else, known or not, must stay equal. */
const IRRELEVANT = new Set([
  'conversation_id', 'messages', 'prompt', 'token_ids', 'stream', 'stream_options', 'stream_interval', 'kv_transfer_params', 'sampling_params', 'request_id',
  'session_id', 'user', 'metadata', 'store', 'service_tier', 'priority', 'max_tokens', 'max_completion_tokens', 'min_tokens', 'min_completion_tokens',
  'temperature', 'top_p', 'top_k', 'min_p', 'n', 'best_of', 'seed', 'stop', 'stop_token_ids', 'ignore_eos', 'presence_penalty', 'frequency_penalty',
  'repetition_penalty', 'length_penalty', 'logit_bias', 'logprobs', 'top_logprobs', 'allowed_token_ids', 'bad_words', 'skip_special_tokens',
  'spaces_between_special_tokens', 'include_stop_str_in_output', 'return_token_ids', 'return_tokens_as_token_ids', 'parallel_tool_calls',
]);

/** 128 bits in base64url. */
const DIGEST_LENGTH = 22;
const MAX_PLAIN_VALUE = 64;

/** Throws nothing; what is not understood becomes an obstacle. */
export function describeSent(request: ClientRequest): SentTurn {
  const prompt = describePrompt(request);
  const obstacle = obstacleOf(request, prompt);
  return { api: request.api, fields: shapingFields(request), prompt, ...(obstacle !== undefined && { obstacle }) };
}

/** @param heldTokens how many tokens the decode instance says it holds. */
export function keepTurn(sent: SentTurn, answered: Answered | undefined, heldTokens: number | undefined): KeptTurn | Refusal {
  if (sent.obstacle !== undefined) return sent.obstacle;
  const { api, fields, prompt } = sent;
  if (answered?.finishReason === undefined) return unknownAnswer('what was answered could not be read');
  if (prompt.kind === 'tokens') {
    if (!isTokens(answered.tokenIds)) return unknownAnswer('the tokens of the answer are not known; ask for them with return_token_ids');
    const all = Int32Array.from([...prompt.tokens, ...answered.tokenIds]);
    // The last token sampled was never computed, and need not come back.
    return { api, fields, prompt: { kind: 'tokens', asked: extentOf(prompt.tokens), whole: extentOf(all.subarray(0, heldTokens ?? all.length)) } };
  }
  const problem = problemOfText(answered);
  if (problem !== undefined) return problem;
  if (prompt.kind === 'text' && answered.text !== undefined) {
    const whole = prompt.text + answered.text;
    return { api, fields, prompt: { kind: 'text', asked: extentOfText(prompt.text), whole: extentOfText(whole), end: whole.slice(-2) } };
  }
  if (prompt.kind === 'chat' && answered.content !== undefined) {
    return { api, fields, prompt: { kind: 'chat', digests: prompt.digests, answer: digest(answered.content) } };
  }
  return unknownAnswer('what was answered has an unknown shape');
}

/** Why `next` must not reuse the blocks of `kept`; undefined when its prompt extends it. */
export function refusalOf(kept: KeptTurn, next: SentTurn): Refusal | undefined {
  if (next.api !== kept.api) return edited(`the last turn came over another route (${kept.api})`);
  const field = differingField(kept.fields, next.fields);
  if (field !== undefined) return { code: 'conversation_settings_changed', why: `${field} differs from the last turn, and may shape the prompt` };
  const { prompt } = kept;
  const now = next.prompt;
  if (prompt.kind === 'chat' && now.kind === 'chat') return refusalOfMessages(prompt, now);
  if (prompt.kind === 'text' && now.kind === 'text') return refusalOfText(prompt, now.text);
  if (prompt.kind === 'tokens' && now.kind === 'tokens') {
    if (startsWith(now.tokens, prompt.whole)) return undefined;
    return edited(startsWith(now.tokens, prompt.asked) ? 'the tokens after the last prompt are not those that were answered' : 'the prompt does not begin with the tokens of the last one');
  }
  return edited('the prompt has another form than that of the last turn');
}

/** What a kept turn takes up, roughly. */
export function digestBytes({ fields, prompt }: KeptTurn): number {
  let bytes = prompt.kind === 'chat' ? prompt.digests.length : 2 * DIGEST_LENGTH;
  for (const [key, value] of fields) bytes += key.length + value.length;
  return bytes;
}

function describePrompt({ api, json, body, members }: ClientRequest): SentTurn['prompt'] {
  if (api === 'chat') {
    const raw = memberValue(body, members, 'messages');
    const elements = raw === undefined ? undefined : scanElements(raw);
    const messages = json['messages'];
    if (elements === undefined || !Array.isArray(messages)) return { kind: 'unknown' };
    return { kind: 'chat', digests: elements.map(digest).join(''), messages };
  }
  const given = json[api === 'generate' ? 'token_ids' : 'prompt'];
  const prompt: unknown = Array.isArray(given) && given.length === 1 && typeof given[0] !== 'number' ? given[0] : given;
  if (typeof prompt === 'string') return { kind: 'text', text: prompt };
  return isTokens(prompt) ? { kind: 'tokens', tokens: Int32Array.from(prompt) } : { kind: 'unknown' };
}

function obstacleOf({ json }: ClientRequest, prompt: SentTurn['prompt']): Refusal | undefined {
  const notComparable = (why: string): Refusal => ({ code: 'conversation_not_comparable', why });
  if (prompt.kind === 'unknown') return notComparable('the prompt has a form that pdscope does not compare');
  if ((json['truncate_prompt_tokens'] ?? undefined) !== undefined) return notComparable('truncate_prompt_tokens cuts prompts at a place that moves with their length');
  if (json['continue_final_message'] === true || json['add_generation_prompt'] === false) return notComparable('the answer continued the last message instead of being one');
  if (json['echo'] === true) return notComparable('echo puts the prompt into the answer');
  if ((json['prompt_embeds'] ?? undefined) !== undefined) return notComparable('prompt_embeds are no text');
  if (isThinkingOff(json['chat_template_kwargs'])) {
    const why = 'with thinking turned off, templates of thinking models begin the answer with an empty thought, which they leave out of the next prompt, while the decode instance holds its tokens';
    return { code: 'reasoning_stripped', why };
  }
  if (json['include_reasoning'] === false) return { code: 'reasoning_stripped', why: 'include_reasoning=false hides tokens that the decode instance holds' };
  return undefined;
}

function isThinkingOff(template: unknown): boolean {
  const kwargs = asJsonObject(template);
  return kwargs?.['enable_thinking'] === false || kwargs?.['thinking'] === false;
}

/** Text that stands for other tokens than those the model wrote, once it is part of a prompt. */
function problemOfText({ content, text, hasReasoning, otherMembers: others, stopString }: Answered): Refusal | undefined {
  if (hasReasoning) {
    return { code: 'reasoning_stripped', why: 'the last answer began with reasoning, which chat templates leave out of the next prompt or write anew, while the decode instance holds its tokens' };
  }
  if (others.includes('tool_calls') || others.includes('function_call')) {
    return { code: 'tool_calls_rerendered', why: 'the last answer was a tool call: the engine gives it parsed, and the chat template writes it anew, not always in the tokens the model chose' };
  }
  if (others.length > 0) return unknownAnswer(`the last answer had more than text: ${others.join(', ')}`);
  if (stopString !== undefined) return unknownAnswer('the last answer ended at a stop string, whose tokens the decode instance holds and the text lacks');
  const written = content ?? text ?? '';
  if (written.endsWith('\uFFFD')) return unknownAnswer('the last answer was cut in the middle of a character');
  if (content !== undefined && content.trim() !== content) return unknownAnswer('the last answer begins or ends with white space, which many chat templates trim');
  return undefined;
}

function refusalOfMessages(kept: { readonly digests: string; readonly answer: string }, now: { readonly digests: string; readonly messages: readonly unknown[] }): Refusal | undefined {
  if (!now.digests.startsWith(kept.digests)) {
    const index = firstDifference(kept.digests, now.digests);
    const isMissing = index * DIGEST_LENGTH >= now.digests.length;
    return edited(isMissing ? `message ${index} of the last turn is missing` : `message ${index} is not what it was in the last turn`);
  }
  const index = kept.digests.length / DIGEST_LENGTH;
  const message = asJsonObject(now.messages[index]);
  if (message === undefined) return edited(`message ${index} should be the last answer and is missing`);
  const content = plainText(message['content']);
  const isSame = message['role'] === 'assistant' && content !== undefined && digest(content) === kept.answer;
  if (!isSame) return edited(`message ${index} is not the text that was answered`);
  const more = isReasoning(message) ? ['reasoning'] : otherMembers(message);
  return more.length === 0 ? undefined : edited(`message ${index} has more than was answered: ${more.join(', ')}`);
}

function refusalOfText(kept: { readonly asked: Extent; readonly whole: Extent; readonly end: string }, text: string): Refusal | undefined {
  if (!textStartsWith(text, kept.whole)) {
    return edited(textStartsWith(text, kept.asked) ? 'the text after the last prompt is not what was answered' : 'the prompt does not begin with the last one');
  }
  const rest = text.slice(kept.whole.length);
  if (isTokenBorder(kept.end, rest)) return undefined;
  return { code: 'conversation_not_comparable', why: 'what follows the last answer may merge with its last token; begin it with a space' };
}

/**
 * Whether tokenizers split between `end` and `rest` for certain: in front of a space, and between a word and anything
 * else. Punctuation joins line breaks behind it in one token, and white space joins white space.
 */
function isTokenBorder(end: string, rest: string): boolean {
  if (rest === '') return true;
  if (/\s$/u.test(end)) return false;
  return rest.startsWith(' ') || (/[\p{L}\p{N}]$/u.test(end) && !/^[\p{L}\p{N}\p{M}]/u.test(rest));
}

/** Text, or the one text part that a client may wrap it in; white out for what an engine writes as null. */
function plainText(content: unknown): string | undefined {
  if (content === undefined || content === null) return '';
  if (!Array.isArray(content)) return typeof content === 'string' ? content : undefined;
  const part = content.length === 1 ? asJsonObject(content[0]) : undefined;
  return part?.['type'] === 'text' && typeof part['text'] === 'string' ? part['text'] : undefined;
}

function shapingFields({ body, members }: ClientRequest): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const { key, valueStart, end } of members) {
    if (IRRELEVANT.has(key)) continue;
    const raw = body.subarray(valueStart, end);
    const value = raw.length <= MAX_PLAIN_VALUE ? raw.toString('utf8') : digest(raw);
    if (value === 'null') fields.delete(key);
    else fields.set(key, value);
  }
  return fields;
}

function differingField(kept: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): string | undefined {
  for (const [key, value] of kept) if (now.get(key) !== value) return key;
  for (const key of now.keys()) if (!kept.has(key)) return key;
  return undefined;
}

function firstDifference(kept: string, now: string): number {
  let index = 0;
  while (kept.slice(index * DIGEST_LENGTH, (index + 1) * DIGEST_LENGTH) === now.slice(index * DIGEST_LENGTH, (index + 1) * DIGEST_LENGTH)) index++;
  return index;
}

function edited(why: string): Refusal {
  return { code: 'conversation_edited', why };
}

function unknownAnswer(why: string): Refusal {
  return { code: 'conversation_unknown_answer', why };
}

function isTokens(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((token) => Number.isInteger(token) && token >= 0 && token <= 0x7fffffff);
}

function digest(value: Buffer | string): string {
  return hash('sha256', value, 'base64url').slice(0, DIGEST_LENGTH);
}

/** In UTF-16, so that no two texts look alike, halves of characters included. */
function extentOfText(text: string): Extent {
  return { length: text.length, digest: digest(Buffer.from(text, 'utf16le')) };
}

function textStartsWith(text: string, { length, digest: expected }: Extent): boolean {
  return text.length >= length && extentOfText(text.slice(0, length)).digest === expected;
}

function extentOf(tokens: Int32Array): Extent {
  return { length: tokens.length, digest: digest(Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength)) };
}

function startsWith(tokens: Int32Array, { length, digest: expected }: Extent): boolean {
  return tokens.length >= length && extentOf(tokens.subarray(0, length)).digest === expected;
}

/**
 * What an engine answered, read from the bytes of a whole body or a whole stream after they went out, as far as the next
 * turn's prompt can be compared with it. Shapes: vllm/entrypoints/openai/{chat_completion,completion}/protocol.py and
 * vllm/entrypoints/scale_out/token_in_token_out/protocol.py.
 */
import { asJsonObject } from '../../client-request.ts';

export interface Answered {
  /** Chat: the text. */
  readonly content?: string;
  /** Chat: the engine parsed reasoning out of what the model wrote, or the text still holds it. */
  readonly hasReasoning: boolean;
  /** Chat: members of the message beside the text, e.g. tool calls. */
  readonly otherMembers: readonly string[];
  /** Completions. */
  readonly text?: string;
  /** Generate, and with `return_token_ids`. */
  readonly tokenIds?: readonly number[];
  readonly finishReason?: string;
  /** The stop string that ended it, which the text lacks and the cache holds. */
  readonly stopString?: string;
}

type Json = Readonly<Record<string, unknown>>;

/** What templates of thinking models close their reasoning with. */
const REASONING_END = '</think>';

/** undefined: not one choice in a shape that is known. */
export function readWholeAnswer(body: Buffer): Answered | undefined {
  const answer = parse(body.toString('utf8'));
  const choice = onlyChoice(answer?.['choices']);
  if (answer === undefined || choice === undefined) return undefined;
  return describe({ choice, message: asJsonObject(choice['message']), text: choice['text'], tokenIds: choice['token_ids'], answer });
}

/** The same from all events of a stream. */
export function readStreamedAnswer(events: Buffer): Answered | undefined {
  const message: Record<string, unknown> = {};
  let text: string | undefined;
  const tokenIds: unknown[] = [];
  let choice: Json | undefined;
  let answer: Json = {};
  for (const line of events.toString('utf8').split('\n')) {
    if (!line.startsWith('data:')) continue;
    const payload = line.slice(5).trim();
    if (payload === '[DONE]') break;
    const chunk = parse(payload);
    if (chunk === undefined || (chunk['error'] ?? undefined) !== undefined) return undefined;
    if (asJsonObject(chunk['usage']) !== undefined) answer = chunk;
    const { choices } = chunk;
    if (!Array.isArray(choices)) return undefined;
    if (choices.length === 0) continue;
    const next = onlyChoice(choices);
    if (next === undefined || (next['index'] ?? 0) !== 0) return undefined;
    if (typeof choice?.['finish_reason'] !== 'string') choice = next;
    append(message, asJsonObject(next['delta']) ?? {});
    if (typeof next['text'] === 'string') text = (text ?? '') + next['text'];
    if (Array.isArray(next['token_ids'])) for (const token of next['token_ids'] as unknown[]) tokenIds.push(token);
  }
  if (choice === undefined) return undefined;
  return describe({ choice, message: 'delta' in choice ? message : undefined, text, tokenIds: tokenIds.length > 0 ? tokenIds : undefined, answer });
}

function append(message: Record<string, unknown>, delta: Json): void {
  for (const [key, value] of Object.entries(delta)) {
    const before = message[key];
    if (typeof before === 'string' && typeof value === 'string' && key !== 'role') message[key] = before + value;
    else if (isGiven(value) || before === undefined) message[key] = value;
  }
}

interface Found {
  readonly choice: Json;
  readonly message: Json | undefined;
  readonly text: unknown;
  readonly tokenIds: unknown;
  readonly answer: Json;
}

function describe({ choice, message, text, tokenIds, answer }: Found): Answered {
  const described: { -readonly [K in keyof Answered]: Answered[K] } = { hasReasoning: false, otherMembers: [] };
  if (message !== undefined) {
    const { content } = message;
    described.content = typeof content === 'string' ? content : '';
    described.hasReasoning = isReasoning(message) || described.content.includes(REASONING_END) || hasReasoningTokens(answer);
    described.otherMembers = otherMembers(message);
  }
  if (typeof text === 'string') described.text = text;
  if (Array.isArray(tokenIds)) described.tokenIds = tokenIds as number[];
  if (typeof choice['finish_reason'] === 'string') described.finishReason = choice['finish_reason'];
  if (typeof choice['stop_reason'] === 'string') described.stopString = choice['stop_reason'];
  return described;
}

/** Members of a chat message that say something beside role, text and reasoning. */
export function otherMembers(message: Json): readonly string[] {
  return Object.keys(message).filter((key) => !PLAIN_MEMBERS.has(key) && isGiven(message[key]));
}

export function isReasoning(message: Json): boolean {
  return isGiven(message['reasoning']) || isGiven(message['reasoning_content']);
}

const PLAIN_MEMBERS = new Set(['role', 'content', 'reasoning', 'reasoning_content']);

/** Clients and engines write out empty members: null, '', [], {}. */
function isGiven(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return false;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}

function hasReasoningTokens(answer: Json): boolean {
  const count = asJsonObject(asJsonObject(answer['usage'])?.['completion_tokens_details'])?.['reasoning_tokens'];
  return typeof count === 'number' && count > 0;
}

function onlyChoice(choices: unknown): Json | undefined {
  return Array.isArray(choices) && choices.length === 1 ? asJsonObject(choices[0]) : undefined;
}

function parse(text: string): Json | undefined {
  try {
    return asJsonObject(JSON.parse(text));
  } catch {
    // Cut off, compressed, or no JSON at all: not known.
    return undefined;
  }
}

/**
 * Bodies of `POST /v1/messages` and `/v1/messages/count_tokens`. As in vLLM, a request becomes a chat request and is
 * parsed as one, so that equal conversations have equal tokens (protocol facts: vllm/entrypoints/anthropic/{protocol,serving}.py).
 */
import { validationError } from './api-error.ts';
import { readInteger, type Body } from './body-fields.ts';
import { isRecord, renderChat } from './chat-template.ts';
import type { Exchange } from './exchange.ts';
import type { GenerationRequest } from './generation-request.ts';
import { readJsonBody } from './json-body.ts';
import { isThinkingAsked, parseGeneration } from './request-parsing.ts';
import { readModel } from './sampling-parsing.ts';
import type { SimContext } from './sim-context.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

/** Blocks of the client that change with every request; the engine leaves them out, or no two prompts would share a prefix. */
const BILLING = 'x-anthropic-billing-header';
/** Names that Claude Code has for roles. */
const ROLES: Readonly<Record<string, string>> = { ctx: 'user', msg: 'user' };

/** Throws ApiError with the status and body that vLLM would send. */
export function parseMessagesRequest(value: unknown, options: ResolvedSimOptions): GenerationRequest {
  const body = readBody(value);
  const maxTokens = readInteger(body, 'max_tokens');
  if (maxTokens === undefined) throw validationError('missing', ['max_tokens'], 'Field required');
  if (maxTokens <= 0) throw validationError('value_error', ['max_tokens'], 'Value error, max_tokens must be positive');
  const chat = {
    ...chatOf(body),
    max_tokens: maxTokens,
    temperature: body['temperature'],
    top_p: body['top_p'],
    stop: body['stop_sequences'],
    stream: body['stream'],
    ...(body['stream'] === true && { stream_options: { include_usage: true, continuous_usage_stats: true } }),
    kv_transfer_params: body['kv_transfer_params'],
  };
  return { ...parseGeneration(chat, 'chat', options), api: 'messages' };
}

/** Throws ApiError. */
export function countTokens(exchange: Exchange, { options }: SimContext): void {
  const body = readBody(readJsonBody(exchange));
  readModel(body, options);
  const chat = chatOf(body);
  const { tokens } = renderChat({ messages: chat['messages'], tools: chat['tools'], isThinking: isThinkingAsked(chat) });
  exchange.json({ input_tokens: tokens.length, context_management: { original_input_tokens: tokens.length } });
}

function readBody(value: unknown): Body {
  if (!isRecord(value)) throw validationError('model_attributes_type', [], 'Input should be a valid dictionary');
  for (const field of ['model', 'messages']) if (value[field] === undefined) throw validationError('missing', [field], 'Field required');
  if (!Array.isArray(value['messages'])) throw validationError('list_type', ['messages'], 'Input should be a valid list');
  return value;
}

function chatOf(body: Body): Body {
  const tools = Array.isArray(body['tools']) ? (body['tools'] as readonly unknown[]) : [];
  return {
    model: body['model'],
    messages: chatMessages(body),
    ...(tools.length > 0 && { tools: tools.filter(isRecord).map((tool) => ({ type: 'function', function: { name: tool['name'], description: tool['description'] ?? null, parameters: tool['input_schema'] } })) }),
    tool_choice: toolChoice(body['tool_choice']),
    chat_template_kwargs: body['chat_template_kwargs'],
  };
}

function toolChoice(choice: unknown): unknown {
  if (!isRecord(choice)) return undefined;
  if (choice['type'] === 'tool') return { type: 'function', function: { name: choice['name'] } };
  return choice['type'] === 'any' ? 'required' : choice['type'];
}

/** All system texts are one message, the first. */
function chatMessages({ system, messages }: Body): object[] {
  const given = (messages as readonly unknown[]).filter(isRecord).map((message) => {
    const role = typeof message['role'] === 'string' ? message['role'] : '';
    return { role: ROLES[role] ?? role, content: message['content'] };
  });
  const systems = [system, ...given.filter(({ role }) => role === 'system').map(({ content }) => content)].flatMap(systemTexts);
  return [
    ...(systems.length > 0 ? [{ role: 'system', content: systems.join('') }] : []),
    ...given.filter(({ role }) => role !== 'system').flatMap(({ role, content }) => (Array.isArray(content) ? blocks(role, content as readonly unknown[]) : [{ role, content }])),
  ];
}

function systemTexts(content: unknown): string[] {
  const parts: readonly unknown[] = Array.isArray(content) ? (content as readonly unknown[]).map((block) => (isRecord(block) && block['type'] === 'text' ? block['text'] : undefined)) : [content];
  return parts.filter((text): text is string => typeof text === 'string' && text !== '' && !text.startsWith(BILLING));
}

/** Results of tools become messages of their own, before the one they stood in. */
function blocks(role: string, content: readonly unknown[]): object[] {
  const results: object[] = [];
  const parts: { readonly type: string; readonly text?: string }[] = [];
  const calls: object[] = [];
  for (const block of content.filter(isRecord)) {
    const { type, text, source, input } = block;
    if (type === 'text' && typeof text === 'string' && text !== '') parts.push({ type: 'text', text });
    else if (type === 'image' && isRecord(source)) parts.push(image(source));
    else if (type === 'tool_use') calls.push({ id: block['id'], type: 'function', function: { name: block['name'], arguments: JSON.stringify(input ?? {}) } });
    else if (type === 'tool_result') results.push({ role: 'tool', tool_call_id: block['tool_use_id'], content: resultText(block['content']) });
  }
  const [only] = parts;
  const isText = parts.length === 1 && only?.text !== undefined;
  const whole = parts.length === 0 ? {} : { content: isText ? only.text : parts };
  return parts.length === 0 && calls.length === 0 && role === 'user' ? results : [...results, { role, ...whole, ...(calls.length > 0 && { tool_calls: calls }) }];
}

function image(source: Readonly<Record<string, unknown>>): { readonly type: string; readonly image_url: object } {
  const { media_type: mediaType = 'image/jpeg', data = '', url } = source;
  return { type: 'image_url', image_url: { url: source['type'] === 'url' ? url : `data:${String(mediaType)};base64,${String(data)}` } };
}

function resultText(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === 'string' ? content : '';
  return (content as readonly unknown[]).flatMap((item) => (isRecord(item) && typeof item['text'] === 'string' ? [item['text']] : [])).join('\n');
}

/**
 * What an answer says about itself: usage, finish reason, the engine's timings, an error object. Read from the last
 * bytes after the answer went out, never on the way. Absent stays absent.
 * Shapes: vllm/entrypoints/openai/{chat_completion,completion,engine}/protocol.py.
 */
import type { LegUsage } from '#shared/request.ts';
import type { LegFacts } from '../telemetry/trace.ts';
import { asJsonObject } from './client-request.ts';
import { KV_TRANSFER_PARAMS, transferParamsForRecord } from './connectors/transfer-params.ts';
import { jsonKey, lastValueOf, memberValue, type JsonMember } from './json-members.ts';

/** Usage and finish reason sit in the last events before `[DONE]`; earlier ones are not read. */
const EVENTS_READ = 4;
const ERROR_BODY = /^\s*\{\s*(?:"error"\s*:|"object"\s*:\s*"error")/;
const FIRST_BYTES = 64;

type Json = Readonly<Record<string, unknown>>;

/** Facts of a whole JSON body whose members are known. */
export function factsOfObject(body: Buffer, members: readonly JsonMember[]): LegFacts {
  const finishReason = parse(lastValueOf(body, FINISH_REASON));
  return collect({
    usage: usageOf(parse(memberValue(body, members, 'usage'))),
    metrics: asJsonObject(parse(memberValue(body, members, 'metrics'))),
    finishReason: typeof finishReason === 'string' ? finishReason : undefined,
    params: memberValue(body, members, KV_TRANSFER_PARAMS),
  });
}

/** Facts of a JSON body, whole or only its last bytes. */
export function factsOfBody(lastBytes: Buffer): LegFacts {
  const finishReason = parse(lastValueOf(lastBytes, FINISH_REASON));
  return collect({
    usage: usageOf(parse(lastValueOf(lastBytes, USAGE))),
    metrics: asJsonObject(parse(lastValueOf(lastBytes, METRICS))),
    finishReason: typeof finishReason === 'string' ? finishReason : messagesStopReason(parse(lastValueOf(lastBytes, STOP_REASON))),
    params: lastValueOf(lastBytes, PARAMS),
  });
}

const USAGE = jsonKey('usage');
const METRICS = jsonKey('metrics');
const FINISH_REASON = jsonKey('finish_reason');
const STOP_REASON = jsonKey('stop_reason');
/** Of /v1/messages, in place of a finish reason; elsewhere `stop_reason` is the stop string that was met. */
const MESSAGES_STOP_REASONS: ReadonlySet<unknown> = new Set(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use']);
const PARAMS = jsonKey(KV_TRANSFER_PARAMS);

interface Found {
  readonly usage: LegUsage | undefined;
  readonly metrics: Json | undefined;
  readonly finishReason: string | undefined;
  readonly params: Buffer | undefined;
}

function collect({ usage, metrics, finishReason, params }: Found): LegFacts {
  const facts: { -readonly [K in keyof LegFacts]: LegFacts[K] } = {};
  if (usage !== undefined) facts.usage = usage;
  if (finishReason !== undefined) facts.finishReason = finishReason;
  if (metrics !== undefined) facts.metrics = metrics;
  if (params !== undefined) facts.kvTransferParams = transferParamsForRecord(params);
  return facts;
}

/** Whether a body with a 2xx status is an error object all the same, as some gateways answer. */
export function isErrorBody(body: Buffer): boolean {
  return ERROR_BODY.test(body.toString('latin1', 0, FIRST_BYTES));
}

/** The error of such a body: its `error` field, else the whole (vLLM's flat form from before 2025-08). */
export function errorIn(body: Buffer): unknown {
  const answer = asJsonObject(parse(body));
  return answer?.['error'] ?? answer ?? body.toString('utf8', 0, FIRST_BYTES);
}

export interface StreamFacts {
  readonly facts: LegFacts;
  /** The error object of an event; vLLM sends it as the last object, still followed by `[DONE]`. */
  readonly error?: unknown;
}

/** Facts of a stream of events from its last bytes. */
export function factsOfStream(lastBytes: Buffer): StreamFacts {
  let usage: LegUsage | undefined;
  let finishReason: string | undefined;
  let metrics: Json | undefined;
  let error: unknown;
  let read = 0;
  for (const payload of payloadsFromEnd(lastBytes.toString('utf8'))) {
    const event = asJsonObject(parseText(payload));
    if (event === undefined) continue;
    usage ??= usageOf(event['usage'] ?? asJsonObject(event['response'])?.['usage']);
    metrics ??= asJsonObject(event['metrics']);
    finishReason ??= finishReasonOf(event['choices']) ?? messagesStopReason(asJsonObject(event['delta'])?.['stop_reason']);
    error ??= event['error'] ?? undefined;
    if (++read === EVENTS_READ || (usage !== undefined && finishReason !== undefined)) break;
  }
  // The last event of /v1/responses repeats the whole answer, so its beginning may be cut off.
  usage ??= usageOf(parse(lastValueOf(lastBytes, USAGE)));
  const facts = collect({ usage, metrics, finishReason, params: lastValueOf(lastBytes, PARAMS) });
  return { facts, ...(error !== undefined && { error }) };
}

/** The error object of the first event in `bytes` that has one. */
export function findErrorEvent(bytes: Buffer): unknown {
  let error: unknown;
  for (const payload of payloadsFromEnd(bytes.toString('utf8'))) {
    const own = asJsonObject(parseText(payload))?.['error'];
    if (own !== undefined && own !== null) error = own;
  }
  return error;
}

/** Payloads of `data:` lines, last first. Inside JSON a newline is escaped, so a line start is exact. */
function* payloadsFromEnd(text: string): Generator<string> {
  let end = text.length;
  while (end > 0) {
    const lineStart = text.lastIndexOf('\n', end - 1) + 1;
    if (text.startsWith('data:', lineStart)) yield text.slice(lineStart + 5, end).trim();
    end = lineStart - 1;
  }
}

/**
 * `input_tokens` and so on: /v1/responses and /v1/messages (vllm/entrypoints/openai/responses/protocol.py, vllm/entrypoints/anthropic/protocol.py).
 * Anthropic's `input_tokens` are those neither read from a cache nor written to one, where the others are told (vLLM pull
 * request 40912, mid-2026); without them they are all of the prompt.
 */
function usageOf(value: unknown): LegUsage | undefined {
  const usage = asJsonObject(value);
  if (usage === undefined) return undefined;
  const found: { -readonly [K in keyof LegUsage]: LegUsage[K] } = {};
  const cacheRead = asCount(usage['cache_read_input_tokens']);
  const inputTokens = asCount(usage['input_tokens']);
  const allInput = inputTokens === undefined ? undefined : inputTokens + (cacheRead ?? 0) + (asCount(usage['cache_creation_input_tokens']) ?? 0);
  const promptTokens = asCount(usage['prompt_tokens']) ?? allInput;
  if (promptTokens !== undefined) found.promptTokens = promptTokens;
  const completionTokens = asCount(usage['completion_tokens'] ?? usage['output_tokens']);
  if (completionTokens !== undefined) found.completionTokens = completionTokens;
  const details = asJsonObject(usage['prompt_tokens_details']) ?? asJsonObject(usage['input_tokens_details']);
  const cachedTokens = asCount(details?.['cached_tokens']) ?? cacheRead;
  if (cachedTokens !== undefined) found.cachedTokens = cachedTokens;
  return found;
}

function messagesStopReason(value: unknown): string | undefined {
  return typeof value === 'string' && MESSAGES_STOP_REASONS.has(value) ? value : undefined;
}

function finishReasonOf(choices: unknown): string | undefined {
  if (!Array.isArray(choices)) return undefined;
  for (const choice of choices) {
    const reason = asJsonObject(choice)?.['finish_reason'];
    if (typeof reason === 'string') return reason;
  }
  return undefined;
}

function parse(json: Buffer | undefined): unknown {
  return json === undefined ? undefined : parseText(json.toString('utf8'));
}

function parseText(text: string): unknown {
  if (text === '[DONE]') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // A cut first event or foreign text: says nothing.
    return undefined;
  }
}

function asCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

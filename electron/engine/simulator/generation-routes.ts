/** The routes that generate: from bytes to sequences and back. What differs between them is the parser and the writer. */
import { badRequest, internalError } from './api-error.ts';
import { isRecord } from './chat-template.ts';
import { answerEncode } from './encode-route.ts';
import type { EngineCore } from './engine-core.ts';
import type { Exchange } from './exchange.ts';
import type { GenerationRequest } from './generation-request.ts';
import { Generation, type GenerationWriter } from './generation.ts';
import { randomId, readJsonBody } from './json-body.ts';
import { createJsonWriter, type JsonWriterInput } from './json-writer.ts';
import { parseMessagesRequest } from './messages-parsing.ts';
import { createMessagesJsonWriter, createMessagesSseWriter } from './messages-writer.ts';
import { parseGeneration } from './request-parsing.ts';
import { parseResponsesRequest } from './responses-parsing.ts';
import { createResponsesJsonWriter, createResponsesSseWriter } from './responses-writer.ts';
import { ID_PREFIX, type SimApi } from './sim-api.ts';
import { leastLoaded, type SimContext } from './sim-context.ts';
import { createSseWriter, type SseWriterInput } from './sse-writer.ts';
import { parseTokenRequest } from './token-parsing.ts';
import { readTransferParams } from './transfer/params.ts';
import { createTokenJsonWriter, createTokenSseWriter } from './token-writer.ts';

function chooseCore(exchange: Exchange, context: SimContext): EngineCore {
  const { cores } = context.life();
  const pinned = exchange.header('x-data-parallel-rank');
  if (pinned === undefined || !/^-?\d+$/u.test(pinned.trim())) return leastLoaded(cores);
  const core = cores[Number(pinned)];
  if (core === undefined) {
    throw badRequest(`data_parallel_rank ${pinned} is out of range [0, ${cores.length}).`, 'data_parallel_rank');
  }
  return core;
}

/** A refused decode leg lets the prefill instance free its blocks, as vLLM does since 2026-05-09. */
function releaseRemote(body: unknown, id: string, context: SimContext): void {
  const params = isRecord(body) ? readTransferParams(body['kv_transfer_params']) : undefined;
  if (params !== undefined) context.life().cores[0]?.refuseTransfer(params, id);
}

function parseBody(body: unknown, api: SimApi, context: SimContext): GenerationRequest {
  switch (api) {
    case 'generate': return parseTokenRequest(body, context.options);
    case 'responses': return parseResponsesRequest(body, context.options);
    case 'messages': return parseMessagesRequest(body, context.options);
    case 'chat': case 'completions': break;
  }
  return parseGeneration(body, api, context.options);
}

function parse(exchange: Exchange, api: SimApi, context: SimContext): { request: GenerationRequest; core: EngineCore } {
  const body = readJsonBody(exchange);
  try {
    return { request: parseBody(body, api, context), core: chooseCore(exchange, context) };
  } catch (error) {
    // As the engine would have named the first sequence: completions number their prompts.
    releaseRemote(body, `${ID_PREFIX[api]}${exchange.header('x-request-id') ?? ''}${api === 'completions' ? '-0' : ''}`, context);
    throw error;
  }
}

function createStreamWriter(api: SimApi, input: SseWriterInput): GenerationWriter {
  switch (api) {
    case 'generate': return createTokenSseWriter(input);
    case 'responses': return createResponsesSseWriter(input);
    case 'messages': return createMessagesSseWriter(input);
    case 'chat': case 'completions': break;
  }
  return createSseWriter(input);
}

function createBodyWriter(api: SimApi, input: JsonWriterInput): GenerationWriter {
  switch (api) {
    case 'generate': return createTokenJsonWriter(input);
    case 'responses': return createResponsesJsonWriter(input);
    case 'messages': return createMessagesJsonWriter(input);
    case 'chat': case 'completions': break;
  }
  return createJsonWriter(input);
}

/** Responses are named by the server; elsewhere the header, then the body, names the request (serve/engine/serving.py). */
function responseIdOf(exchange: Exchange, { api, requestId }: GenerationRequest, context: SimContext): string {
  const given = api === 'responses' ? undefined : (exchange.header('x-request-id') ?? requestId);
  return `${ID_PREFIX[api]}${given ?? randomId(context.prng)}`;
}

/** `done` is called when nothing more will happen on this exchange. Throws ApiError. */
export function generate(exchange: Exchange, api: SimApi, context: SimContext, done: () => void): void {
  const { request, core } = parse(exchange, api, context);
  const responseId = responseIdOf(exchange, request, context);
  if (context.options.role === 'encode') {
    answerEncode(exchange, context, { request, responseId, done });
    return;
  }
  const generation = new Generation({ request, options: context.options, core, responseId, nextSuffix: () => context.prng.hex(8), isLying: context.isLying });
  let encoding: NodeJS.Timeout | undefined;
  exchange.onAbort(() => {
    clearTimeout(encoding);
    generation.abort();
    done();
  });
  const start = (): void => generation.start(writerFor(exchange, generation, { core, done }));
  const encodeMs = encodeTimeMs(request, context);
  if (request.isStream) exchange.beginStream();
  if (encodeMs === 0) start();
  else encoding = setTimeout(start, encodeMs);
}

function writerFor(exchange: Exchange, generation: Generation, { core, done }: { readonly core: EngineCore; readonly done: () => void }): GenerationWriter {
  const { api, isStream } = generation.request;
  if (isStream) {
    return createStreamWriter(api, {
      generation,
      write: (text) => exchange.writeStream(text),
      end: () => {
        exchange.endStream();
        done();
      },
    });
  }
  return createBodyWriter(api, {
    generation,
    send: (body) => {
      addLoadHeader(exchange, core);
      exchange.inferenceJson(body);
      done();
    },
    sendError: (message) => {
      exchange.error(internalError(message));
      done();
    },
  });
}

/**
 * How long this instance encodes media that it found nowhere, before the sequence may start. Whoever gets the prompt's
 * KV from elsewhere needs no encoder output for it.
 */
function encodeTimeMs({ prompts, kvTransferParams }: GenerationRequest, { options, life, slowdown }: SimContext): number {
  const media = prompts.flatMap((prompt) => prompt.media);
  if (media.length === 0 || kvTransferParams?.['do_remote_prefill'] === true) return 0;
  return (life().media.admit(media) * options.timing.encodeMsPerItem * slowdown()) / options.speed;
}

/** ORCA load report on whole answers, when asked for (protocol facts: serve/utils/orca_metrics.py). */
function addLoadHeader(exchange: Exchange, core: EngineCore): void {
  const format = exchange.header('endpoint-load-metrics-format')?.toUpperCase();
  const metrics = { kv_cache_usage_perc: core.cache.usage, num_requests_waiting: core.waitingCapacity + core.waitingDeferred };
  if (format === 'JSON') exchange.setHeader('endpoint-load-metrics', `JSON ${JSON.stringify({ named_metrics: metrics })}`);
  if (format !== 'TEXT') return;
  const pairs = Object.entries(metrics).map(([name, value]) => `named_metrics.${name}=${value}`);
  exchange.setHeader('endpoint-load-metrics', `TEXT ${pairs.join(', ')}`);
}

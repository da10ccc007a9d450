/** POST /v1/completions and /v1/chat/completions: from bytes to sequences and back. */
import type { Api } from '#shared/vocabulary.ts';
import { ApiError, badRequest, internalError, validationError } from './api-error.ts';
import { isRecord } from './chat-template.ts';
import type { EngineCore } from './engine-core.ts';
import type { Exchange } from './exchange.ts';
import { Generation } from './generation.ts';
import { createJsonWriter } from './json-writer.ts';
import { readKvTransferParams } from './nixl-params.ts';
import { callProducer } from './nixl-side-channel.ts';
import { parseGeneration, type GenerationRequest } from './request-parsing.ts';
import { leastLoaded, type SimContext } from './sim-context.ts';
import { systemFingerprint } from './sim-options.ts';
import { createSseWriter } from './sse-writer.ts';
import { uuidFrom } from './prng.ts';

/** The JSON body, or the refusal that vLLM's FastAPI gives. */
export function readJsonBody(exchange: Exchange): unknown {
  const mediaType = exchange.header('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (mediaType !== 'application/json') {
    throw new ApiError(400, 'Bad Request', "Unsupported Media Type: Only 'application/json' is allowed");
  }
  try {
    return JSON.parse(exchange.body.toString('utf8'));
  } catch {
    throw validationError('json_invalid', [], 'JSON decode error');
  }
}

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
function releaseRemote(body: unknown): void {
  const transfer = isRecord(body) ? readKvTransferParams(body['kv_transfer_params']) : undefined;
  if (transfer?.kind === 'pull') void callProducer('done', transfer.reference);
}

function parse(exchange: Exchange, api: Api, context: SimContext): { request: GenerationRequest; core: EngineCore } {
  const body = readJsonBody(exchange);
  try {
    return { request: parseGeneration(body, api, context.options), core: chooseCore(exchange, context) };
  } catch (error) {
    releaseRemote(body);
    throw error;
  }
}

/** `done` is called when nothing more will happen on this exchange. Throws ApiError. */
export function generate(exchange: Exchange, api: Api, context: SimContext, done: () => void): void {
  const { request, core } = parse(exchange, api, context);
  const base = exchange.header('x-request-id') ?? request.requestId ?? uuidFrom(context.prng).replaceAll('-', '');
  const responseId = `${api === 'chat' ? 'chatcmpl' : 'cmpl'}-${base}`;
  if (context.options.role === 'encode') {
    encode(exchange, context, { request, responseId, done });
    return;
  }
  const generation = new Generation({
    request,
    options: context.options,
    core,
    responseId,
    nextSuffix: () => context.prng.hex(8),
  });
  exchange.onAbort(() => {
    generation.abort();
    done();
  });
  if (request.isStream) {
    exchange.beginStream();
    generation.start(
      createSseWriter({
        generation,
        write: (text) => exchange.writeStream(text),
        end: () => {
          exchange.endStream();
          done();
        },
      }),
    );
    return;
  }
  generation.start(
    createJsonWriter({
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
    }),
  );
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

interface EncodeInput {
  readonly request: GenerationRequest;
  readonly responseId: string;
  readonly done: () => void;
}

/** An encoder answers without text; it has no use for streaming. */
function encode(exchange: Exchange, context: SimContext, { request, responseId, done }: EncodeInput): void {
  const { encoder } = context.life();
  const prompt = request.prompts[0];
  if (encoder === undefined || prompt === undefined) throw internalError();
  if (request.isStream) throw badRequest('Encoder instances do not stream; send stream=false.', 'stream');
  const cancel = encoder.encode(prompt.media, prompt.tokens.length, (ecTransferParams) => {
    exchange.inferenceJson({
      id: responseId,
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      model: request.model,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant', content: '', refusal: null, annotations: null, audio: null, function_call: null, reasoning: null,
          },
          logprobs: null,
          finish_reason: 'length',
          stop_reason: null,
          token_ids: null,
          routed_experts: null,
        },
      ],
      service_tier: null,
      system_fingerprint: systemFingerprint(context.options),
      usage: {
        prompt_tokens: prompt.tokens.length,
        total_tokens: prompt.tokens.length,
        completion_tokens: 0,
        prompt_tokens_details: null,
        completion_tokens_details: null,
      },
      prompt_logprobs: null,
      prompt_token_ids: null,
      prompt_text: null,
      kv_transfer_params: null,
      ec_transfer_params: ecTransferParams,
      metrics: null,
    });
    done();
  });
  exchange.onAbort(() => {
    cancel();
    done();
  });
}

/** The routes that answer at once: health, models, tokenizer, metrics and vLLM's development routes. */
import { badRequest } from './api-error.ts';
import { isRecord, renderChat } from './chat-template.ts';
import { derenderChat, derenderCompletion } from './derender-routes.ts';
import type { Exchange } from './exchange.ts';
import { readJsonBody } from './json-body.ts';
import { countTokens } from './messages-parsing.ts';
import { render } from './render-routes.ts';
import { isThinkingAsked } from './request-parsing.ts';
import { responseNotFound } from './responses-parsing.ts';
import { MESSAGES_PATH } from './sim-api.ts';
import type { SimContext } from './sim-context.ts';
import { HF_CONFIG } from './sim-model.ts';
import { kvTransferConfig, transferEnv } from './transfer/kv-transfer-config.ts';
import { decodeTokens, encodeText, tokenText } from './tokenizer.ts';

export type Route = (exchange: Exchange, context: SimContext) => void;

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

function models(exchange: Exchange, { options, life }: SimContext): void {
  const created = life().startedAtUnixS;
  const card = (id: string, root: string, parent: string | null): object => ({
    id,
    object: 'model',
    created,
    owned_by: 'vllm',
    root,
    parent,
    max_model_len: parent === null ? options.maxModelLen : null,
    permission: [
      {
        id: `modelperm-${created.toString(16).padStart(16, '0')}`,
        object: 'model_permission',
        created,
        allow_create_engine: false,
        allow_sampling: true,
        allow_logprobs: true,
        allow_search_indices: false,
        allow_view: true,
        allow_fine_tuning: false,
        organization: '*',
        group: null,
        is_blocking: false,
      },
    ],
  });
  const adapters = options.loras.map((name) => card(name, `adapters/${name}`, options.model));
  exchange.json({ object: 'list', data: [card(options.model, options.model, null), ...adapters] });
}

function tokenize(exchange: Exchange, { options }: SimContext): void {
  const body = readJsonBody(exchange);
  if (!isRecord(body)) throw badRequest('The body must be an object');
  const tokens =
    typeof body['prompt'] === 'string'
      ? encodeText(body['prompt'])
      : renderChat({
          messages: body['messages'],
          tools: body['tools'],
          addGenerationPrompt: body['add_generation_prompt'] !== false,
          isThinking: isThinkingAsked(body),
        }).tokens;
  exchange.json({
    count: tokens.length,
    max_model_len: options.maxModelLen,
    tokens,
    token_strs: body['return_token_strs'] === true ? tokens.map(tokenText) : null,
  });
}

function detokenize(exchange: Exchange): void {
  const body = readJsonBody(exchange);
  const tokens = isRecord(body) ? body['tokens'] : undefined;
  if (!Array.isArray(tokens) || !tokens.every((token) => Number.isInteger(token))) {
    throw badRequest('tokens must be a list of integers', 'tokens');
  }
  exchange.json({ prompt: decodeTokens(tokens as readonly number[]) });
}

function serverInfo(exchange: Exchange, { options, life }: SimContext): void {
  const { publishers, engineId, transferPorts } = life();
  const kvEvents = publishers?.config;
  const vllmConfig = {
    // As pydantic's fallback prints what it does not know: `str` of the class.
    model_config: { model: options.model, max_model_len: options.maxModelLen, dtype: 'torch.bfloat16', hf_config: `Qwen3Config ${JSON.stringify(HF_CONFIG, undefined, 2)}` },
    cache_config: { block_size: options.blockSize, num_gpu_blocks: options.blocks, enable_prefix_caching: true, cache_dtype: 'auto' },
    parallel_config: { tensor_parallel_size: 1, pipeline_parallel_size: 1, data_parallel_size: options.dpSize },
    kv_events_config:
      kvEvents === undefined
        ? null
        : {
            enable_kv_cache_events: true,
            publisher: 'zmq',
            endpoint: asBound(kvEvents.endpoint),
            replay_endpoint: kvEvents.replayEndpoint === undefined ? null : asBound(kvEvents.replayEndpoint),
            topic: kvEvents.topic,
          },
    kv_transfer_config: kvTransferConfig(options, engineId, transferPorts),
  };
  const isJson = exchange.query.get('config_format') === 'json';
  exchange.json({ vllm_config: isJson ? vllmConfig : JSON.stringify(vllmConfig), vllm_env: transferEnv(options, transferPorts), system_env: {} });
}

/** As flags say it: the engine binds on every address. */
function asBound(endpoint: string): string {
  return endpoint.replace(/^tcp:\/\/.*:/u, 'tcp://*:');
}

function resetPrefixCache(exchange: Exchange, { life }: SimContext): void {
  const results = life().cores.map((core) => core.resetPrefixCache());
  exchange.json({ success: results.every(Boolean) });
}

const health: Route = (exchange, { life }) => exchange.empty(life().death === undefined ? 200 : 503);

/** By `METHOD path`. */
export const INFO_ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ['GET /health', health],
  ['GET /ping', health],
  ['POST /ping', health],
  ['GET /version', (exchange, { options }) => exchange.json({ version: options.version })],
  ['GET /load', (exchange, { inFlight }) => exchange.json({ server_load: inFlight() })],
  ['GET /v1/models', models],
  ['POST /tokenize', tokenize],
  ['POST /detokenize', detokenize],
  ['GET /metrics', (exchange, { life, options }) => exchange.text(life().registry.render(options.hiddenMetrics), METRICS_TYPE)],
]);

/** Only with a model that generates. */
export const RENDER_ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ['POST /v1/chat/completions/render', (exchange, context) => render(exchange, 'chat', context)],
  ['POST /v1/completions/render', (exchange, context) => render(exchange, 'completions', context)],
  ['POST /v1/chat/completions/derender', derenderChat],
  ['POST /v1/completions/derender', derenderCompletion],
  [`POST ${MESSAGES_PATH}/count_tokens`, countTokens],
]);

const RESPONSE_PATH = /^\/v1\/responses\/([^/]+)(\/cancel)?$/u;

/** Nothing is stored, so no response can be found again: `GET /v1/responses/{id}`, `POST /v1/responses/{id}/cancel`. */
export function responseRoute(method: string, path: string): Route | undefined {
  const match = RESPONSE_PATH.exec(path);
  if (match?.[1] === undefined || method !== (match[2] === undefined ? 'GET' : 'POST')) return undefined;
  const [, id] = match;
  return () => {
    throw responseNotFound(id);
  };
}

/** Only with --profiler-config: 200 without a body. */
export const PROFILE_ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ['POST /start_profile', (exchange) => exchange.empty()],
  ['POST /stop_profile', (exchange) => exchange.empty()],
]);

/** Only with VLLM_SERVER_DEV_MODE=1. */
export const DEV_ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ['GET /server_info', serverInfo],
  ['POST /reset_prefix_cache', resetPrefixCache],
]);

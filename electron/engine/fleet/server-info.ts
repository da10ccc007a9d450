/**
 * What an engine says about its own configuration: `GET /server_info?config_format=json`, which only engines in
 * development mode (VLLM_SERVER_DEV_MODE=1) answer. Everything is optional and none of it is trusted to be there.
 * Fields: vllm/config/{parallel,cache,kv_transfer}.py.
 */
import { z } from 'zod';
import { MAX_RANKS, type TransferFacts } from '#shared/instance.ts';
import { httpGet } from './http-get.ts';
import { modelKvBytes } from './model-kv-bytes.ts';
import type { ProbeOptions } from './probe.ts';

export interface ServerFacts {
  readonly transfer: TransferFacts;
  /** Ranks that X-data-parallel-rank may name at this address. */
  readonly dpSize?: number;
  /** Where it publishes KV events, as its flags say: the host may be a wildcard, and ports are those of rank 0, of all nodes'. `firstRank`: the instance's own first one, when it is another. */
  readonly kvEvents?: { readonly endpoint: string; readonly replayEndpoint?: string; readonly topic: string; readonly firstRank?: number };
}

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** It is kept and shown; real ones have a few hundred characters. */
const MAX_EXTRA_CONFIG_CHARS = 16 * 1024;

const text = z.string().min(1).max(1024).optional().catch(undefined);
const size = z.number().int().min(1).max(65_536).optional().catch(undefined);
const ranks = z.number().int().min(1).max(MAX_RANKS).optional().catch(undefined);
const rank = z.number().int().min(0).max(MAX_RANKS).optional().catch(undefined);
const flag = z.boolean().optional().catch(undefined);

const ConfigSchema = z.object({
  cache_config: z.object({ block_size: size }).optional().catch(undefined),
  parallel_config: z
    .object({
      tensor_parallel_size: size,
      pipeline_parallel_size: size,
      data_parallel_size: ranks,
      data_parallel_size_local: ranks,
      data_parallel_index: rank,
      data_parallel_rank: rank,
      data_parallel_external_lb: flag,
      data_parallel_hybrid_lb: flag,
    })
    .optional()
    .catch(undefined),
  kv_events_config: z
    .object({ enable_kv_cache_events: flag, publisher: text, endpoint: text, replay_endpoint: text, buffer_steps: z.number().optional().catch(undefined), topic: z.string().max(1024).optional().catch(undefined) })
    .nullish()
    .catch(undefined),
  kv_transfer_config: z
    .object({
      kv_connector: text,
      engine_id: text,
      kv_role: text,
      kv_load_failure_policy: text,
      kv_connector_extra_config: z
        .record(z.string(), z.unknown())
        .refine((config) => JSON.stringify(config).length <= MAX_EXTRA_CONFIG_CHARS)
        .optional()
        .catch(undefined),
    })
    .nullish()
    .catch(undefined),
});

/** undefined when the engine does not tell. Never rejects. */
export async function readServerInfo(origin: string, options: ProbeOptions): Promise<ServerFacts | undefined> {
  try {
    const answer = await httpGet(`${origin}/server_info?config_format=json`, { ...options, maxBytes: MAX_ANSWER_BYTES });
    return answer.status === 200 ? serverFactsOf(JSON.parse(answer.text)) : undefined;
  } catch {
    // Optional: most engines do not run in development mode, and other servers answer anything here.
    return undefined;
  }
}

/** Reads the body of `/server_info`; undefined when it is not one. */
export function serverFactsOf(body: unknown): ServerFacts | undefined {
  const config = configIn(body);
  const parsed = ConfigSchema.safeParse(config);
  if (!parsed.success) return undefined;
  const { cache_config: cache, parallel_config: parallel, kv_transfer_config: transfer } = parsed.data;
  const dpSize = dpSizeOf(parallel);
  const facts: { -readonly [K in keyof TransferFacts]: TransferFacts[K] } = {};
  if (transfer?.kv_connector !== undefined) facts.kvConnector = transfer.kv_connector;
  if (transfer?.kv_role !== undefined) facts.kvRole = transfer.kv_role;
  if (transfer?.engine_id !== undefined) facts.engineId = transfer.engine_id;
  if (transfer?.kv_load_failure_policy !== undefined) facts.loadFailurePolicy = transfer.kv_load_failure_policy;
  if (transfer?.kv_connector_extra_config !== undefined) facts.extraConfig = transfer.kv_connector_extra_config;
  if (parallel?.tensor_parallel_size !== undefined) facts.tpSize = parallel.tensor_parallel_size;
  if (parallel?.pipeline_parallel_size !== undefined) facts.ppSize = parallel.pipeline_parallel_size;
  if (cache?.block_size !== undefined) facts.blockSize = cache.block_size;
  const kvBytesPerToken = modelKvBytes(config);
  if (kvBytesPerToken !== undefined) facts.kvBytesPerToken = kvBytesPerToken;
  const kvEvents = kvEventsOf(parsed.data.kv_events_config, firstRankOf(parallel));
  if (Object.keys(facts).length === 0 && dpSize === undefined && kvEvents === undefined) return undefined;
  return { transfer: facts, ...(dpSize !== undefined && { dpSize }), ...(kvEvents !== undefined && { kvEvents }) };
}

/** undefined unless the engine publishes over ZMQ. */
function kvEventsOf(config: z.output<typeof ConfigSchema>['kv_events_config'], firstRank: number): ServerFacts['kvEvents'] {
  if (config?.enable_kv_cache_events !== true || config.endpoint === undefined || (config.publisher ?? 'zmq') !== 'zmq') return undefined;
  const { endpoint, topic = '' } = config;
  // With no batch kept there is nothing to ask for.
  const replayEndpoint = config.buffer_steps === 0 ? undefined : config.replay_endpoint;
  return { endpoint, topic, ...(replayEndpoint !== undefined && { replayEndpoint }), ...(firstRank > 0 && { firstRank }) };
}

/** Of an instance that serves its own ranks only: the first of them, of all nodes' (vllm/engine/arg_utils.py, data_parallel_start_rank). */
function firstRankOf(parallel: z.output<typeof ConfigSchema>['parallel_config']): number {
  if (parallel?.data_parallel_external_lb !== true && parallel?.data_parallel_hybrid_lb !== true) return 0;
  return parallel.data_parallel_index ?? parallel.data_parallel_rank ?? 0;
}

function configIn(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !('vllm_config' in body)) return undefined;
  return body.vllm_config;
}

/** The header's range: all ranks behind one internal balancer, the local ones in hybrid mode, one in external mode. */
function dpSizeOf(parallel: z.output<typeof ConfigSchema>['parallel_config']): number | undefined {
  if (parallel === undefined) return undefined;
  if (parallel.data_parallel_external_lb === true) return 1;
  if (parallel.data_parallel_hybrid_lb === true) return parallel.data_parallel_size_local ?? parallel.data_parallel_size;
  return parallel.data_parallel_size;
}

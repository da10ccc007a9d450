/** vLLM's metric families for one engine core (rank), with its names, labels and bounds (vllm/v1/metrics/loggers.py). */
import type { MetricsRegistry, Counter, Histogram, Labels } from './metrics-registry.ts';

const FINISH_REASONS = ['stop', 'length', 'abort', 'error', 'repetition'] as const;
export type EngineFinishReason = (typeof FINISH_REASONS)[number];

const TTFT_BOUNDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
const ITL_BOUNDS = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const LATENCY_BOUNDS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const ITERATION_BOUNDS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const N_BOUNDS = [1, 2, 5, 10, 20];
const XFER_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5];
const POST_BOUNDS = [0.001, ...XFER_BOUNDS];
const BYTES_BOUNDS = Array.from({ length: 12 }, (_, index) => 2 ** (11 + 2 * index));
const DESCRIPTOR_BOUNDS = [10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10_000, 20_000, 50_000];

/** 1-2-5 steps up to `max`, vLLM's `build_1_2_5_buckets`. */
function tokenBounds(max: number): number[] {
  const bounds: number[] = [];
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) {
      if (digit * power > max) return bounds;
      bounds.push(digit * power);
    }
  }
}

export interface EngineMetricsInput {
  readonly registry: MetricsRegistry;
  readonly model: string;
  readonly rank: number;
  readonly maxModelLen: number;
  /** Whether KV comes from elsewhere at all. */
  readonly hasConnector: boolean;
  readonly hasNixl: boolean;
  readonly gauges: {
    readonly running: () => number;
    readonly waitingCapacity: () => number;
    readonly waitingDeferred: () => number;
    /** 0..1. */
    readonly kvUsage: () => number;
  };
}

export interface EngineMetrics {
  readonly prefixQueries: Counter;
  readonly prefixHits: Counter;
  readonly externalQueries: Counter;
  readonly externalHits: Counter;
  readonly mmQueries: Counter;
  readonly mmHits: Counter;
  readonly preemptions: Counter;
  readonly promptTokens: Counter;
  readonly promptBySource: Readonly<Record<'local_compute' | 'local_cache_hit' | 'external_kv_transfer', Counter>>;
  readonly promptCached: Counter;
  readonly generationTokens: Counter;
  readonly finished: Readonly<Record<EngineFinishReason, Counter>>;
  readonly requestPromptTokens: Histogram;
  readonly requestGenerationTokens: Histogram;
  readonly iterationTokens: Histogram;
  readonly maxGenerationTokens: Histogram;
  readonly paramsN: Histogram;
  readonly paramsMaxTokens: Histogram;
  readonly ttftS: Histogram;
  readonly itlS: Histogram;
  readonly tpotS: Histogram;
  readonly e2eS: Histogram;
  readonly queueS: Histogram;
  readonly inferenceS: Histogram;
  readonly prefillS: Histogram;
  readonly decodeS: Histogram;
  readonly prefillComputed: Histogram;
  readonly hasConnector: boolean;
  readonly nixl: NixlMetrics | undefined;
}

export interface NixlMetrics {
  readonly xferS: Histogram;
  readonly postS: Histogram;
  readonly bytes: Histogram;
  readonly descriptors: Histogram;
  readonly failedTransfers: Counter;
  readonly failedNotifications: Counter;
  readonly expired: Counter;
}

function createNixlMetrics(registry: MetricsRegistry, labels: Labels): NixlMetrics {
  const histogram = (name: string, help: string, bounds: readonly number[]): Histogram =>
    registry.histogram(`vllm:nixl_${name}`, help, labels, bounds);
  const counter = (name: string, help: string): Counter => registry.counter(`vllm:nixl_${name}_total`, help, labels);
  return {
    xferS: histogram('xfer_time_seconds', 'Histogram of transfer duration for NIXL KV Cache transfers.', XFER_BOUNDS),
    postS: histogram('post_time_seconds', 'Histogram of transfer post time for NIXL KV Cache transfers.', POST_BOUNDS),
    bytes: histogram('bytes_transferred', 'Histogram of bytes transferred per NIXL KV Cache transfers.', BYTES_BOUNDS),
    descriptors: histogram(
      'num_descriptors', 'Histogram of number of descriptors per NIXL  KV Cache transfers.', DESCRIPTOR_BOUNDS,
    ),
    failedTransfers: counter('num_failed_transfers', 'Number of failed NIXL KV Cache transfers.'),
    failedNotifications: counter('num_failed_notifications', 'Number of failed NIXL KV Cache notifications.'),
    expired: counter(
      'num_kv_expired_reqs',
      'Number of requests that had their KV expire. NOTE: This metric is tracked on the P instance.',
    ),
  };
}

function addGauges({ registry, gauges }: EngineMetricsInput, labels: Labels): void {
  const gauge = (name: string, help: string, read: () => number, extra: Labels = {}): void =>
    registry.gauge(`vllm:${name}`, help, { ...labels, ...extra }, read);
  gauge('num_requests_running', 'Number of requests in model execution batches.', gauges.running);
  gauge('num_requests_waiting', 'Number of requests waiting to be processed.', () =>
    gauges.waitingCapacity() + gauges.waitingDeferred());
  const byReason =
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.";
  gauge('num_requests_waiting_by_reason', byReason, gauges.waitingCapacity, { reason: 'capacity' });
  gauge('num_requests_waiting_by_reason', byReason, gauges.waitingDeferred, { reason: 'deferred' });
  const sleep =
    'Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.';
  gauge('engine_sleep_state', sleep, () => 1, { sleep_state: 'awake' });
  gauge('engine_sleep_state', sleep, () => 0, { sleep_state: 'weights_offloaded' });
  gauge('engine_sleep_state', sleep, () => 0, { sleep_state: 'discard_all' });
  gauge('kv_cache_usage_perc', 'KV-cache usage. 1 means 100 percent usage.', gauges.kvUsage);
}

/** Registers all families of one engine core; cores of one instance share the registry. */
export function createEngineMetrics(input: EngineMetricsInput): EngineMetrics {
  const { registry, maxModelLen } = input;
  const labels: Labels = { engine: String(input.rank), model_name: input.model };
  const tokens = tokenBounds(maxModelLen);
  const counter = (name: string, help: string, extra: Labels = {}): Counter =>
    registry.counter(`vllm:${name}_total`, help, { ...labels, ...extra });
  const histogram = (name: string, help: string, bounds: readonly number[]): Histogram =>
    registry.histogram(`vllm:${name}`, help, labels, bounds);
  const nixl = input.hasNixl ? createNixlMetrics(registry, labels) : undefined;
  addGauges(input, labels);
  const source = (name: string): Counter =>
    counter('prompt_tokens_by_source', 'Number of prompt tokens by source.', { source: name });
  const finish = (reason: EngineFinishReason): Counter =>
    counter('request_success', 'Count of successfully processed requests.', { finished_reason: reason });
  const external = (what: string): string =>
    `External prefix cache ${what} tokens.`;
  return {
    hasConnector: input.hasConnector,
    nixl,
    prefixQueries: counter('prefix_cache_queries', 'Prefix cache queries, in terms of number of queried tokens.'),
    prefixHits: counter('prefix_cache_hits', 'Prefix cache hits, in terms of number of cached tokens.'),
    externalQueries: counter(
      'external_prefix_cache_queries',
      external('queries from KV connector cross-instance cache sharing, in terms of number of queried'),
    ),
    externalHits: counter(
      'external_prefix_cache_hits',
      external('hits from KV connector cross-instance cache sharing, in terms of number of cached'),
    ),
    mmQueries: counter('mm_cache_queries', 'Multi-modal cache queries, in terms of number of queried items.'),
    mmHits: counter('mm_cache_hits', 'Multi-modal cache hits, in terms of number of cached items.'),
    preemptions: counter('num_preemptions', 'Cumulative number of preemption from the engine.'),
    promptTokens: counter('prompt_tokens', 'Number of prefill tokens processed.'),
    promptBySource: {
      local_compute: source('local_compute'),
      local_cache_hit: source('local_cache_hit'),
      external_kv_transfer: source('external_kv_transfer'),
    },
    promptCached: counter('prompt_tokens_cached', 'Number of cached prompt tokens (local + external).'),
    generationTokens: counter('generation_tokens', 'Number of generation tokens processed.'),
    finished: {
      stop: finish('stop'),
      length: finish('length'),
      abort: finish('abort'),
      error: finish('error'),
      repetition: finish('repetition'),
    },
    requestPromptTokens: histogram('request_prompt_tokens', 'Number of prefill tokens processed.', tokens),
    requestGenerationTokens: histogram('request_generation_tokens', 'Number of generation tokens processed.', tokens),
    iterationTokens: histogram(
      'iteration_tokens_total', 'Histogram of number of tokens per engine_step.', ITERATION_BOUNDS,
    ),
    maxGenerationTokens: histogram(
      'request_max_num_generation_tokens', 'Histogram of maximum number of requested generation tokens.', tokens,
    ),
    paramsN: histogram('request_params_n', 'Histogram of the n request parameter.', N_BOUNDS),
    paramsMaxTokens: histogram(
      'request_params_max_tokens', 'Histogram of the max_tokens request parameter.', tokens,
    ),
    ttftS: histogram('time_to_first_token_seconds', 'Histogram of time to first token in seconds.', TTFT_BOUNDS),
    itlS: histogram('inter_token_latency_seconds', 'Histogram of inter-token latency in seconds.', ITL_BOUNDS),
    tpotS: histogram(
      'request_time_per_output_token_seconds', 'Histogram of time_per_output_token_seconds per request.', ITL_BOUNDS,
    ),
    e2eS: histogram('e2e_request_latency_seconds', 'Histogram of e2e request latency in seconds.', LATENCY_BOUNDS),
    queueS: histogram(
      'request_queue_time_seconds', 'Histogram of time spent in WAITING phase for request.', LATENCY_BOUNDS,
    ),
    inferenceS: histogram(
      'request_inference_time_seconds', 'Histogram of time spent in RUNNING phase for request.', LATENCY_BOUNDS,
    ),
    prefillS: histogram(
      'request_prefill_time_seconds', 'Histogram of time spent in PREFILL phase for request.', LATENCY_BOUNDS,
    ),
    decodeS: histogram(
      'request_decode_time_seconds', 'Histogram of time spent in DECODE phase for request.', LATENCY_BOUNDS,
    ),
    prefillComputed: histogram(
      'request_prefill_kv_computed_tokens',
      'Histogram of new KV tokens computed during prefill (excluding cached tokens).',
      tokens,
    ),
  };
}

/**
 * Reduces the scrapes of one engine to EngineGauges. Sums over the `engine` label (data-parallel ranks of one server);
 * rates come from two scrapes and survive counter resets. What the engine does not expose stays absent.
 * Names: vLLM `vllm/v1/metrics/loggers.py` and `.../nixl/stats.py`; the old `gpu_*` names were removed 2025-11-25.
 */
import { MAX_RANKS, type EngineCacheTokens, type EngineGauges, type EngineKvTransfers } from '#shared/instance.ts';
import type { MetricSample } from './prometheus-text.ts';

const RUNNING = 'vllm:num_requests_running';
const WAITING = 'vllm:num_requests_waiting';
const WAITING_BY_REASON = 'vllm:num_requests_waiting_by_reason';
const KV_USAGE = ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'] as const;
const CACHE_CONFIG = 'vllm:cache_config_info';
const PREFIX_QUERIES = ['vllm:prefix_cache_queries_total', 'vllm:gpu_prefix_cache_queries_total'] as const;
const PREFIX_HITS = ['vllm:prefix_cache_hits_total', 'vllm:gpu_prefix_cache_hits_total'] as const;
const EXTERNAL_QUERIES = ['vllm:external_prefix_cache_queries_total'] as const;
const EXTERNAL_HITS = ['vllm:external_prefix_cache_hits_total'] as const;
const PROMPT_TOKENS = ['vllm:prompt_tokens_total'] as const;
const GENERATION_TOKENS = ['vllm:generation_tokens_total'] as const;
const PREEMPTIONS = 'vllm:num_preemptions_total';
const BY_SOURCE = 'vllm:prompt_tokens_by_source_total';
const CACHE_COUNTERS: readonly { readonly key: keyof EngineCacheTokens; readonly names: readonly string[]; readonly source?: string }[] = [
  { key: 'prefixQueries', names: PREFIX_QUERIES },
  { key: 'prefixHits', names: PREFIX_HITS },
  { key: 'externalQueries', names: EXTERNAL_QUERIES },
  { key: 'externalHits', names: EXTERNAL_HITS },
  { key: 'localCompute', names: [BY_SOURCE], source: 'local_compute' },
  { key: 'localCacheHit', names: [BY_SOURCE], source: 'local_cache_hit' },
  { key: 'externalKvTransfer', names: [BY_SOURCE], source: 'external_kv_transfer' },
];
/** When a rank's counters began, unix seconds; not with several API server processes (Prometheus' multiprocess mode). */
const CREATED = 'vllm:prompt_tokens_created';
const NIXL_BYTES = ['vllm:nixl_bytes_transferred_sum'] as const;
const NIXL_TRANSFERS = ['vllm:nixl_bytes_transferred_count'] as const;
const NIXL_EXPIRED = 'vllm:nixl_num_kv_expired_reqs_total';
const NIXL_FAILED = 'vllm:nixl_num_failed_transfers_total';

const WANTED: ReadonlySet<string> = new Set([
  RUNNING, WAITING, WAITING_BY_REASON, ...KV_USAGE, CACHE_CONFIG, ...PREFIX_QUERIES, ...PREFIX_HITS, ...EXTERNAL_QUERIES,
  ...EXTERNAL_HITS, CREATED, ...PROMPT_TOKENS, ...GENERATION_TOKENS, PREEMPTIONS, BY_SOURCE, ...NIXL_BYTES, ...NIXL_TRANSFERS, NIXL_EXPIRED, NIXL_FAILED,
]);

/** Whether a sample name matters here; for `parsePrometheusText`. */
export function isGaugeMetric(name: string): boolean {
  return WANTED.has(name);
}

export interface ScrapeTime {
  /** Monotonic, milliseconds; rates are computed from it. */
  readonly monotonicMs: number;
  readonly unixMs: number;
}

interface Counters {
  readonly monotonicMs: number;
  /** Value by series, i.e. by name and labels. */
  readonly values: ReadonlyMap<string, number>;
  /** When the counters of a rank began, by its label; empty where that is not told. */
  readonly createdAtS: ReadonlyMap<string, number>;
}

/** Remembers the last scrape of one engine. One object per instance. */
export class GaugeReducer {
  #last: Counters | undefined;
  #prefixHitRate: number | undefined;
  #externalHitRate: number | undefined;
  #cacheTokens: EngineCacheTokens | undefined;
  #kvTransfers: EngineKvTransfers | undefined;

  /** Reduces one page. The first one has no rates. */
  reduce(samples: readonly MetricSample[], at: ScrapeTime): EngineGauges {
    const byName = groupByName(samples);
    const current: Counters = { monotonicMs: at.monotonicMs, values: counterValues(byName), createdAtS: new Map((byName.get(CREATED) ?? []).map(({ labels, value }) => [labels['engine'] ?? '', value])) };
    const last = this.#last;
    this.#last = current;
    const increase = (names: readonly string[]): number | undefined => (last === undefined ? undefined : increaseOf(byName, names, last));
    const seconds = last === undefined ? 0 : (at.monotonicMs - last.monotonicMs) / 1000;
    const rate = (names: readonly string[]): number | undefined => {
      const grown = increase(names);
      return grown === undefined || seconds <= 0 ? undefined : grown / seconds;
    };
    // Kept while no new queries arrive: the contract is "between the last two scrapes that saw queries".
    this.#prefixHitRate = ratio(increase(PREFIX_HITS), increase(PREFIX_QUERIES)) ?? this.#prefixHitRate;
    this.#externalHitRate = ratio(increase(EXTERNAL_HITS), increase(EXTERNAL_QUERIES)) ?? this.#externalHitRate;

    for (const { key, names, source } of CACHE_COUNTERS) {
      const grown = last === undefined ? undefined : increaseOf(byName, names, last, source);
      if (grown !== undefined) this.#cacheTokens = { ...this.#cacheTokens, [key]: (this.#cacheTokens?.[key] ?? 0) + grown };
    }
    const [bytes, transfers] = [increase(NIXL_BYTES), increase(NIXL_TRANSFERS)];
    if (bytes !== undefined && transfers !== undefined) this.#kvTransfers = { bytes: (this.#kvTransfers?.bytes ?? 0) + bytes, transfers: (this.#kvTransfers?.transfers ?? 0) + transfers };
    const bySource = {
      ...named('localCompute', sum(byName, BY_SOURCE, { source: 'local_compute' })),
      ...named('localCacheHit', sum(byName, BY_SOURCE, { source: 'local_cache_hit' })),
      ...named('externalKvTransfer', sum(byName, BY_SOURCE, { source: 'external_kv_transfer' })),
    };
    const cache = cacheConfig(byName.get(CACHE_CONFIG) ?? []);
    return {
      scrapedAtUnixMs: at.unixMs,
      ...named('running', sum(byName, RUNNING)),
      ...named('waiting', sum(byName, WAITING)),
      ...named('waitingDeferred', sum(byName, WAITING_BY_REASON, { reason: 'deferred' })),
      ...named('kvUsage', kvUsage(byName, cache.blocksByEngine)),
      ...named('blockSize', cache.blockSize),
      ...named('gpuBlocks', cache.gpuBlocks),
      ...named('dpRanks', dpRanks(byName)),
      ...named('firstRank', firstRank(byName)),
      ...named('prefixHitRate', this.#prefixHitRate),
      ...named('externalHitRate', this.#externalHitRate),
      ...named('promptTokensPerSecond', rate(PROMPT_TOKENS)),
      ...named('generationTokensPerSecond', rate(GENERATION_TOKENS)),
      ...named('preemptions', sum(byName, PREEMPTIONS)),
      ...(Object.keys(bySource).length > 0 && { promptTokensBySource: bySource }),
      ...(this.#cacheTokens !== undefined && { cacheTokens: this.#cacheTokens }),
      ...(this.#kvTransfers !== undefined && { kvTransfers: this.#kvTransfers }),
      ...named('nixlExpired', sum(byName, NIXL_EXPIRED)),
      ...named('nixlFailedTransfers', sum(byName, NIXL_FAILED)),
    };
  }
}

type ByName = ReadonlyMap<string, readonly MetricSample[]>;

function groupByName(samples: readonly MetricSample[]): ByName {
  const groups = new Map<string, MetricSample[]>();
  for (const sample of samples) {
    const group = groups.get(sample.name);
    if (group === undefined) groups.set(sample.name, [sample]);
    else group.push(sample);
  }
  return groups;
}

function seriesKey(sample: MetricSample): string {
  const { engine = '', model_name: model = '', source = '' } = sample.labels;
  return `${sample.name}\u0000${engine}\u0000${model}\u0000${source}`;
}

function counterValues(byName: ByName): Map<string, number> {
  const values = new Map<string, number>();
  for (const names of [PREFIX_QUERIES, PREFIX_HITS, EXTERNAL_QUERIES, EXTERNAL_HITS, PROMPT_TOKENS, GENERATION_TOKENS, [BY_SOURCE], NIXL_BYTES, NIXL_TRANSFERS]) {
    for (const name of names) {
      for (const sample of byName.get(name) ?? []) if (Number.isFinite(sample.value)) values.set(seriesKey(sample), sample.value);
    }
  }
  return values;
}

/**
 * Growth since the last scrape over all series of the first name present. A value that fell, or whose rank began anew since,
 * was reset: it grew from 0.
 * @param source only series with this `source` label.
 */
function increaseOf(byName: ByName, names: readonly string[], last: Counters, source?: string): number | undefined {
  let total: number | undefined;
  for (const sample of firstPresent(byName, names)) {
    if (source !== undefined && sample.labels['source'] !== source) continue;
    const before = last.values.get(seriesKey(sample));
    const { engine = '' } = sample.labels;
    const [began, beganBefore] = [byName.get(CREATED)?.find(({ labels }) => (labels['engine'] ?? '') === engine)?.value, last.createdAtS.get(engine)];
    // A series seen for the first time says nothing about the time between the scrapes.
    if (before === undefined || !Number.isFinite(sample.value)) continue;
    const isReset = sample.value < before || (began !== undefined && beganBefore !== undefined && began !== beganBefore);
    total = (total ?? 0) + (isReset ? sample.value : sample.value - before);
  }
  return total;
}

function firstPresent(byName: ByName, names: readonly string[]): readonly MetricSample[] {
  for (const name of names) {
    const samples = byName.get(name);
    if (samples !== undefined) return samples;
  }
  return [];
}

function sum(byName: ByName, name: string, where: Readonly<Record<string, string>> = {}): number | undefined {
  let total: number | undefined;
  for (const sample of byName.get(name) ?? []) {
    if (!Number.isFinite(sample.value)) continue;
    if (Object.entries(where).some(([label, value]) => sample.labels[label] !== value)) continue;
    total = (total ?? 0) + sample.value;
  }
  return total;
}

/** Labels that do not begin at 0 are one rank of a larger engine, each with an address of its own. */
function dpRanks(byName: ByName): number | undefined {
  const engines = new Set((byName.get(RUNNING) ?? []).map((sample) => sample.labels['engine']));
  if (engines.size < 2 || engines.size > MAX_RANKS) return undefined;
  for (let rank = 0; rank < engines.size; rank += 1) if (!engines.has(String(rank))) return undefined;
  return engines.size;
}

/** The label is the data-parallel index over all nodes, as the rank that KV events are stamped with (vllm/v1/engine/core_client.py, engine_ranks_managed). */
function firstRank(byName: ByName): number | undefined {
  const ranks = Array.from(new Set((byName.get(RUNNING) ?? []).map((sample) => sample.labels['engine'])), (engine) => (engine !== undefined && /^\d{1,6}$/.test(engine) ? Number(engine) : Number.NaN)).toSorted((a, b) => a - b);
  const [first] = ranks;
  return first !== undefined && ranks.every((rank, at) => rank === first + at) ? first : undefined;
}

function ratio(part: number | undefined, whole: number | undefined): number | undefined {
  if (part === undefined || whole === undefined || whole <= 0) return undefined;
  return Math.min(1, part / whole);
}

interface CacheConfig {
  readonly blockSize: number | undefined;
  readonly gpuBlocks: number | undefined;
  readonly blocksByEngine: ReadonlyMap<string, number>;
}

function cacheConfig(samples: readonly MetricSample[]): CacheConfig {
  const blocksByEngine = new Map<string, number>();
  let blockSize: number | undefined;
  for (const sample of samples) {
    blockSize ??= positiveInteger(sample.labels['block_size']);
    const blocks = positiveInteger(sample.labels['num_gpu_blocks']);
    if (blocks !== undefined) blocksByEngine.set(sample.labels['engine'] ?? '', blocks);
  }
  let gpuBlocks: number | undefined;
  for (const blocks of blocksByEngine.values()) gpuBlocks = (gpuBlocks ?? 0) + blocks;
  return { blockSize, gpuBlocks, blocksByEngine };
}

/** Label values are Python reprs: `None` and `null` mean that the engine does not know. */
function positiveInteger(text: string | undefined): number | undefined {
  return text !== undefined && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined;
}

/** Share of all ranks' blocks in use: ranks are weighted by their block counts where these are known, else equally. */
function kvUsage(byName: ByName, blocksByEngine: ReadonlyMap<string, number>): number | undefined {
  const samples = firstPresent(byName, KV_USAGE).filter((sample) => Number.isFinite(sample.value));
  if (samples.length === 0) return undefined;
  const weights = samples.map((sample) => blocksByEngine.get(sample.labels['engine'] ?? ''));
  const areKnown = weights.every((weight) => weight !== undefined);
  let used = 0;
  let whole = 0;
  for (const [index, sample] of samples.entries()) {
    const weight = areKnown ? (weights[index] ?? 1) : 1;
    used += sample.value * weight;
    whole += weight;
  }
  return used / whole;
}

function named<K extends string>(key: K, value: number | undefined): { readonly [P in K]?: number } {
  return value === undefined ? {} : ({ [key]: value } as { readonly [P in K]?: number });
}

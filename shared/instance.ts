import { z } from 'zod';
import type { InstanceId, StreamId } from './ids.ts';
import type { Quantiles } from './quantiles.ts';
import { RoleSchema, type Role } from './vocabulary.ts';

export const INSTANCE_STATES = ['starting', 'up', 'down', 'draining', 'disabled'] as const;
/** `starting`: not probed yet. `disabled`: kept, but takes no new requests. A failed instance is `down`, never deleted. */
export type InstanceState = (typeof INSTANCE_STATES)[number];

export const BREAKER_STATES = ['closed', 'open'] as const;
/** `open`: consecutive failures took the instance out of scheduling until a health probe succeeds. */
export type BreakerState = (typeof BREAKER_STATES)[number];

/** Data-parallel ranks of one instance, whoever says how many: each has accounts and a socket of its own. */
export const MAX_RANKS = 1024;
const RANKS_RULE = `must be from 1 to ${MAX_RANKS}`;

/** Bytes of KV cache that a token takes, over all layers and tensor-parallel ranks of an instance; the largest models stay below this. */
export const KvBytesPerTokenSchema = z.number().int().min(1).max(64 * 1024 * 1024);

/** Engines are other processes: what ZeroMQ calls inproc does not reach them. */
const EngineEndpointSchema = z.string().regex(/^(tcp|ipc):\/\/.+/, 'must start with tcp:// or ipc://');

/** Where one instance publishes KV-cache events. vLLM: PUB socket at port + data-parallel rank. */
export const KvEventsConfigSchema = z.strictObject({
  /** ZMQ endpoint of rank 0, e.g. `tcp://10.0.0.1:5557`. `tcp` ranks use port + rank. */
  endpoint: EngineEndpointSchema,
  /** ROUTER endpoint for replay, rank 0. Default: none. */
  replayEndpoint: EngineEndpointSchema.optional(),
  /** Byte-prefix filter on frame 0. Default '' = everything. */
  topic: z.string().default(''),
  /** Data-parallel ranks to subscribe to. Default 1. */
  ranks: z.number().int().min(1, RANKS_RULE).max(MAX_RANKS, RANKS_RULE).default(1),
  /** `bind` for engines whose PUB connects (an endpoint without `*`). Default `connect`. */
  mode: z.enum(['connect', 'bind']).default('connect'),
});
export type KvEventsConfig = z.infer<typeof KvEventsConfigSchema>;

/** What a person or a config file gives to add an instance. */
export const InstanceSpecSchema = z.strictObject({
  role: RoleSchema,
  /** `host:port` or `http(s)://host:port`; IPv6 in brackets. Parsed and normalised by the fleet. */
  url: z.string().min(1).max(2048),
  /** Short display name. Default: P0, D1, E2, B3 by role and order. */
  name: z.string().min(1).max(32).optional(),
  kvEvents: KvEventsConfigSchema.optional(),
  /** Data-parallel ranks behind this address. Default: discovered (`/server_info`, `/metrics`), else 1. */
  dpSize: z.number().int().min(1).max(MAX_RANKS).optional(),
  /** Mooncake bootstrap server of a prefill instance, on the instance's host. Default: the protocol's setting. */
  bootstrapPort: z.number().int().min(1).max(65_535).optional(),
  /** Turns blocks into bytes. Default: worked out from `/server_info`, else measured by NIXL transfers, else sizes stay unknown. */
  kvBytesPerToken: KvBytesPerTokenSchema.optional(),
});
export type InstanceSpec = z.infer<typeof InstanceSpecSchema>;

/** The last scrape of `/metrics`, reduced. Every field is absent when the engine did not expose it. */
export interface EngineGauges {
  readonly scrapedAtUnixMs: number;
  readonly running?: number;
  readonly waiting?: number;
  /** Requests waiting for remote KV or another deferral (`num_requests_waiting_by_reason{reason="deferred"}`). */
  readonly waitingDeferred?: number;
  /** 0..1 (`kv_cache_usage_perc`). */
  readonly kvUsage?: number;
  readonly blockSize?: number;
  readonly gpuBlocks?: number;
  /** Data-parallel ranks, when the `engine` labels count up from 0 and there are several. */
  readonly dpRanks?: number;
  /** The lowest `engine` label, when the labels count up: above 0, the instance is another node than the first of its deployment, or one rank of it. */
  readonly firstRank?: number;
  /** Token-weighted, between the last two scrapes that saw queries; 0..1. */
  readonly prefixHitRate?: number;
  readonly externalHitRate?: number;
  readonly promptTokensPerSecond?: number;
  readonly generationTokensPerSecond?: number;
  readonly preemptions?: number;
  /** Totals since engine start (`prompt_tokens_by_source_total`). */
  readonly promptTokensBySource?: {
    readonly localCompute?: number;
    readonly localCacheHit?: number;
    readonly externalKvTransfer?: number;
  };
  /** For `cache.hits`. */
  readonly cacheTokens?: EngineCacheTokens;
  readonly kvTransfers?: EngineKvTransfers;
  readonly nixlExpired?: number;
  readonly nixlFailedTransfers?: number;
}

/**
 * Growth of the engine's cache counters since pdscope began to scrape it, tokens over all ranks; resets of the counters
 * do not show. Absent: not exposed, or not scraped twice yet.
 */
export interface EngineCacheTokens {
  readonly prefixQueries?: number;
  readonly prefixHits?: number;
  readonly externalQueries?: number;
  readonly externalHits?: number;
  readonly localCompute?: number;
  readonly localCacheHit?: number;
  readonly externalKvTransfer?: number;
}

/**
 * What NIXL moved (`nixl_bytes_transferred`), as growth since pdscope began to scrape, over all ranks. An engine counts the
 * transfers that it issues: with pull the decode instance, with push the prefill instance. One request is one transfer per
 * tensor-parallel rank. Absent: not exposed (other connectors, the Rust frontend), or not scraped twice yet.
 */
export interface EngineKvTransfers {
  readonly bytes: number;
  readonly transfers: number;
}

/** Per-instance latency as pdscope observed it, last five minutes. Milliseconds. */
export interface InstanceLatency {
  /** Prefill leg: request sent to response complete. */
  readonly prefillMs?: Quantiles;
  /** Decode leg: client request received to first chunk (design vocabulary: TTFT). */
  readonly ttftMs?: Quantiles;
  readonly itlMs?: Quantiles;
  readonly tpotMs?: Quantiles;
  readonly e2elMs?: Quantiles;
}

/** What the engine says about its KV transfer (`/server_info`, development mode only). Absent = not said. */
export interface TransferFacts {
  /** `kv_connector`, e.g. `NixlConnector`. */
  readonly kvConnector?: string;
  /** `kv_producer`, `kv_consumer` or `kv_both`. */
  readonly kvRole?: string;
  /** Without the `_dp<rank>` that engine processes append. */
  readonly engineId?: string;
  readonly loadFailurePolicy?: string;
  readonly tpSize?: number;
  readonly ppSize?: number;
  readonly blockSize?: number;
  /** Worked out from the model's and the cache's configuration, where they say enough. */
  readonly kvBytesPerToken?: number;
  /** `kv_connector_extra_config`. */
  readonly extraConfig?: Readonly<Record<string, unknown>>;
}

/** One data-parallel rank, as far as pdscope addressed it. */
export interface RankView {
  readonly rank: number;
  readonly inFlight: number;
  readonly latency: InstanceLatency;
}

export interface InstanceView {
  readonly id: InstanceId;
  readonly name: string;
  readonly role: Role;
  /** Origin, e.g. `http://10.0.0.1:8100`. */
  readonly url: string;
  readonly isSimulated: boolean;
  readonly state: InstanceState;
  /** Why the state is what it is, in words; absent when there is nothing to say. */
  readonly stateReason?: string;
  readonly stateSinceUnixMs: number;
  readonly breaker: BreakerState;
  readonly consecutiveFailures: number;
  readonly models: readonly string[];
  readonly version?: string;
  /** Data-parallel ranks, and where the number comes from. */
  readonly dpSize: number;
  readonly dpSizeSource: 'given' | 'server_info' | 'metrics' | 'registration' | 'default';
  /** Only when there are several. */
  readonly ranks?: readonly RankView[];
  readonly transfer?: TransferFacts;
  readonly bootstrapPort?: number;
  /** As given with the instance. */
  readonly kvBytesPerToken?: number;
  /** Joined by itself, through a connector's registration. */
  readonly registeredBy?: 'moriio';
  readonly inFlight: number;
  readonly served: number;
  readonly failed: number;
  readonly engine?: EngineGauges;
  readonly scrapeError?: string;
  readonly latency: InstanceLatency;
  /** Streamed output events per second, last 10 s; prefill: prompt tokens/s as reported by responses. */
  readonly tokensPerSecond?: number;
  readonly errors5m: number;
  readonly kvEvents?: KvEventsConfig;
  readonly streams: readonly StreamId[];
}

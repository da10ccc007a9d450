/**
 * The operations registry: every command and query that a person can give, with the schema of its input. One table
 * drives the buttons, the command palette, the HTTP control API and the command line.
 * Inputs are validated where they enter the engine; outputs are the engine's own objects and are typed only.
 */
import { z } from 'zod';
import type {
  BlockDetail, CacheDifference, CacheHits, EvictionStorms, MissReport, MissSummary, RawFrames, ResidencyMap, TreePage, TreeSearch,
} from './cache.ts';
import type { FindingsPage } from './findings.ts';
import { InstanceIdSchema, RecordIdSchema, StreamIdSchema, type InstanceId, type StreamId } from './ids.ts';
import { InstanceSpecSchema, type InstanceView } from './instance.ts';
import type { KvNotes } from './kv-notes.ts';
import type { KvBlockView, ResidentCount } from './kv.ts';
import { ProtocolChangeSchema, type ConnectorStatus, type ProtocolSettings } from './protocol.ts';
import type { Quantiles } from './quantiles.ts';
import type { RequestDetail } from './request.ts';
import type { EngineState } from './state.ts';
import { ConnectorNameSchema, PolicyNameSchema } from './vocabulary.ts';

/** What probing an address found out, before anything joins. */
export interface ProbeResult {
  readonly url: string;
  readonly isReachable: boolean;
  readonly isHealthy: boolean;
  readonly models: readonly string[];
  readonly version?: string;
  readonly maxModelLen?: number;
  readonly roundTripMs?: number;
  /** Why it cannot join, in words that say what to do; absent when it can. */
  readonly problem?: string;
  /** True when `force` overrides `problem` (another model, unhealthy). */
  readonly canForce: boolean;
}

export const SERIES_METRICS = [
  'prefillMs', 'ttftMs', 'itlMs', 'tpotMs', 'e2elMs', 'inFlight', 'tokensPerSecond', 'errors', 'requests', 'kvUsage',
] as const;
export type SeriesMetric = (typeof SERIES_METRICS)[number];

/** One instance's series. Distributions carry p50/p95/p99 and n; gauges carry `value`. A step without samples is absent. */
export interface SeriesPoint {
  readonly atUnixMs: number;
  readonly value?: number;
  readonly n?: number;
  readonly p50?: number;
  readonly p95?: number;
  readonly p99?: number;
}
export interface Series {
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly metric: SeriesMetric;
  /** Over the whole window, merged; absent without samples. */
  readonly whole?: Quantiles;
  readonly points: readonly SeriesPoint[];
}

export interface ResidentPage {
  readonly blocks: readonly KvBlockView[];
  readonly matching: number;
  readonly total: number;
  readonly byStream: readonly { readonly stream: StreamId; readonly instanceName: string; readonly resident: readonly ResidentCount[] }[];
  /** Blocks not tracked because the table was full. */
  readonly evicted: number;
}

/** Faults of a simulated instance, on demand. */
export const SIM_FAULTS = [
  'none', 'refuse', 'hang', 'slow', 'error-400', 'error-500', 'reset', 'reset-mid-stream', 'empty-200', 'event-gap', 'restart', 'drop-lease', 'wrong-cached-tokens',
] as const;
export type SimFault = (typeof SIM_FAULTS)[number];

/** What one instance said to a call made to many. */
export interface InstanceAnswer {
  readonly instance: InstanceId;
  readonly name: string;
  readonly url: string;
  /** `unsupported`: the engine has no such route (404): no profiler is configured. */
  readonly outcome: 'ok' | 'unsupported' | 'failed';
  readonly status?: number;
  readonly message?: string;
}

const ofInstances = z.strictObject({
  /** Default: all instances. */
  ids: z.array(InstanceIdSchema).max(1024).optional(),
});

const byId = z.strictObject({ id: InstanceIdSchema });

/** Input schemas by operation name. What they do not know is refused: a misspelt key would be lost in silence. */
export const OPERATION_INPUTS = {
  'state.get': z.strictObject({}),
  'instance.probe': InstanceSpecSchema,
  'instance.add': InstanceSpecSchema.extend({ force: z.boolean().default(false) }),
  'instance.drain': byId.extend({
    /** Remove once empty. Default true. */
    thenRemove: z.boolean().default(true),
  }),
  'instance.enable': byId,
  'instance.disable': byId,
  'instance.remove': byId.extend({
    /** Remove even while requests are in flight (they are cancelled). Default false: refused with the count. */
    force: z.boolean().default(false),
  }),
  'policy.set': z.strictObject({ policy: PolicyNameSchema }),
  'connector.set': z.strictObject({ connector: ConnectorNameSchema }),
  'connector.status': z.strictObject({}),
  'protocol.set': ProtocolChangeSchema,
  'capture.set': z.strictObject({ isOn: z.boolean() }),
  'explain.set': z.strictObject({ isOn: z.boolean() }),
  'profile.start': ofInstances,
  'profile.stop': ofInstances,
  'findings.list': z.strictObject({
    /** Dismissed ones too. Default false. */
    all: z.boolean().default(false),
    instance: InstanceIdSchema.optional(),
  }),
  'findings.dismiss': z.strictObject({ id: z.string().min(1).max(256) }),
  'findings.restore': z.strictObject({ id: z.string().min(1).max(256) }),
  'findings.clear': z.strictObject({}),
  'requests.get': z.strictObject({ id: RecordIdSchema }),
  'requests.clear': z.strictObject({}),
  'kv.blocks': z.strictObject({
    stream: StreamIdSchema.optional(),
    medium: z.string().max(64).optional(),
    /** Hex prefix of a block hash. */
    hash: z.string().regex(/^[0-9a-fA-F]*$/).max(128).optional(),
    limit: z.number().int().min(1).max(2000).default(200),
  }),
  'kv.rates': z.strictObject({}),
  'kv.notes': z.strictObject({ stream: StreamIdSchema }),
  'kv.clear': z.strictObject({}),
  /** The raw frames of the message that a row of the KV events view came from. */
  'kv.frames': z.strictObject({ n: z.number().int().min(1) }),
  'cache.hits': z.strictObject({
    windowS: z.number().int().min(10).max(900).default(300),
    stepS: z.number().int().min(1).max(60).default(5),
  }),
  'cache.residency': z.strictObject({ cells: z.number().int().min(16).max(8192).default(2048) }),
  'cache.tree': z.strictObject({
    /** Default: the top. */
    node: z.number().int().min(0).optional(),
    instance: InstanceIdSchema.optional(),
    orderBy: z.enum(['blocks', 'reuse', 'recent']).default('blocks'),
    limit: z.number().int().min(1).max(500).default(100),
  }),
  'cache.search': z.strictObject({
    /** Text is tokenised by an instance; either this or tokens. */
    text: z.string().min(1).max(100_000).optional(),
    tokens: z.array(z.number().int().min(0)).min(1).max(10_000).optional(),
    limit: z.number().int().min(1).max(200).default(50),
  }),
  'cache.difference': z.strictObject({
    /** Default: prefill instances on the left, decode instances on the right. */
    left: z.array(InstanceIdSchema).max(256).optional(),
    right: z.array(InstanceIdSchema).max(256).optional(),
    /** For what was transferred; what is held is of now. */
    windowS: z.number().int().min(10).max(900).default(300),
  }),
  'cache.storms': z.strictObject({
    windowS: z.number().int().min(10).max(3600).default(300),
    /** Evicted and needed again within this time counts. */
    withinS: z.number().int().min(1).max(600).default(30),
  }),
  'cache.block': z.strictObject({
    node: z.number().int().min(0).optional(),
    stream: StreamIdSchema.optional(),
    hash: z.string().regex(/^[0-9a-fA-F]+$/).max(128).optional(),
  }),
  'requests.why': z.strictObject({ id: RecordIdSchema }),
  'cache.misses': z.strictObject({ windowS: z.number().int().min(10).max(900).default(300) }),
  'series.query': z.strictObject({
    metrics: z.array(z.enum(SERIES_METRICS)).min(1).max(10),
    instances: z.array(InstanceIdSchema).max(256).optional(),
    /** How far back, seconds. */
    windowS: z.number().int().min(10).max(900).default(300),
    /** Bucket length, seconds. */
    stepS: z.number().int().min(1).max(60).default(2),
  }),
  'sim.fault': byId.extend({
    fault: z.enum(SIM_FAULTS),
    /** Batches to skip (`event-gap`), delay factor (`slow`). Default by fault. */
    amount: z.number().positive().max(1e6).optional(),
  }),
  'sim.traffic': z.strictObject({ requestsPerSecond: z.number().min(0).max(2000) }),
} as const;

export type OperationName = keyof typeof OPERATION_INPUTS;
export type OperationInput<N extends OperationName> = z.input<(typeof OPERATION_INPUTS)[N]>;
export type ParsedOperationInput<N extends OperationName> = z.output<(typeof OPERATION_INPUTS)[N]>;

export interface OperationOutputs {
  'state.get': EngineState;
  'instance.probe': ProbeResult;
  'instance.add': InstanceView;
  'instance.drain': InstanceView;
  'instance.enable': InstanceView;
  'instance.disable': InstanceView;
  'instance.remove': { readonly removed: InstanceId; readonly cancelled: number };
  'policy.set': { readonly policy: string };
  'connector.set': { readonly connector: string };
  'connector.status': ConnectorStatus;
  'protocol.set': ProtocolSettings;
  'profile.start': { readonly answers: readonly InstanceAnswer[] };
  'profile.stop': { readonly answers: readonly InstanceAnswer[] };
  'findings.list': FindingsPage;
  'findings.dismiss': { readonly id: string };
  'findings.restore': { readonly id: string };
  'findings.clear': { readonly cleared: number };
  'capture.set': { readonly isOn: boolean };
  'explain.set': { readonly isOn: boolean };
  'requests.get': RequestDetail;
  'requests.clear': { readonly cleared: number };
  'kv.blocks': ResidentPage;
  /** Whole steps of `stepS` seconds, oldest first, the newest at the end; fewer where a stream is not watched for two minutes yet; null where it was not connected throughout. */
  'kv.rates': { readonly stepS: number; readonly streams: readonly { readonly stream: StreamId; readonly perSecond: readonly (number | null)[] }[] };
  'kv.notes': KvNotes;
  'kv.clear': { readonly cleared: number };
  'kv.frames': RawFrames;
  'cache.hits': CacheHits;
  'cache.residency': ResidencyMap;
  'cache.tree': TreePage;
  'cache.search': TreeSearch;
  'cache.difference': CacheDifference;
  'cache.storms': EvictionStorms;
  'cache.block': BlockDetail;
  'requests.why': MissReport;
  'cache.misses': MissSummary;
  'series.query': { readonly nowUnixMs: number; readonly windowS: number; readonly stepS: number; readonly series: readonly Series[] };
  'sim.fault': { readonly instance: InstanceId; readonly fault: SimFault };
  'sim.traffic': { readonly requestsPerSecond: number };
}

export interface OperationInfo {
  readonly title: string;
  /** `query` changes nothing; `destructive` is confirmed once by whoever drives it. */
  readonly kind: 'query' | 'command' | 'destructive';
  readonly summary: string;
}

/** What each operation is called and does, for palettes and help. */
export const OPERATION_INFO: Readonly<Record<OperationName, OperationInfo>> = {
  'state.get': { title: 'Engine state', kind: 'query', summary: 'All gauges of the engine, fleet and streams.' },
  'instance.probe': { title: 'Probe instance', kind: 'query', summary: 'Ask an address for health, models and version without adding it.' },
  'instance.add': { title: 'Add instance', kind: 'command', summary: 'Probe an instance and let it join the fleet.' },
  'instance.drain': { title: 'Drain instance', kind: 'command', summary: 'Send no new requests, wait for those in flight, then remove.' },
  'instance.enable': { title: 'Enable instance', kind: 'command', summary: 'Take new requests again (also stops a drain).' },
  'instance.disable': { title: 'Disable instance', kind: 'command', summary: 'Keep the instance but send it no new requests.' },
  'instance.remove': { title: 'Remove instance', kind: 'destructive', summary: 'Take the instance out; refused while requests are in flight unless forced.' },
  'policy.set': { title: 'Set policy', kind: 'command', summary: 'Choose how instances are picked, for new requests.' },
  'connector.set': { title: 'Set connector', kind: 'command', summary: 'Choose the P/D protocol, for new requests.' },
  'connector.status': { title: 'Connector status', kind: 'query', summary: 'What the P/D protocol in force keeps: conversations, bootstrap entries, registrations.' },
  'protocol.set': { title: 'Set protocol settings', kind: 'command', summary: 'Blocking of fatal parameters, re-emitted streams, encode stage; for new requests.' },
  'profile.start': { title: 'Start profiling', kind: 'command', summary: 'POST /start_profile to all instances, or those named.' },
  'profile.stop': { title: 'Stop profiling', kind: 'command', summary: 'POST /stop_profile to all instances, or those named.' },
  'findings.list': { title: 'Findings', kind: 'query', summary: 'What pdscope concluded, with evidence and next steps.' },
  'findings.dismiss': { title: 'Dismiss finding', kind: 'command', summary: 'Hide a finding until it gets worse, or is seen again after 8 hours.' },
  'findings.restore': { title: 'Bring back finding', kind: 'command', summary: 'Open a dismissed finding again.' },
  'findings.clear': { title: 'Clear findings', kind: 'destructive', summary: 'Forget all findings.' },
  'explain.set': { title: 'Explain misses', kind: 'command', summary: 'Ask an instance for the tokens of new prompts, to tell why they missed; prompts are kept until then, and the latest of those that nobody was asked for.' },
  'capture.set': { title: 'Capture bodies', kind: 'command', summary: 'Keep request and response bodies of new requests (capped).' },
  'requests.get': { title: 'Request detail', kind: 'query', summary: 'Everything recorded about one request.' },
  'requests.clear': { title: 'Clear requests', kind: 'destructive', summary: 'Forget all finished request records.' },
  'kv.blocks': { title: 'Resident blocks', kind: 'query', summary: 'Blocks resident per stream and medium.' },
  'kv.rates': { title: 'Rates of streams', kind: 'query', summary: 'Events per second of every stream over the last two minutes.' },
  'kv.notes': { title: 'Notes of a stream', kind: 'query', summary: 'When a KV-event stream last connected, missed batches, restarted or was cleared, and what came of it.' },
  'kv.clear': { title: 'Clear KV events', kind: 'destructive', summary: 'Forget the listed KV events (not the resident blocks).' },
  'kv.frames': { title: 'Raw frames', kind: 'query', summary: 'The frames that a KV event came in, as hex and decoded.' },
  'cache.hits': { title: 'Cache hits', kind: 'query', summary: 'Hit rates over time, by source, and where sources disagree.' },
  'cache.residency': { title: 'Residency map', kind: 'query', summary: 'Blocks of every instance with age, reuse and owners.' },
  'cache.tree': { title: 'Prefix tree', kind: 'query', summary: 'Blocks of all instances by content.' },
  'cache.search': { title: 'Search prefix', kind: 'query', summary: 'Find text or token ids at the start of prompts, else inside them.' },
  'cache.difference': { title: 'P-vs-D difference', kind: 'query', summary: 'What prefill and decode instances hold of the same content.' },
  'cache.storms': { title: 'Eviction storms', kind: 'query', summary: 'Blocks evicted and needed again shortly after.' },
  'cache.block': { title: 'Block detail', kind: 'query', summary: 'Tokens, neighbours, holders and history of a block.' },
  'requests.why': { title: 'Why a miss', kind: 'query', summary: 'Which blocks of a prompt were found, and why the others were not.' },
  'cache.misses': { title: 'Causes of misses', kind: 'query', summary: 'Missed tokens of recent requests by cause.' },
  'series.query': { title: 'Time series', kind: 'query', summary: 'Merged per-instance series of the last 15 minutes.' },
  'sim.fault': { title: 'Inject fault', kind: 'command', summary: 'Make a simulated instance misbehave.' },
  'sim.traffic': { title: 'Set demo traffic', kind: 'command', summary: 'Offered load of the demo, requests per second.' },
};

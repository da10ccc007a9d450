import type { FindingsSummary } from './findings.ts';
import type { InstanceId } from './ids.ts';
import type { InstanceView } from './instance.ts';
import type { KvStreamView } from './kv.ts';
import type { ProtocolSettings } from './protocol.ts';
import type { Quantiles } from './quantiles.ts';
import type { ConnectorName, PolicyName, Role } from './vocabulary.ts';

/** Requests handed from one instance to the next over the last 10 s, for the topology. */
export interface FlowEdge {
  /** `proxy` or an instance. */
  readonly from: InstanceId | 'proxy';
  readonly to: InstanceId;
  readonly requestsPerSecond: number;
}

/** Every ring's honest counters. */
export interface RingCounters {
  readonly kept: number;
  readonly capacity: number;
  readonly total: number;
  readonly evicted: number;
  /** Never entered the ring because the engine was overloaded. */
  readonly dropped: number;
}

export interface SimulationView {
  readonly isRunning: boolean;
  /** Offered load, requests per second. */
  readonly requestsPerSecond: number;
  readonly faults: readonly { readonly instance: InstanceId; readonly fault: string }[];
}

/** The gauges of the whole engine: conflated, sent whole a few times a second. */
export interface EngineState {
  readonly version: string;
  readonly host: 'headless' | 'desktop';
  readonly startedAtUnixMs: number;
  readonly nowUnixMs: number;
  /** Base URL for clients, e.g. `http://127.0.0.1:8000/v1`; absent when the proxy is not listening. */
  readonly proxyUrl?: string;
  readonly connector: ConnectorName;
  /** The policy of each leg's role. */
  readonly policy: PolicyName;
  readonly protocol: ProtocolSettings;
  readonly findings: FindingsSummary;
  readonly hasAdminKey: boolean;
  /** Whether bodies of new requests are kept (`capture.set`). */
  readonly isCapturing: boolean;
  /** Whether new requests are explained (`explain.set`). */
  readonly isExplaining?: boolean;
  /** Requests that nobody can have explained: their prompts were too large, too many waited, or they gave way to newer ones. */
  readonly unexplained?: number;
  readonly process: {
    readonly rssBytes: number;
    readonly heapBytes: number;
    /** Share of one core since the last state, 0..n. */
    readonly cpu: number;
    /** p99 event-loop delay since the last state, ms. */
    readonly loopDelayP99Ms: number;
  };
  readonly totals: {
    readonly received: number;
    readonly running: number;
    readonly ok: number;
    readonly error: number;
    readonly aborted: number;
    readonly retries: number;
    readonly requestsPerSecond: number;
    /** Output chunks per second over all decode legs. */
    readonly chunksPerSecond: number;
    readonly errors5m: number;
    readonly retries5m: number;
    readonly kvEventsPerSecond: number;
  };
  /** Fleet-wide latency, last five minutes, merged from histograms (not averaged). */
  readonly latency: {
    readonly prefillMs?: Quantiles;
    readonly handoffMs?: Quantiles;
    readonly ttftMs?: Quantiles;
    readonly itlMs?: Quantiles;
    readonly tpotMs?: Quantiles;
    readonly e2elMs?: Quantiles;
    /** Time pdscope itself added before the first byte: received to leg sent, plus handoff. */
    readonly addedMs?: Quantiles;
  };
  /** Prompt tokens of the last five minutes and how many of them prefill legs reported as cached. Absent when no leg reported. */
  readonly promptTokens5m?: number;
  readonly cachedTokens5m?: number;
  readonly instances: readonly InstanceView[];
  readonly streams: readonly KvStreamView[];
  readonly edges: readonly FlowEdge[];
  readonly rings: { readonly requests: RingCounters; readonly kv: RingCounters };
  /** Telemetry samples dropped to protect the hot path. */
  readonly telemetryDropped: number;
  /** Present in demo mode. */
  readonly simulation?: SimulationView;
}

/** Short display name prefix by role. */
export const ROLE_PREFIX: Readonly<Record<Role, string>> = { encode: 'E', prefill: 'P', decode: 'D', both: 'B' };

import type { Severity, Verdict } from './findings.ts';
import type { InstanceId, RecordId } from './ids.ts';
import type { ConnectorName, LegKind, Phase, PolicyName, RecordedApi } from './vocabulary.ts';

export const REQUEST_STATES = ['running', 'ok', 'error', 'aborted'] as const;
/** `aborted`: the client went away. `error`: the client got an error status or a broken stream. */
export type RequestState = (typeof REQUEST_STATES)[number];

/** One interval of a request, milliseconds from `received`. */
export interface PhaseSpan {
  readonly phase: Phase;
  readonly startMs: number;
  readonly endMs: number;
  /** True when both ends were observed in one process; false = an upper bound, drawn hatched. */
  readonly isExact: boolean;
}

export interface RouteStep {
  readonly kind: LegKind;
  readonly instance: InstanceId;
  readonly name: string;
  /** Data-parallel rank the leg was pinned to. */
  readonly rank?: number;
}

export interface RequestError {
  readonly message: string;
  /** The leg that failed; absent when pdscope itself refused the request. */
  readonly leg?: LegKind;
  readonly instance?: InstanceId;
  readonly instanceName?: string;
  /** Stable code, e.g. `upstream_status`, `upstream_reset`, `connect_failed`, `headers_timeout`, `idle_timeout`, `no_instance`. */
  readonly code: string;
}

/** Token counts as a leg reported them. Absent = not reported. */
export interface LegUsage {
  readonly promptTokens?: number;
  readonly completionTokens?: number;
  readonly cachedTokens?: number;
}

/** One line of the Requests view. */
export interface RequestRow {
  readonly id: RecordId;
  /** Running number since engine start, 1-based. */
  readonly n: number;
  /** X-Request-Id: the client's or pdscope's. */
  readonly requestId: string;
  readonly receivedAtUnixMs: number;
  readonly api: RecordedApi;
  /** Path of a `forward` request. */
  readonly path?: string;
  readonly model?: string;
  readonly isStream: boolean;
  readonly connector: ConnectorName;
  readonly state: RequestState;
  /** HTTP status the client got; absent until known. */
  readonly status?: number;
  readonly route: readonly RouteStep[];
  readonly promptTokens?: number;
  /** Prompt tokens that prefill found in its cache, as the prefill leg reported them. */
  readonly cachedTokens?: number;
  readonly completionTokens?: number;
  readonly chunks: number;
  readonly requestBytes: number;
  readonly responseBytes: number;
  readonly prefillMs?: number;
  readonly handoffMs?: number;
  readonly ttftMs?: number;
  /** Median gap between chunks. */
  readonly itlMs?: number;
  readonly tpotMs?: number;
  readonly e2elMs?: number;
  readonly retries: number;
  readonly error?: RequestError;
  readonly phases: readonly PhaseSpan[];
  /** Verdicts on this request; absent when there is none. */
  readonly findings?: { readonly count: number; readonly worst: Severity };
  readonly isSimulated: boolean;
  /** Sent by pdscope itself (probe, demo traffic is NOT: it goes through the proxy as a client). */
  readonly isOwnProbe: boolean;
}

/** The engine's own timings of one leg (`--enable-per-request-metrics`), milliseconds. */
export interface EngineRequestMetrics {
  readonly queueMs?: number;
  /** From scheduled, not from arrival: excludes the queue. */
  readonly timeToFirstTokenMs?: number;
  readonly generationMs?: number;
  readonly meanItlMs?: number;
}

/** Instance gauges at the moment a leg was sent, from the last scrape and pdscope's own counter. */
export interface GaugesAtSend {
  readonly inFlight: number;
  readonly scrapeAgeMs?: number;
  readonly running?: number;
  readonly waiting?: number;
  readonly kvUsage?: number;
}

export interface CandidateScore {
  readonly instance: InstanceId;
  readonly name: string;
  /** Lower is better; absent when the policy does not score (round robin, random). */
  readonly score?: number;
  /** What the score is made of, in words, e.g. `3 in flight`. */
  readonly reason: string;
  /** Of the prompt, from its first token on, what the instance held by its KV events; absent when nothing tells. */
  readonly matchedTokens?: number;
  readonly matchedBlocks?: number;
  /** How far its KV events could be trusted, 0..1. */
  readonly confidence?: number;
}

export interface RoutingDecision {
  readonly kind: LegKind;
  readonly policy: PolicyName;
  readonly chosen: InstanceId;
  /** Data-parallel rank, when the instance has several. */
  readonly rank?: number;
  readonly attempt: number;
  readonly atMs: number;
  readonly candidates: readonly CandidateScore[];
  /** Instances of the role that could not be chosen, and why. */
  readonly excluded: readonly CandidateScore[];
  /** Why the policy could not do what it is for and balanced load instead, in words. */
  readonly degraded?: string;
  /** Tokens of the prompt that matches were counted against, and how they were had. */
  readonly promptTokens?: number;
  readonly tokensFrom?: 'request' | 'render' | 'tokenize';
}

export interface CapturedBody {
  /** UTF-8 text, cut to the capture limit. */
  readonly text: string;
  readonly bytes: number;
  readonly isCut: boolean;
}

/** One upstream call. Times are milliseconds from `received`; a step that was not observed is absent. */
export interface LegView {
  readonly kind: LegKind;
  readonly attempt: number;
  readonly instance: InstanceId;
  readonly instanceName: string;
  /** Data-parallel rank the leg was pinned to with X-data-parallel-rank. */
  readonly rank?: number;
  readonly url: string;
  readonly sentMs: number;
  readonly headersMs?: number;
  readonly firstByteMs?: number;
  readonly endMs?: number;
  readonly status?: number;
  readonly outcome: 'running' | 'ok' | 'error' | 'aborted';
  readonly error?: RequestError;
  readonly requestHeaders: Readonly<Record<string, string>>;
  readonly responseHeaders?: Readonly<Record<string, string>>;
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** Body as sent to this leg; absent unless body capture is on. */
  readonly requestBody?: CapturedBody;
  readonly responseBody?: CapturedBody;
  /** Fields this leg's body changed relative to the client's, e.g. `stream: true -> false`. Values cut to 200 characters. */
  readonly rewrites: readonly { readonly field: string; readonly from?: string; readonly to?: string }[];
  readonly kvTransferParamsSent?: unknown;
  readonly kvTransferParamsReceived?: unknown;
  readonly usage?: LegUsage;
  readonly finishReason?: string;
  readonly engineMetrics?: EngineRequestMetrics;
  readonly gaugesAtSend?: GaugesAtSend;
}

/** Sum that explains the time to first token. `unattributedMs` is what is left and is always shown. */
export interface TtftBreakdown {
  readonly totalMs: number;
  readonly parts: readonly { readonly phase: Phase; readonly ms: number; readonly isExact: boolean }[];
  readonly unattributedMs: number;
}

export interface RequestDetail {
  readonly row: RequestRow;
  readonly traceparent?: string;
  readonly clientHeaders: Readonly<Record<string, string>>;
  readonly clientBody?: CapturedBody;
  readonly parsedMs?: number;
  readonly legs: readonly LegView[];
  readonly decisions: readonly RoutingDecision[];
  /** In the order they were reached. */
  readonly verdicts: readonly Verdict[];
  readonly ttft?: TtftBreakdown;
  /** Arrival of each output chunk, ms from `received`; cut to the last `chunkTimesKept`. */
  readonly chunkTimesMs: readonly number[];
  /** Bytes of each of those chunks. */
  readonly chunkBytes: readonly number[];
  readonly chunkTimesDropped: number;
}

/**
 * What the proxy tells telemetry about one request, step by step. Calls are made on the hot path: an implementation
 * stores a number or a reference and returns; it never throws, never awaits, never serialises.
 * Times are read inside each call from the monotonic clock.
 */
import type { Verdict } from '#shared/findings.ts';
import type { LegUsage, RequestError, RequestState, RoutingDecision } from '#shared/request.ts';
import type { ConnectorName, LegKind, RecordedApi } from '#shared/vocabulary.ts';
import type { Instance } from '../fleet/instance.ts';

export interface RequestInit {
  readonly requestId: string;
  readonly api: RecordedApi;
  /** Of a `forward` request. */
  readonly path?: string;
  readonly connector: ConnectorName;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly traceparent?: string;
}

export interface ParsedInit {
  readonly model?: string;
  readonly isStream: boolean;
  readonly requestBytes: number;
  /** The client's body as received; kept only when capture is on. */
  readonly body: Buffer;
  /** The id in force from now on: a body's own `request_id` replaces the one made up at arrival. */
  readonly requestId?: string;
  /** It asks engines to announce blocks found in their cache (`kv_cache_report_mode`), by the client's wish or pdscope's. Default false. */
  readonly asksForReport?: boolean;
  /** Its prompt is token ids. Default false. */
  readonly hasTokenIds?: boolean;
}

export interface LegInit {
  readonly kind: LegKind;
  readonly instance: Instance;
  /** Data-parallel rank the leg is pinned to. */
  readonly rank?: number;
  readonly attempt: number;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly requestBytes: number;
  /** Body as sent; kept only when capture is on. */
  readonly body: Buffer | string;
  readonly rewrites: readonly { readonly field: string; readonly from?: string; readonly to?: string }[];
  readonly kvTransferParams?: unknown;
}

/** What the connector or the proxy learned from a leg's finished answer. */
export interface LegFacts {
  readonly usage?: LegUsage;
  readonly finishReason?: string;
  readonly kvTransferParams?: unknown;
  /** `metrics` object of the answer (`--enable-per-request-metrics`), as received. */
  readonly metrics?: unknown;
  readonly body?: Buffer | string;
}

export interface LegTrace {
  headers(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void;
  /** Bytes of the answer; the first call marks the first byte. */
  bytes(count: number): void;
  facts(facts: LegFacts): void;
  end(outcome: 'ok' | 'error' | 'aborted', error?: RequestError): void;
}

export interface RequestTrace {
  /** Whether bodies should be handed over (`capture.set`). */
  readonly wantsBodies: boolean;
  parsed(init: ParsedInit): void;
  /** Routing has the prompt's token ids. Not kept with the record: handed to who explains it, if anybody does. */
  prompt(tokens: Uint32Array, from: NonNullable<RoutingDecision['tokensFrom']>): void;
  decided(decision: Omit<RoutingDecision, 'atMs'>): void;
  retried(): void;
  /** A diagnosis about this request. */
  verdict(verdict: Verdict): void;
  leg(init: LegInit): LegTrace;
  /** The status line went out to the client. */
  responded(status: number): void;
  /** Bytes written to the client; `events` = complete SSE events in them (0 for a non-streaming body). */
  chunk(bytes: number, events: number): void;
  end(state: Exclude<RequestState, 'running'>, error?: RequestError): void;
}

export interface Tracer {
  begin(init: RequestInit): RequestTrace;
}

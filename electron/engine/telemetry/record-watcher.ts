/**
 * Told about records as they go on. Called on the hot path, as the trace itself is (trace.ts): an implementation stores
 * a reference and returns.
 */
import type { RoutingDecision } from '#shared/request.ts';
import type { LegRecord, RequestRecord } from './request-record.ts';

export interface RecordWatcher {
  /** The client's body was read. It is the request's own buffer: whoever keeps it bounds what he keeps. */
  onParsed(record: RequestRecord, body: Buffer): void;
  /** Routing had to find out the prompt's token ids; what is kept of them is the watcher's to bound. */
  onTokens(record: RequestRecord, tokens: Uint32Array, from: NonNullable<RoutingDecision['tokensFrom']>): void;
  /** A leg of a request that asks for announcements of reuse (`kv_cache_report_mode`) is about to be sent. */
  onReportAsked(leg: LegRecord): void;
  /** The first byte of a leg's answer came. */
  onAnswered(leg: LegRecord): void;
  /** The request is over; facts of its last leg may still come. */
  onEnded(record: RequestRecord): void;
}

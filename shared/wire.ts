/**
 * The session protocol between an engine host and a renderer, the same over a WebSocket (JSON text) and an Electron
 * MessagePort (structured clone).
 *
 * A subscription answers first with a `snapshot`, then with `delta`s whose `seq` grows by one. A renderer that sees a
 * hole discards and subscribes again, and counts it. A host whose peer is slow does not queue: it skips, and resumes
 * with a fresh `snapshot` whose `skipped` says how many deltas were left out.
 */
import { z } from 'zod';
import type { ErrorBody } from './errors.ts';
import type { KvRow } from './kv.ts';
import type { RequestRow } from './request.ts';
import type { EngineState } from './state.ts';

export const PROTOCOL_VERSION = 1;

export const CHANNELS = ['state', 'requests', 'kv'] as const;
export type Channel = (typeof CHANNELS)[number];

export const ClientMessageSchema = z.discriminatedUnion('t', [
  z.object({ t: z.literal('call'), id: z.number().int(), op: z.string().max(64), input: z.unknown() }),
  z.object({
    t: z.literal('subscribe'),
    sub: z.number().int(),
    channel: z.enum(CHANNELS),
    /** Filter expression (filter.ts); evaluated where the history lives. */
    filter: z.string().max(2000).default(''),
    /** Rows kept by the subscriber; a snapshot never holds more. */
    limit: z.number().int().min(1).max(50_000).default(5000),
  }),
  z.object({ t: z.literal('unsubscribe'), sub: z.number().int() }),
]);
export type ClientMessage = z.input<typeof ClientMessageSchema>;

/** Counters of the same instant as the rows beside them. */
export interface RowCounters {
  /** Rows ever recorded. */
  readonly total: number;
  /** Rows now in the engine's ring. */
  readonly kept: number;
  readonly evicted: number;
  /** Not recorded because of overload. */
  readonly dropped: number;
  /** Of the kept rows, how many match the filter. */
  readonly matching: number;
}

export interface ChannelData {
  state: { readonly state: EngineState };
  /**
   * Upserts by `n`, in order of their last change. `cleared`: everything sent before is void. `unmatched`: running numbers
   * (`n`) of rows that were sent before, have changed, and no longer match the filter; the subscriber drops them.
   */
  requests: {
    readonly rows: readonly RequestRow[];
    readonly counters: RowCounters;
    readonly omitted: number;
    readonly cleared?: boolean;
    readonly unmatched?: readonly number[];
  };
  /** Appended rows, oldest first. `omitted`: matching rows of this delta that were not sent. */
  kv: { readonly rows: readonly KvRow[]; readonly counters: RowCounters; readonly omitted: number; readonly cleared?: boolean };
}

type ChannelFrame<K extends 'snapshot' | 'delta', Extra> = {
  [C in Channel]: { readonly t: K; readonly sub: number; readonly channel: C; readonly seq: number } & Extra & ChannelData[C];
}[Channel];

export type SnapshotMessage = ChannelFrame<'snapshot', { readonly skipped: number }>;
export type DeltaMessage = ChannelFrame<'delta', unknown>;

export type HostMessage =
  | { readonly t: 'hello'; readonly protocol: number; readonly version: string; readonly host: 'headless' | 'desktop'; readonly isSimulated: boolean }
  | { readonly t: 'result'; readonly id: number; readonly ok: true; readonly value: unknown }
  | { readonly t: 'result'; readonly id: number; readonly ok: false; readonly error: ErrorBody }
  | { readonly t: 'rejected'; readonly sub: number; readonly error: ErrorBody }
  | SnapshotMessage
  | DeltaMessage;

/** Longest time between an event and the frame that carries it, ms. */
export const ROW_INTERVAL_MS = 100;
/** How often the whole state is sent, ms. */
export const STATE_INTERVAL_MS = 250;
/** Rows of one delta at most; the newest are sent, the rest counted in `omitted`. */
export const MAX_ROWS_PER_DELTA = 400;

/** Settings and state of the P/D protocols (connectors), as pages and the command line see them. */
import { z } from 'zod';
import type { Severity } from './findings.ts';
import type { InstanceId } from './ids.ts';
import type { ConnectorName } from './vocabulary.ts';

/** Can be changed while requests run; concerns requests that begin afterwards. */
export const ProtocolSettingsSchema = z.object({
  /** Holds back legs whose parameters are known to kill or hang an engine (502 with the reason). Default true. */
  blockFatal: z.boolean().default(true),
  /** nixl-bidirectional: streaming turns of a conversation run the decode leg without stream, re-emitted as one. Default false. */
  reemitStreams: z.boolean().default(false),
  /** Encode stage before the connector: `auto` = when encode instances are registered and the request has media. */
  encodeStage: z.enum(['auto', 'off']).default('auto'),
  /**
   * Leaves the prefill leg out when a decode instance holds all but fewer than this many tokens of the prompt by its KV
   * events (plain, nixl and what is built on it). Default, and 0: never.
   */
  prefillSkipTokens: z.number().int().min(0).max(1_000_000).optional(),
  /** Asks engines to publish blocks found in the cache, too (`kv_cache_report_mode`, vLLM since 2026-07). Default false. */
  reportCache: z.boolean().optional(),
  /** Policy prefix-aware: asks an instance (POST /tokenize) for a prompt's tokens that it needs and does not have. Default true. */
  tokenizeForRouting: z.boolean().optional(),
  /** How long a request waits for that answer before it is routed by load, ms. Default 20. */
  tokenizeDeadlineMs: z.number().int().min(1).max(10_000).optional(),
});
export type ProtocolSettings = z.output<typeof ProtocolSettingsSchema>;

/** A change of some settings. Not `partial()` of the above: zod fills the defaults of absent keys in, which would undo the rest. */
export const ProtocolChangeSchema = z.strictObject({
  blockFatal: z.boolean().optional(),
  reemitStreams: z.boolean().optional(),
  encodeStage: z.enum(['auto', 'off']).optional(),
  prefillSkipTokens: z.number().int().min(0).max(1_000_000).optional(),
  reportCache: z.boolean().optional(),
  tokenizeForRouting: z.boolean().optional(),
  tokenizeDeadlineMs: z.number().int().min(1).max(10_000).optional(),
});

/** Fixed at start. */
export const ProtocolOptionsSchema = ProtocolSettingsSchema.extend({
  /** nixl-bidirectional: how long a conversation's blocks may be reused. Engines pin them 480 s. Default 450 s. */
  conversationTtlMs: z.number().int().min(1000).max(86_400_000).default(450_000),
  /** nixl-bidirectional: conversations kept. Default 10,000. */
  conversations: z.number().int().min(1).max(1_000_000).default(10_000),
  /** mooncake: bootstrap port of prefill instances that name none. Default 8998. */
  bootstrapPort: z.number().int().min(1).max(65_535).default(8998),
  /** moriio: where engines register. Default 0.0.0.0:36367, because engines run elsewhere. */
  moriioHost: z.string().min(1).max(255).default('0.0.0.0'),
  moriioPort: z.number().int().min(0).max(65_535).default(36_367),
  /** moriio: addresses, networks (`10.0.0.0/24`) and host names of engines that may register. Default: all. */
  moriioAllow: z.array(z.string().min(1).max(255)).max(256).default([]),
  /** moriio: transfer mode that instances must have. Default: that of the first one registered. */
  moriioMode: z.enum(['READ', 'WRITE']).optional(),
});
export type ProtocolOptions = z.output<typeof ProtocolOptionsSchema>;

/** A cell of a status table; null = not known. `instance` cells are shown by name and link to the instance. */
export type StatusCell = string | number | boolean | null | { readonly instance: InstanceId; readonly name: string } | { readonly atUnixMs: number };

/** Rows of one status table that are sent. */
export const MAX_STATUS_ROWS = 200;

/** What a connector keeps between requests: conversations, bootstrap entries, registrations. */
export interface StatusTable {
  readonly id: string;
  readonly title: string;
  /** What a row is and how rows come and go, in a sentence. */
  readonly summary: string;
  readonly columns: readonly { readonly title: string; readonly unit?: string }[];
  /** The most recent ones, at most MAX_STATUS_ROWS. */
  readonly rows: readonly (readonly StatusCell[])[];
  readonly total: number;
  readonly capacity?: number;
  /** Left because of the capacity, and because of their age. */
  readonly evicted?: number;
  readonly expired?: number;
}

export interface ConnectorStatus {
  readonly connector: ConnectorName;
  /** What it does, in a sentence. */
  readonly summary: string;
  /** What is off or limited just now, with what to do. */
  readonly notices: readonly { readonly severity: Severity; readonly message: string }[];
  /** Short facts, e.g. transfer mode, listening address. */
  readonly facts: readonly { readonly title: string; readonly value: StatusCell }[];
  readonly tables: readonly StatusTable[];
}

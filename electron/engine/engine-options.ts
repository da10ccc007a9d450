/**
 * What a host gives to start an engine, validated once on the way in. Every field has a default: an empty object is a
 * proxy on 127.0.0.1:8000 over an empty fleet.
 */
import { z } from 'zod';
import { PdscopeError } from '#shared/errors.ts';
import { InstanceSpecSchema } from '#shared/instance.ts';
import { ProtocolOptionsSchema } from '#shared/protocol.ts';
import { ConnectorNameSchema, PolicyNameSchema } from '#shared/vocabulary.ts';
import type { Logger } from './log.ts';

/** TCP port to listen on; 0 lets the system choose. */
export const PortSchema = z.number().int().min(0).max(65_535);

/** How long the proxy waits for an instance, ms. None is shorter than an LLM needs. */
export const TimeoutsSchema = z.object({
  /** TCP (and TLS) connection. Default 5 s. */
  connectMs: z.number().int().min(10).max(600_000).default(5000),
  /** Request sent to response headers; covers the queue and the whole prefill. Default 10 min. */
  headersMs: z.number().int().min(100).max(86_400_000).default(600_000),
  /** Between two chunks of a body. Default 5 min. */
  idleMs: z.number().int().min(100).max(86_400_000).default(300_000),
});

/** Caps of what is kept. What falls out is counted and shown. */
export const RetentionSchema = z.object({
  /** Request records. Default 10,000. */
  requests: z.number().int().min(10).max(1_000_000).default(10_000),
  /** KV event rows. Default 50,000. */
  kvEvents: z.number().int().min(10).max(5_000_000).default(50_000),
  /** Blocks held in the index, over all streams. Default 1,000,000. */
  blocks: z.number().int().min(1000).max(50_000_000).default(1_000_000),
});

/** Sizes of the simulated cluster. */
export const DemoSchema = z.object({
  prefill: z.number().int().min(0).max(64).default(2),
  decode: z.number().int().min(0).max(64).default(3),
  encode: z.number().int().min(0).max(64).default(0),
  both: z.number().int().min(0).max(64).default(0),
  /** Data-parallel ranks of each instance. Default 1. */
  dpSize: z.number().int().min(1).max(8).default(1),
  /** Offered load, requests per second. Default 6. */
  requestsPerSecond: z.number().min(0).max(2000).default(6),
  /** Same seed, same traffic. Default 1. */
  seed: z.number().int().min(0).max(2 ** 31).default(1),
});

export const EngineOptionsSchema = z.object({
  proxy: z.object({ host: z.string().min(1).max(255).default('127.0.0.1'), port: PortSchema.default(8000) }).prefault({}),
  instances: z.array(InstanceSpecSchema).max(1024).default([]),
  /** Model that every instance must serve. Default: whatever the first one serves. */
  model: z.string().min(1).max(512).optional(),
  connector: ConnectorNameSchema.default('nixl'),
  policy: PolicyNameSchema.default('least-in-flight'),
  protocol: ProtocolOptionsSchema.prefault({}),
  timeouts: TimeoutsSchema.prefault({}),
  retention: RetentionSchema.prefault({}),
  /** Largest request body the proxy takes, bytes. Default 64 MiB. */
  maxBodyBytes: z.number().int().min(1024).max(2 ** 31).default(64 * 1024 * 1024),
  /** Attempts on other instances after a leg failed before its first byte. Default 2. */
  maxRetries: z.number().int().min(0).max(16).default(2),
  /** Whether request and response bodies are kept from the start. Default false. */
  capture: z.boolean().default(false),
  /** Whether requests are explained (why a miss); each prompt is kept until its tokens were had. Default true. */
  explainMisses: z.boolean().default(true),
  /** Requests explained by themselves for which instances are asked for tokens: a second on average, and at once after a quiet time. Default 10 and 40. */
  explainCalls: z.object({ perSecond: z.number().nonnegative(), burst: z.number().nonnegative() }).optional(),
  /** Key of the admin routes on the proxy port. Default: those routes are closed. */
  adminApiKey: z.string().min(1).max(1024).optional(),
  /** Sent as `Authorization` to instances when the client sent none. */
  openaiApiKey: z.string().min(1).max(4096).optional(),
  demo: DemoSchema.optional(),
});

/** Settings of an engine, defaults filled in. */
export type EngineSettings = z.output<typeof EngineOptionsSchema>;

export interface EngineOptions extends z.input<typeof EngineOptionsSchema> {
  /** Version of pdscope, for `/status`, metrics and pages. */
  readonly version: string;
  readonly host: 'headless' | 'desktop';
  /** Default: nothing is logged. */
  readonly logger?: Logger;
}

/** Validates and fills in defaults. Throws PdscopeError `bad_options` that names the field. */
export function parseEngineOptions(options: EngineOptions): EngineSettings {
  const parsed = EngineOptionsSchema.safeParse(options);
  if (parsed.success) return parsed.data;
  throw new PdscopeError('bad_options', `Engine options: ${issuesText(parsed.error)}`);
}

/** Issues of a failed parse as one line: `field.sub: what is wrong; other: what is wrong`. */
export function issuesText(error: z.ZodError): string {
  return error.issues.map((issue) => (issue.path.length === 0 ? issue.message : `${issue.path.join('.')}: ${issue.message}`)).join('; ');
}

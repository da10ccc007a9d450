/**
 * Everything `pdscope serve` can be told, under one set of names: a flag `--idle-timeout` is the key `idle-timeout` of
 * the configuration file. A flag wins over the file; a list given by flags replaces the file's list.
 */
import { z } from 'zod';
import { errorMessage } from '#shared/errors.ts';
import { EngineOptionsSchema, TimeoutsSchema } from '#engine/engine-options.ts';
import { KvBytesPerTokenSchema, KvEventsConfigSchema, MAX_RANKS } from '#shared/instance.ts';
import { ProtocolOptionsSchema } from '#shared/protocol.ts';
import { CONNECTORS, POLICIES } from '#shared/vocabulary.ts';
import { parseKvEvents } from './kv-events-option.ts';
import { bytesFor, durationFor, parseBytes, parseDemoShape } from './quantities.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export const LOG_FORMATS = ['pretty', 'json'] as const;

/** Text (or a bare number) read by one of the command line's own parsers. */
function written<T>(parse: (text: string) => T) {
  return z.union([z.string(), z.number()]).transform((value, context): T => {
    try {
      return parse(String(value));
    } catch (error) {
      context.addIssue({ code: 'custom', message: errorMessage(error) });
      return z.NEVER;
    }
  });
}

/** Within what the engine takes. */
export const durationOf = {
  'conversation-ttl': durationFor(ProtocolOptionsSchema.shape.conversationTtlMs),
  'tokenize-deadline': durationFor(ProtocolOptionsSchema.shape.tokenizeDeadlineMs),
  'connect-timeout': durationFor(TimeoutsSchema.shape.connectMs),
  'headers-timeout': durationFor(TimeoutsSchema.shape.headersMs),
  'idle-timeout': durationFor(TimeoutsSchema.shape.idleMs),
} as const;
export const maxBodyOf = bytesFor(EngineOptionsSchema.shape.maxBodyBytes);

const port = z.number().int().min(0).max(65_535);

const listeningPort = z.number().int().min(1).max(65_535);
const dpSize = z.number().int().min(1).max(MAX_RANKS);

const kvBytes = written(parseBytes).pipe(KvBytesPerTokenSchema);

const KvEventsInFileSchema = z.union([
  z.string().transform((text, context) => {
    try {
      return parseKvEvents(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: errorMessage(error) });
      return z.NEVER;
    }
  }),
  z
    .strictObject({
      endpoint: KvEventsConfigSchema.shape.endpoint,
      replay: KvEventsConfigSchema.shape.replayEndpoint,
      topic: KvEventsConfigSchema.shape.topic,
      ranks: KvEventsConfigSchema.shape.ranks,
      bind: z.boolean().default(false),
    })
    .transform(({ replay, bind, ...rest }) =>
      KvEventsConfigSchema.parse({ ...rest, mode: bind ? 'bind' : 'connect', ...(replay !== undefined && { replayEndpoint: replay }) }),
    ),
]);

const InstanceInFileSchema = z.union([
  z.string().min(1).transform((url) => ({ url })),
  z.strictObject({
    url: z.string().min(1),
    name: z.string().min(1).max(32).optional(),
    'kv-events': KvEventsInFileSchema.optional(),
    'dp-size': dpSize.optional(),
    'kv-bytes-per-token': kvBytes.optional(),
    'bootstrap-port': listeningPort.optional(),
  }),
]);

const instances = z.array(InstanceInFileSchema).max(1024);

export const ServeConfigSchema = z.strictObject({
  model: z.string().min(1),
  encode: instances,
  prefill: instances,
  decode: instances,
  both: instances,
  'kv-events': z.record(z.string().min(1), KvEventsInFileSchema),
  host: z.string().min(1),
  port,
  connector: z.enum(CONNECTORS),
  policy: z.enum(POLICIES),
  'dp-size': z.record(z.string().min(1), dpSize),
  'kv-bytes-per-token': z.record(z.string().min(1), kvBytes),
  'bootstrap-port': listeningPort,
  'moriio-host': z.string().min(1),
  'moriio-port': port,
  'moriio-allow': z.array(z.string().min(1).max(255)).max(256),
  'moriio-mode': z.enum(['READ', 'WRITE']),
  'conversation-ttl': written(durationOf['conversation-ttl']),
  'keep-conversations': z.number().int().min(1).max(1_000_000),
  'reemit-streams': z.boolean(),
  'block-fatal': z.boolean(),
  'encode-stage': z.boolean(),
  'prefill-skip-tokens': z.number().int().min(0).max(1_000_000),
  'tokenize-for-routing': z.boolean(),
  'tokenize-deadline': written(durationOf['tokenize-deadline']),
  'connect-timeout': written(durationOf['connect-timeout']),
  'headers-timeout': written(durationOf['headers-timeout']),
  'idle-timeout': written(durationOf['idle-timeout']),
  'max-body': written(maxBodyOf),
  'max-retries': z.number().int().min(0).max(16),
  'keep-requests': z.number().int().min(10).max(1_000_000),
  'keep-kv-events': z.number().int().min(10).max(5_000_000),
  'keep-blocks': z.number().int().min(1000).max(50_000_000),
  capture: z.boolean(),
  'report-cache': z.boolean(),
  'explain-misses': z.boolean(),
  demo: z.union([z.boolean(), written(parseDemoShape)]),
  'demo-rate': z.number().min(0).max(2000),
  'control-host': z.string().min(1),
  'control-port': port,
  'allow-remote-control': z.boolean(),
  open: z.boolean(),
  'log-level': z.enum(LOG_LEVELS),
  'log-format': z.enum(LOG_FORMATS),
}).partial();

export type ServeConfig = z.output<typeof ServeConfigSchema>;
export type ServeConfigKey = keyof ServeConfig;

/** What each key takes, for error messages. */
export const ALLOWED: Readonly<Record<ServeConfigKey, string>> = {
  model: 'the name of a model',
  encode: 'a list of addresses (host:port), or of {url, name, kv-events, dp-size, kv-bytes-per-token}',
  prefill: 'a list of addresses (host:port), or of {url, name, kv-events, dp-size, kv-bytes-per-token, bootstrap-port}',
  decode: 'a list of addresses (host:port), or of {url, name, kv-events, dp-size, kv-bytes-per-token}',
  both: 'a list of addresses (host:port), or of {url, name, kv-events, dp-size, kv-bytes-per-token}',
  'kv-events': '<instance>: endpoint[,replay=...,topic=...,ranks=N,bind], or {endpoint, replay, topic, ranks, bind}',
  host: 'an address to listen on',
  port: '0 to 65535 (0 = any free one)',
  connector: CONNECTORS.join(', '),
  policy: POLICIES.join(', '),
  'dp-size': '<instance>: its data-parallel ranks, 1 to 1024',
  'kv-bytes-per-token': '<instance>: KV cache bytes of one token, 1 to 64MiB',
  'bootstrap-port': '1 to 65535',
  'moriio-host': 'an address to listen on',
  'moriio-port': '0 to 65535 (0 = any free one)',
  'moriio-allow': 'a list of addresses, networks (10.0.0.0/24) and host names',
  'moriio-mode': 'READ or WRITE',
  'conversation-ttl': 'a duration: 450s, 5m',
  'keep-conversations': '1 to 1000000',
  'reemit-streams': 'true or false',
  'block-fatal': 'true or false',
  'encode-stage': 'true or false',
  'prefill-skip-tokens': '0 to 1000000 (0 = never)',
  'tokenize-for-routing': 'true or false',
  'tokenize-deadline': 'a duration: 20ms, 1s',
  'connect-timeout': 'a duration: 500ms, 5s, 10m',
  'headers-timeout': 'a duration: 500ms, 5s, 10m',
  'idle-timeout': 'a duration: 500ms, 5s, 10m',
  'max-body': 'a size: 64MB, 64MiB',
  'max-retries': '0 to 16',
  'keep-requests': '10 to 1000000',
  'keep-kv-events': '10 to 5000000',
  'keep-blocks': '1000 to 50000000',
  capture: 'true or false',
  'report-cache': 'true or false',
  'explain-misses': 'true or false',
  demo: 'true, false, or a shape such as 2P3D',
  'demo-rate': '0 to 2000 requests per second',
  'control-host': 'an address to listen on',
  'control-port': '0 to 65535 (0 = any free one)',
  'allow-remote-control': 'true or false',
  open: 'true or false',
  'log-level': LOG_LEVELS.join(', '),
  'log-format': LOG_FORMATS.join(', '),
};

export const SERVE_CONFIG_KEYS = Object.keys(ALLOWED) as readonly ServeConfigKey[];

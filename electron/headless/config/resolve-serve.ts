/** Configuration -> what the engine, the control port and the log are started with. Pure. */
import type { EngineOptions } from '#engine/engine-options.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import { ROLE_PREFIX } from '#shared/state.ts';
import { ROLES, type Role } from '#shared/vocabulary.ts';
import type { DemoShape } from './quantities.ts';
import type { LOG_FORMATS, LOG_LEVELS, ServeConfig } from './serve-config.ts';

export const DEFAULT_CONTROL_PORT = 7080;

export interface ServeSettings {
  readonly engine: Omit<EngineOptions, 'version' | 'host' | 'logger'>;
  readonly control: { readonly host: string; readonly port: number; readonly allowRemote: boolean; readonly fixedToken: string | undefined };
  readonly log: { readonly level: (typeof LOG_LEVELS)[number]; readonly format: (typeof LOG_FORMATS)[number] | undefined };
  /** Whether to open a browser; undefined = when somebody sits at this machine. */
  readonly open: boolean | undefined;
}

/** Reads only ADMIN_API_KEY, OPENAI_API_KEY and PDSCOPE_TOKEN of `env`. Throws PdscopeError `bad_usage`. */
export function resolveServe(config: ServeConfig, env: Readonly<Record<string, string | undefined>>): ServeSettings {
  const adminApiKey = nonEmpty(env['ADMIN_API_KEY']);
  const openaiApiKey = nonEmpty(env['OPENAI_API_KEY']);
  const demo = demoOf(config);
  return {
    engine: {
      proxy: { ...(config.host !== undefined && { host: config.host }), ...(config.port !== undefined && { port: config.port }) },
      instances: instancesOf(config),
      ...(config.model !== undefined && { model: config.model }),
      ...(config.connector !== undefined && { connector: config.connector }),
      ...(config.policy !== undefined && { policy: config.policy }),
      protocol: protocolOf(config),
      timeouts: {
        ...(config['connect-timeout'] !== undefined && { connectMs: config['connect-timeout'] }),
        ...(config['headers-timeout'] !== undefined && { headersMs: config['headers-timeout'] }),
        ...(config['idle-timeout'] !== undefined && { idleMs: config['idle-timeout'] }),
      },
      retention: {
        ...(config['keep-requests'] !== undefined && { requests: config['keep-requests'] }),
        ...(config['keep-kv-events'] !== undefined && { kvEvents: config['keep-kv-events'] }),
        ...(config['keep-blocks'] !== undefined && { blocks: config['keep-blocks'] }),
      },
      ...(config['max-body'] !== undefined && { maxBodyBytes: config['max-body'] }),
      ...(config['max-retries'] !== undefined && { maxRetries: config['max-retries'] }),
      ...(config.capture !== undefined && { capture: config.capture }),
      ...(config['explain-misses'] !== undefined && { explainMisses: config['explain-misses'] }),
      ...(adminApiKey !== undefined && { adminApiKey }),
      ...(openaiApiKey !== undefined && { openaiApiKey }),
      ...(demo !== undefined && { demo }),
    },
    control: {
      host: config['control-host'] ?? '127.0.0.1',
      port: config['control-port'] ?? DEFAULT_CONTROL_PORT,
      allowRemote: config['allow-remote-control'] ?? false,
      fixedToken: nonEmpty(env['PDSCOPE_TOKEN']),
    },
    log: { level: config['log-level'] ?? 'warn', format: config['log-format'] },
    open: config.open,
  };
}

/** An empty variable is how shells unset one for a single command. */
function nonEmpty(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}

function demoOf(config: ServeConfig): (Partial<DemoShape> & { requestsPerSecond?: number }) | undefined {
  if (config.demo === undefined || config.demo === false) return undefined;
  const rate = config['demo-rate'];
  return { ...(config.demo === true ? {} : config.demo), ...(rate !== undefined && { requestsPerSecond: rate }) };
}

interface NamedSpec {
  readonly spec: InstanceSpec;
  /** The name it will be shown under. */
  readonly name: string;
}

function instancesOf(config: ServeConfig): InstanceSpec[] {
  const named = ROLES.flatMap((role): readonly NamedSpec[] => (config[role] ?? []).map((instance, index) => namedSpec(role, index, instance)));
  const kvEvents = assignments('kv-events', config['kv-events'], named);
  const dpSizes = assignments('dp-size', config['dp-size'], named);
  const kvBytes = assignments('kv-bytes-per-token', config['kv-bytes-per-token'], named);
  return named.map((each) => {
    const events = kvEvents.get(each);
    const dpSize = dpSizes.get(each);
    const kvBytesPerToken = kvBytes.get(each);
    return {
      ...each.spec,
      ...(events !== undefined && { kvEvents: events }),
      ...(dpSize !== undefined && { dpSize }),
      ...(kvBytesPerToken !== undefined && { kvBytesPerToken }),
    };
  });
}

/** What `<instance>=<value>` options give to which instance. Throws PdscopeError `bad_usage` for a name that fits none or several. */
function assignments<T>(option: string, given: Readonly<Record<string, T>> | undefined, named: readonly NamedSpec[]): Map<NamedSpec, T> {
  const assigned = new Map<NamedSpec, T>();
  for (const [wanted, value] of Object.entries(given ?? {})) {
    const found = named.filter(({ name, spec }) => name.toLowerCase() === wanted.toLowerCase() || sameAddress(spec.url, wanted));
    const [target] = found;
    if (target === undefined || found.length > 1) {
      const known = named.map(({ name, spec }) => `${name} (${spec.url})`).join(', ');
      const problem = target === undefined ? `names no instance given` : 'fits more than one instance; use its name';
      throw new PdscopeError('bad_usage', `--${option} ${wanted}: ${problem}. ${known === '' ? 'No instance was given.' : `Instances: ${known}.`}`);
    }
    if (assigned.has(target)) throw new PdscopeError('bad_usage', `--${option} ${wanted}: ${target.name} is given twice; leave one of them out.`);
    assigned.set(target, value);
  }
  return assigned;
}

function protocolOf(config: ServeConfig): NonNullable<EngineOptions['protocol']> {
  const blockFatal = config['block-fatal'];
  const reemitStreams = config['reemit-streams'];
  const encodeStage = config['encode-stage'];
  const reportCache = config['report-cache'];
  const prefillSkipTokens = config['prefill-skip-tokens'];
  const tokenizeForRouting = config['tokenize-for-routing'];
  const tokenizeDeadlineMs = config['tokenize-deadline'];
  const conversationTtlMs = config['conversation-ttl'];
  const conversations = config['keep-conversations'];
  const bootstrapPort = config['bootstrap-port'];
  const moriioHost = config['moriio-host'];
  const moriioPort = config['moriio-port'];
  const moriioAllow = config['moriio-allow'];
  const moriioMode = config['moriio-mode'];
  return {
    ...(blockFatal !== undefined && { blockFatal }),
    ...(reemitStreams !== undefined && { reemitStreams }),
    ...(encodeStage !== undefined && { encodeStage: encodeStage ? 'auto' : 'off' }),
    ...(reportCache !== undefined && { reportCache }),
    ...(prefillSkipTokens !== undefined && { prefillSkipTokens }),
    ...(tokenizeForRouting !== undefined && { tokenizeForRouting }),
    ...(tokenizeDeadlineMs !== undefined && { tokenizeDeadlineMs }),
    ...(conversationTtlMs !== undefined && { conversationTtlMs }),
    ...(conversations !== undefined && { conversations }),
    ...(bootstrapPort !== undefined && { bootstrapPort }),
    ...(moriioHost !== undefined && { moriioHost }),
    ...(moriioPort !== undefined && { moriioPort }),
    ...(moriioAllow !== undefined && { moriioAllow }),
    ...(moriioMode !== undefined && { moriioMode }),
  };
}

function namedSpec(role: Role, index: number, instance: NonNullable<ServeConfig['prefill']>[number]): NamedSpec {
  const { url } = instance;
  const given = 'name' in instance ? instance.name : undefined;
  const kvEvents = 'kv-events' in instance ? instance['kv-events'] : undefined;
  const dpSize = 'dp-size' in instance ? instance['dp-size'] : undefined;
  const kvBytesPerToken = 'kv-bytes-per-token' in instance ? instance['kv-bytes-per-token'] : undefined;
  const bootstrapPort = 'bootstrap-port' in instance ? instance['bootstrap-port'] : undefined;
  return {
    spec: {
      role,
      url,
      ...(given !== undefined && { name: given }),
      ...(kvEvents !== undefined && { kvEvents }),
      ...(dpSize !== undefined && { dpSize }),
      ...(kvBytesPerToken !== undefined && { kvBytesPerToken }),
      ...(bootstrapPort !== undefined && { bootstrapPort }),
    },
    name: given ?? `${ROLE_PREFIX[role]}${index}`,
  };
}

function sameAddress(a: string, b: string): boolean {
  const bare = (address: string): string => address.toLowerCase().replace(/^https?:\/\//u, '').replace(/\/+$/u, '');
  return bare(a) === bare(b);
}

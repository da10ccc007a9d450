/** Where an instance publishes KV events, in one word: `tcp://host:5557,replay=tcp://host:5558,topic=kv,ranks=2,bind`. */
import { PdscopeError } from '#shared/errors.ts';
import { KvEventsConfigSchema, type KvEventsConfig } from '#shared/instance.ts';

/** What each word after the endpoint sets. */
const KEYS: Readonly<Record<string, string>> = { bind: 'mode', replay: 'replayEndpoint', topic: 'topic', ranks: 'ranks' };
const ALLOWED = 'endpoint[,replay=<endpoint>][,topic=<text>][,ranks=<n>][,bind]';

/** Reads the part after `<instance>=`. Throws PdscopeError `bad_usage`. */
export function parseKvEvents(text: string): KvEventsConfig {
  const [endpoint = '', ...extras] = text.split(',');
  const raw: Record<string, unknown> = { endpoint };
  for (const extra of extras) {
    const [key = '', ...rest] = extra.split('=');
    const value = rest.join('=');
    if (Object.hasOwn(raw, KEYS[key] ?? '')) throw new PdscopeError('bad_usage', `"${key}" is given twice in "${text}".`);
    if (key === 'bind' && rest.length === 0) raw['mode'] = 'bind';
    else if (key === 'replay' && value !== '') raw['replayEndpoint'] = value;
    else if (key === 'topic' && rest.length > 0) raw['topic'] = value;
    else if (key === 'ranks' && /^\d+$/u.test(value)) raw['ranks'] = Number(value);
    else throw new PdscopeError('bad_usage', `"${extra}" is not understood in "${text}"; allowed: ${ALLOWED}.`);
  }
  const parsed = KvEventsConfigSchema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new PdscopeError('bad_usage', `KV events "${text}": ${wordOf(issue?.path[0])} ${issue?.message ?? ''}; allowed: ${ALLOWED}.`);
}

/** What a field is called on the command line. */
function wordOf(field: PropertyKey | undefined): string {
  return Object.keys(KEYS).find((word) => KEYS[word] === field) ?? String(field ?? '');
}

export interface KvEventsAssignment {
  /** Name (`P0`) or address of the instance. */
  readonly instance: string;
  readonly kvEvents: KvEventsConfig;
}

/** Reads `<instance>=<kv events>`. Throws PdscopeError `bad_usage`. */
export function parseKvEventsAssignment(text: string): KvEventsAssignment {
  const at = text.indexOf('=');
  if (at < 1) {
    throw new PdscopeError('bad_usage', `"${text}" names no instance; write <instance>=${ALLOWED}, e.g. P0=tcp://10.0.0.1:5557 or 10.0.0.1:8100=tcp://10.0.0.1:5557.`);
  }
  return { instance: text.slice(0, at), kvEvents: parseKvEvents(text.slice(at + 1)) };
}

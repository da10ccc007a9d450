/** A proxy on port 0 over given upstreams, with a scheduler and a tracer that only keep books. */
import { Pool } from 'undici';
import type { Verdict } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import type { RequestError, RequestState, RoutingDecision } from '#shared/request.ts';
import type { LegKind, Role } from '#shared/vocabulary.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import type { Candidates, FleetRoster, LegScheduler } from '#engine/fleet/ports.ts';
import { countRank } from '#engine/fleet/ranks.ts';
import { silentLogger } from '#engine/log.ts';
import { createProxy, type Proxy, type ProxyOptions } from '#engine/proxy/proxy.ts';
import type { LegFacts, LegInit, ParsedInit, RequestInit, RequestTrace, Tracer } from '#engine/telemetry/trace.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';

export interface LegRecord {
  readonly init: LegInit;
  status?: number;
  bytes: number;
  facts?: LegFacts;
  outcome?: string;
  error?: RequestError | undefined;
}

export interface RequestRecord {
  readonly init: RequestInit;
  parsed?: ParsedInit;
  /** As routing had them. */
  promptTokens?: Uint32Array;
  readonly decisions: Omit<RoutingDecision, 'atMs'>[];
  readonly legs: LegRecord[];
  retries: number;
  readonly verdicts: Verdict[];
  respondedWith?: number;
  chunks: number;
  events: number;
  bytes: number;
  state?: Exclude<RequestState, 'running'>;
  error?: RequestError | undefined;
  ends: number;
}

export class RecordingTracer implements Tracer {
  readonly requests: RequestRecord[] = [];
  wantsBodies = false;

  begin(init: RequestInit): RequestTrace {
    const record: RequestRecord = { init, decisions: [], legs: [], verdicts: [], retries: 0, chunks: 0, events: 0, bytes: 0, ends: 0 };
    this.requests.push(record);
    return {
      wantsBodies: this.wantsBodies,
      parsed: (parsed) => void (record.parsed = parsed),
      decided: (decision) => void record.decisions.push(decision),
      retried: () => void record.retries++,
      verdict: (verdict) => void record.verdicts.push(verdict),
      leg: (init) => {
        const leg: LegRecord = { init, bytes: 0 };
        record.legs.push(leg);
        return {
          headers: (status) => void (leg.status = status),
          bytes: (count) => void (leg.bytes += count),
          facts: (facts) => void (leg.facts = facts),
          end: (outcome, error) => {
            if (leg.outcome !== undefined) throw new Error('a leg ended twice');
            leg.outcome = outcome;
            leg.error = error;
          },
        };
      },
      prompt: (tokens) => void (record.promptTokens = tokens),
      responded: (status) => void (record.respondedWith = status),
      chunk: (bytes, events) => {
        record.chunks++;
        record.bytes += bytes;
        record.events += events;
      },
      end: (state, error) => {
        record.ends++;
        record.state = state;
        record.error = error;
      },
    };
  }

  get last(): RequestRecord {
    const record = this.requests.at(-1);
    if (record === undefined) throw new Error('nothing was traced');
    return record;
  }
}

type Listener = (instance: Instance) => void;

export class BookScheduler implements LegScheduler, FleetRoster {
  readonly instances: Instance[] = [];
  readonly excluded = new Map<Instance, string>();
  readonly left: { readonly name: string; readonly reason: string }[] = [];
  readonly rechecked: InstanceId[] = [];
  readonly #added = new Set<Listener>();
  readonly #removed = new Set<Listener>();
  readonly #changed = new Set<Listener>();
  readonly ended: { readonly name: string; readonly outcome: string; readonly reason: string | undefined }[] = [];

  add(role: Role, origin: string, extra: Partial<Instance> = {}): Instance {
    const index = this.instances.filter((instance) => instance.role === role).length;
    const name = `${role === 'prefill' ? 'P' : role === 'decode' ? 'D' : 'B'}${index}`;
    const instance: Instance = {
      id: name.toLowerCase() as InstanceId,
      name,
      role,
      origin,
      isSimulated: false,
      pool: new Pool(origin, { connections: 2048 }),
      kvEvents: undefined,
      addedAtUnixMs: 0,
      bootstrapPort: undefined,
      kvBytesPerToken: undefined,
      registeredBy: undefined,
      dpSize: 1,
      dpSizeSource: 'default',
      rankInFlight: [0],
      nextRank: 0,
      transfer: undefined,
      state: 'up',
      stateReason: undefined,
      stateSinceUnixMs: 0,
      breaker: 'closed',
      consecutiveFailures: 0,
      models: ['test-model'],
      maxModelLen: undefined,
      version: undefined,
      gauges: undefined,
      scrapeError: undefined,
      inFlight: 0,
      served: 0,
      failed: 0,
      ...extra,
    };
    this.instances.push(instance);
    return instance;
  }

  candidates(kind: LegKind): Candidates {
    const fitting = this.instances.filter(({ role }) => role === kind || (role === 'both' && kind !== 'encode') || (role !== 'encode' && (kind === 'render' || kind === 'forward')));
    return {
      routable: fitting.filter((instance) => !this.excluded.has(instance)),
      excluded: fitting.flatMap((instance) => {
        const reason = this.excluded.get(instance);
        return reason === undefined ? [] : [{ instance, reason }];
      }),
    };
  }

  list(): readonly Instance[] {
    return this.instances;
  }

  get(id: InstanceId): Instance | undefined {
    return this.instances.find((instance) => instance.id === id);
  }

  onAdded(listener: Listener): () => void {
    return listen(this.#added, listener);
  }

  onRemoved(listener: Listener): () => void {
    return listen(this.#removed, listener);
  }

  onChanged(listener: Listener): () => void {
    return listen(this.#changed, listener);
  }

  /** Tells the listeners, as the fleet does after a restart. */
  changed(instance: Instance): void {
    for (const listener of this.#changed) listener(instance);
  }

  join(spec: InstanceSpec, registeredBy: 'moriio'): Instance {
    const instance = this.add(spec.role, spec.url, { registeredBy, ...(spec.dpSize !== undefined && withRanks(spec.dpSize)) });
    for (const listener of this.#added) listener(instance);
    return instance;
  }

  leave(id: InstanceId, reason: string): void {
    const index = this.instances.findIndex((instance) => instance.id === id);
    const [instance] = index < 0 ? [] : this.instances.splice(index, 1);
    if (instance === undefined) return;
    this.left.push({ name: instance.name, reason });
    for (const listener of this.#removed) listener(instance);
  }

  recheck(id: InstanceId): void {
    this.rechecked.push(id);
  }

  legStarted(instance: Instance, rank?: number): void {
    instance.inFlight++;
    countRank(instance, rank, 1);
  }

  legEnded(instance: Instance, outcome: 'ok' | 'failed' | 'aborted', reason?: string, rank?: number): void {
    instance.inFlight--;
    countRank(instance, rank, -1);
    this.ended.push({ name: instance.name, outcome, reason });
  }

  get inFlight(): number {
    return this.instances.reduce((sum, instance) => sum + instance.inFlight, 0);
  }
}

function listen(listeners: Set<Listener>, listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** What an instance of several data-parallel ranks has. */
export function withRanks(dpSize: number): Pick<Instance, 'dpSize' | 'dpSizeSource' | 'rankInFlight'> {
  return { dpSize, dpSizeSource: 'given', rankInFlight: Array.from({ length: dpSize }, () => 0) };
}

export interface Harness extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly origin: string;
  readonly scheduler: BookScheduler;
  readonly tracer: RecordingTracer;
}

export interface HarnessOptions extends Partial<Omit<ProxyOptions, 'scheduler' | 'tracer'>> {
  readonly prefill?: readonly string[];
  readonly decode?: readonly string[];
}

export async function startHarness({ prefill = [], decode = [], ...options }: HarnessOptions): Promise<Harness> {
  const scheduler = new BookScheduler();
  for (const origin of prefill) scheduler.add('prefill', origin);
  for (const origin of decode) scheduler.add('decode', origin);
  const tracer = new RecordingTracer();
  const proxy = createProxy({
    scheduler,
    fleet: scheduler,
    tracer,
    logger: silentLogger,
    connector: 'plain',
    policy: 'round-robin',
    admin: {
      add: () => Promise.reject(new Error('not scripted')),
      remove: () => Promise.reject(new Error('not scripted')),
    },
    metricsPage: () => Promise.resolve({ contentType: 'text/plain; version=0.0.4; charset=utf-8', body: 'pdscope_up 1\n' }),
    version: '0.0.0-test',
    ...options,
  });
  const { port } = await proxy.listen(0, '127.0.0.1');
  return {
    proxy,
    origin: `http://127.0.0.1:${port}`,
    scheduler,
    tracer,
    async [Symbol.asyncDispose]() {
      await proxy.close();
      await Promise.all(scheduler.instances.map(({ pool }) => pool.destroy()));
    },
  };
}

/** Waits until `check` gives something, polling; fails after `withinMs`. */
export async function until<T>(check: () => T | undefined | false, withinMs = WAIT_LIMIT_MS): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const value = check();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > deadline) throw new Error(`not reached: ${check.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export const CHAT_BODY = { model: 'test-model', messages: [{ role: 'user', content: 'hi' }], max_tokens: 8 };

/** POST with JSON text through fetch. */
export function post(url: string, body: string | object, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal !== undefined && { signal }),
  });
}

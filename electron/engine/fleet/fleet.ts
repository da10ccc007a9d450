/**
 * The registry of instances: who is in it, who may take a leg now, and who failed. The only writer of Instance.
 * Invariants: an id is never used twice; origin and role are unique together; a failed instance is shown as down and
 * never removed by itself; what the proxy asks per leg (`candidates`) is a cached object between changes.
 * Choosing among candidates is the policies' job, sending legs the proxy's.
 */
import { Agent } from 'undici';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import type { ProbeResult } from '#shared/operations.ts';
import { ROLE_PREFIX } from '#shared/state.ts';
import type { LegKind, Role } from '#shared/vocabulary.ts';
import type { Logger } from '../log.ts';
import type { BreakerOptions } from './breaker.ts';
import { candidatesOf } from './candidates.ts';
import type { FleetOptions } from './fleet-options.ts';
import type { Instance } from './instance.ts';
import { InstanceMonitor, type MonitorSettings } from './instance-monitor.ts';
import { applyFindings, okHealth, watchEvents } from './instance-watch.ts';
import { refuseTaken, refuseUnfit, toProbeResult } from './join-rules.ts';
import { Limiter } from './limiter.ts';
import { DEFAULT_LEG_TIMEOUTS, ManagedInstance, type LegTimeouts } from './managed-instance.ts';
import { modelMismatch } from './model-match.ts';
import { parseAddress } from './parse-address.ts';
import type { Candidates, FleetRoster, LegScheduler } from './ports.ts';
import { probeOrigin, type ProbeFindings } from './probe.ts';
import { countRank } from './ranks.ts';

type Listener = (instance: Instance) => void;

const PROMPT_LANE = 64;
const SUSPECT_LANE = 32;

export class Fleet implements LegScheduler, FleetRoster {
  readonly #logger: Logger;
  readonly #breaker: BreakerOptions;
  readonly #timeouts: LegTimeouts;
  readonly #connections: number | undefined;
  readonly #agent: Agent;
  readonly #monitorSettings: MonitorSettings;
  readonly #instances = new Map<InstanceId, ManagedInstance>();
  readonly #monitors = new Map<InstanceId, InstanceMonitor>();
  readonly #nextIndex = new Map<Role, number>();
  /** `origin role` of additions under way, so that two of the same cannot both pass the check. */
  readonly #joining = new Set<string>();
  readonly #candidates = new Map<LegKind, Candidates>();
  /** In flight, over all instances, those that left included. */
  #legs = 0;
  #list: readonly Instance[] | undefined;
  readonly #added = new Set<Listener>();
  readonly #removed = new Set<Listener>();
  readonly #changed = new Set<Listener>();
  #isClosed = false;

  constructor(options: FleetOptions) {
    this.#logger = options.logger;
    const healthIntervalMs = options.healthIntervalMs ?? 2000;
    // Half an interval: the next regular check may close it, the one that the failure itself sets off may not.
    this.#breaker = { threshold: options.breakerThreshold ?? 3, holdMs: healthIntervalMs / 2 };
    this.#timeouts = { ...DEFAULT_LEG_TIMEOUTS, ...options.timeouts };
    this.#connections = options.connections;
    const timeoutMs = options.probeTimeoutMs ?? 3000;
    this.#agent = new Agent({ allowH2: false, autoSelectFamily: true, connect: { timeout: timeoutMs }, connections: 4, pipelining: 1 });
    this.#monitorSettings = {
      dispatcher: this.#agent,
      headers: {
        accept: '*/*',
        [options.ownHeader ?? 'x-pdscope-probe']: '1',
        ...(options.apiKey !== undefined && options.apiKey !== '' && { authorization: `Bearer ${options.apiKey}` }),
      },
      healthIntervalMs,
      scrapeIntervalMs: options.scrapeIntervalMs ?? 2000,
      timeoutMs,
      lanes: { prompt: new Limiter(PROMPT_LANE), suspect: new Limiter(SUSPECT_LANE) },
    };
  }

  // Reading

  get(id: InstanceId): Instance | undefined {
    return this.#instances.get(id);
  }

  /** In the order of joining. The same array until the fleet changes. */
  list(): readonly Instance[] {
    this.#list ??= [...this.#instances.values()];
    return this.#list;
  }

  candidates(kind: LegKind): Candidates {
    let cached = this.#candidates.get(kind);
    if (cached === undefined) {
      cached = candidatesOf(this.#instances.values(), kind);
      this.#candidates.set(kind, cached);
    }
    return cached;
  }

  /** The instance at an address as a person writes it, if it is in the fleet. @throws PdscopeError `address_*`. */
  findByAddress(text: string, role?: Role): Instance | undefined {
    const { origin } = parseAddress(text);
    return this.list().find((instance) => instance.origin === origin && (role === undefined || instance.role === role));
  }

  onAdded(listener: Listener): () => void {
    return listen(this.#added, listener);
  }

  onRemoved(listener: Listener): () => void {
    return listen(this.#removed, listener);
  }

  /** State, breaker, models or simulation mark changed. Not called for counters and gauges. */
  onChanged(listener: Listener): () => void {
    return listen(this.#changed, listener);
  }

  // Joining

  /** Asks an address what it is, and whether it could join. @throws PdscopeError `address_*` for a bad address. */
  async probe(spec: InstanceSpec): Promise<ProbeResult> {
    const { origin } = parseAddress(spec.url);
    return toProbeResult(await this.#probe(origin), spec.role, this.list());
  }

  /**
   * Probes and joins. `force` overrides another model, bad health and anything else with `canForce`.
   * @throws PdscopeError `address_*`, `instance_duplicate`, `instance_name_taken`, `instance_unreachable`,
   * `instance_unhealthy`, `instance_unauthorized`, `instance_redirect`, `instance_not_vllm`, `model_mismatch`.
   */
  async add(spec: InstanceSpec, options: { readonly force?: boolean } = {}): Promise<Instance> {
    const { origin } = parseAddress(spec.url);
    refuseTaken(origin, spec, this.list());
    const key = `${origin} ${spec.role}`;
    if (this.#joining.has(key)) throw new PdscopeError('instance_duplicate', `${origin} is being added as ${spec.role} already.`);
    this.#joining.add(key);
    try {
      const findings = await this.#probe(origin);
      refuseUnfit(findings, this.list(), options.force ?? false);
      const mismatch = modelMismatch(findings.models, this.list());
      // Others may have joined meanwhile.
      refuseTaken(origin, spec, this.list());
      const instance = this.#join(origin, spec);
      applyFindings(instance, findings);
      instance.health = findings.isHealthy ? okHealth(mismatch) : { kind: 'bad', problem: findings.problem ?? 'unhealthy' };
      this.#announce(instance);
      return instance;
    } finally {
      this.#joining.delete(key);
    }
  }

  /**
   * Joins without waiting, as `starting`; a probe decides what becomes of it, and keeps trying.
   * @throws PdscopeError `address_*`, `instance_duplicate`, `instance_name_taken`.
   */
  addConfigured(spec: InstanceSpec): Instance {
    return this.join(spec);
  }

  join(spec: InstanceSpec, registeredBy?: 'moriio'): Instance {
    const { origin } = parseAddress(spec.url);
    refuseTaken(origin, spec, this.list());
    const instance = this.#join(origin, spec, registeredBy);
    this.#announce(instance);
    return instance;
  }

  leave(id: InstanceId, reason: string): void {
    const instance = this.#instances.get(id);
    if (instance === undefined) return;
    this.#logger.warn({ instance: id, reason }, 'instance leaves by itself');
    this.drain(id);
  }

  recheck(id: InstanceId): void {
    const instance = this.#instances.get(id);
    if (instance !== undefined) this.#checkNow(instance);
  }

  /**
   * Its process was started anew: what checks and legs told of the one before counts no more, nor does a check that is under
   * way. It is `starting` until one that begins now has succeeded.
   */
  renew(id: InstanceId): void {
    const instance = this.#instances.get(id);
    if (instance === undefined) return;
    this.#monitors.get(id)?.stop();
    instance.health = { kind: 'unknown' };
    if (instance.circuit.reset()) this.#notify(instance);
    this.#refresh(instance);
    const monitor = this.#monitor(instance);
    this.#monitors.set(id, monitor);
    monitor.start();
  }

  // Changing

  /** No new legs from now on; when those in flight have ended, it leaves (default) or stays disabled. */
  drain(id: InstanceId, options: { readonly thenRemove?: boolean } = {}): Instance {
    const instance = this.#require(id);
    instance.mode = { kind: 'draining', thenRemove: options.thenRemove ?? true };
    this.#refresh(instance);
    this.#finishDrain(instance);
    return instance;
  }

  /** Takes legs again; also stops a drain and closes the breaker. */
  enable(id: InstanceId): Instance {
    const instance = this.#require(id);
    instance.mode = { kind: 'active' };
    if (instance.circuit.reset()) this.#notify(instance);
    this.#refresh(instance);
    this.#monitors.get(id)?.kick();
    return instance;
  }

  /** Stays in the fleet and is watched, but gets no new legs. */
  disable(id: InstanceId): Instance {
    const instance = this.#require(id);
    instance.mode = { kind: 'disabled', reason: 'disabled by the operator' };
    this.#refresh(instance);
    return instance;
  }

  /**
   * Takes it out. `force` cancels the legs in flight (they fail, and may be retried elsewhere).
   * @throws PdscopeError `instance_not_found`; `instance_busy` with legs in flight and no force.
   */
  async remove(id: InstanceId, options: { readonly force?: boolean } = {}): Promise<{ readonly removed: InstanceId; readonly cancelled: number }> {
    const instance = this.#require(id);
    const cancelled = instance.inFlight;
    if (cancelled > 0 && options.force !== true) {
      const requests = cancelled === 1 ? '1 request' : `${cancelled} requests`;
      throw new PdscopeError('instance_busy', `${instance.name} has ${requests} in flight: drain it first, or remove with force to cancel them.`, { retryable: true });
    }
    this.#leave(instance);
    if (cancelled > 0) await instance.pool.destroy(new PdscopeError('instance_removed', `${instance.name} was removed while the request was in flight.`, { retryable: true }));
    return { removed: id, cancelled };
  }

  // Counting legs

  /** Whether a leg of a request is in flight to any instance. */
  get isServing(): boolean {
    return this.#legs > 0;
  }

  legStarted(instance: Instance, rank?: number): void {
    instance.inFlight += 1;
    this.#legs += 1;
    countRank(instance, rank, 1);
  }

  legEnded(instance: Instance, outcome: 'ok' | 'failed' | 'aborted', reason?: string, rank?: number): void {
    const managed = instance as ManagedInstance;
    managed.inFlight -= 1;
    this.#legs -= 1;
    countRank(managed, rank, -1);
    if (managed.isRemoved) return;
    if (outcome === 'ok') {
      managed.served += 1;
      managed.circuit.succeeded();
    } else if (outcome === 'failed') {
      managed.failed += 1;
      if (managed.circuit.failed(performance.now(), reason)) {
        this.#logger.warn({ instance: managed.id, reason: managed.circuit.reason }, 'breaker opened');
        this.#notify(managed);
      }
      // A failed leg is news about health: ask now instead of at the next turn.
      this.#checkNow(managed);
    }
    if (managed.inFlight === 0 && managed.mode.kind === 'draining') this.#finishDrain(managed);
  }

  /** Stops all watching and closes every connection. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const monitor of this.#monitors.values()) monitor.stop();
    this.#monitors.clear();
    await Promise.all([...this.#instances.values()].map((instance) => instance.pool.destroy()));
    await this.#agent.destroy();
  }

  // Inside

  /** Health, models, version and engine id. */
  #checkNow(instance: ManagedInstance): void {
    instance.wantsProbe = true;
    this.#monitors.get(instance.id)?.kick();
  }

  #probe(origin: string): Promise<ProbeFindings> {
    const { dispatcher, headers, timeoutMs } = this.#monitorSettings;
    return probeOrigin(origin, { dispatcher, headers, timeoutMs });
  }

  #require(id: InstanceId): ManagedInstance {
    const instance = this.#instances.get(id);
    if (instance === undefined) throw new PdscopeError('instance_not_found', `There is no instance "${id}" in the fleet.`);
    return instance;
  }

  #join(origin: string, spec: InstanceSpec, registeredBy?: 'moriio'): ManagedInstance {
    if (this.#isClosed) throw new PdscopeError('fleet_closed', 'The engine is shutting down.');
    const prefix = ROLE_PREFIX[spec.role];
    let index = this.#nextIndex.get(spec.role) ?? 0;
    // A name given by hand may look like one of ours.
    while (this.list().some((instance) => instance.name === `${prefix}${index}`)) index += 1;
    this.#nextIndex.set(spec.role, index + 1);
    const instance = new ManagedInstance({
      id: `${prefix}${index}`.toLowerCase() as InstanceId,
      name: spec.name ?? `${prefix}${index}`,
      role: spec.role,
      origin,
      kvEvents: spec.kvEvents,
      dpSize: spec.dpSize,
      bootstrapPort: spec.bootstrapPort,
      kvBytesPerToken: spec.kvBytesPerToken,
      registeredBy,
      pool: { timeouts: this.#timeouts, connections: this.#connections },
      breaker: this.#breaker,
    });
    this.#instances.set(instance.id, instance);
    this.#monitors.set(instance.id, this.#monitor(instance));
    return instance;
  }

  /** Tells the listeners and begins to watch. */
  #announce(instance: ManagedInstance): void {
    instance.refreshState();
    this.#forgetCaches();
    this.#logger.info({ instance: instance.id, role: instance.role, origin: instance.origin, state: instance.state }, 'instance joined');
    for (const listener of this.#added) listener(instance);
    this.#monitors.get(instance.id)?.start();
  }

  #leave(instance: ManagedInstance): void {
    instance.isRemoved = true;
    this.#monitors.get(instance.id)?.stop();
    this.#monitors.delete(instance.id);
    this.#instances.delete(instance.id);
    this.#forgetCaches();
    this.#logger.info({ instance: instance.id, inFlight: instance.inFlight }, 'instance left');
    for (const listener of this.#removed) listener(instance);
    if (instance.inFlight === 0) {
      instance.pool.close().catch((error: unknown) => this.#logger.debug({ instance: instance.id, error }, 'closing connections failed'));
    }
  }

  #finishDrain(instance: ManagedInstance): void {
    if (instance.mode.kind !== 'draining' || instance.inFlight > 0) return;
    if (instance.mode.thenRemove) {
      this.#leave(instance);
      return;
    }
    instance.mode = { kind: 'disabled', reason: 'drained' };
    this.#refresh(instance);
  }

  #monitor(instance: ManagedInstance): InstanceMonitor {
    const events = watchEvents(instance, {
      logger: this.#logger,
      others: () => this.list().filter((other) => other !== instance),
      refresh: () => this.#refresh(instance),
      changed: () => this.#notify(instance),
    });
    return new InstanceMonitor(instance.origin, this.#monitorSettings, events);
  }

  #refresh(instance: ManagedInstance): void {
    const before = instance.state;
    if (!instance.refreshState()) return;
    if (instance.state !== before) this.#logger.info({ instance: instance.id, from: before, to: instance.state, reason: instance.stateReason }, 'instance state');
    this.#notify(instance);
  }

  #notify(instance: ManagedInstance): void {
    this.#forgetCaches();
    for (const listener of this.#changed) listener(instance);
  }

  #forgetCaches(): void {
    this.#candidates.clear();
    this.#list = undefined;
  }
}

function listen(listeners: Set<Listener>, listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/**
 * Which engines have registered, and what follows for the fleet: a registration joins as an instance or belongs to one
 * configured by hand; a changed one replaces the last; an engine that fell silent leaves when it is unhealthy as well.
 * The protocol has no goodbye and engines that are busy may miss pings, so silence alone proves nothing.
 *
 * Invariants: one entry per origin, at most `MAX_ENTRIES`; an instance configured by hand never leaves because of this,
 * and one that a person removed does not come back by itself; the transfer mode in force is the configured one, else
 * that of the first entry, until no entry has it any more.
 */
import { errorMessage } from '#shared/errors.ts';
import type { Verdict } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from '../../../fleet/instance.ts';
import type { FleetRoster } from '../../../fleet/ports.ts';
import { setDpSize } from '../../../fleet/ranks.ts';
import type { Logger } from '../../../log.ts';
import type { MoriioRegistration, TransferMode } from './message.ts';
import { instanceLeft, modeMismatch, notTaken, tooMany } from './verdicts.ts';

export interface RegistryOptions {
  readonly fleet: FleetRoster;
  readonly logger: Logger;
  /** Transfer mode that instances must have. Default: that of the first one. */
  readonly mode: TransferMode | undefined;
  /** Expected between two pings until learned otherwise, ms. */
  readonly pingMs: number;
  readonly report: (verdict: Verdict) => void;
}

export interface Entry {
  registration: MoriioRegistration;
  /** In the fleet; undefined when it is not, see `problem` and `isSetAside`. */
  instance: Instance | undefined;
  /** Why the fleet did not take it. */
  problem: string | undefined;
  /** A person removed the instance; it stays out until it is added by hand or its engine was gone. */
  isSetAside: boolean;
  pings: number;
  lastAtMs: number;
  lastAtUnixMs: number;
  intervalMs: number;
  lastGapMs: number;
  /** The fleet was asked for its health since it fell silent. */
  isAsked: boolean;
  isMismatchReported: boolean;
}

/** Pings missed before an engine counts as silent. */
export const MISSED_PINGS = 3;
export const MAX_ENTRIES = 1024;
/** Weight of the newest gap in the learned interval. */
const LEARNING_RATE = 0.25;

export class Registry {
  readonly #options: RegistryOptions;
  readonly #entries = new Map<string, Entry>();
  /** Asked to leave by this registry, and perhaps still waiting for their requests. */
  readonly #leaving = new Set<InstanceId>();
  readonly #stops: readonly (() => void)[];
  #mode: TransferMode | undefined;
  #isPaused = false;
  #left = 0;
  #overflow = 0;

  constructor(options: RegistryOptions) {
    this.#options = options;
    this.#mode = options.mode;
    const { fleet } = options;
    this.#stops = [
      fleet.onAdded((instance) => this.#onAdded(instance)),
      fleet.onRemoved((instance) => this.#onRemoved(instance)),
    ];
  }

  /** In force; undefined before the first registration. */
  get mode(): TransferMode | undefined {
    return this.#mode;
  }

  get isModeConfigured(): boolean {
    return this.#options.mode !== undefined;
  }

  /** In the order of their first registration. */
  get entries(): readonly Entry[] {
    return [...this.#entries.values()];
  }

  /** Engines that fell silent and were let go. */
  get leftCount(): number {
    return this.#left;
  }

  /** Registrations beyond the limit. */
  get overflowCount(): number {
    return this.#overflow;
  }

  of(instance: Instance): MoriioRegistration | undefined {
    return this.#entries.get(instance.origin)?.registration;
  }

  /** An engine said that it is there. @param nowMs monotonic. */
  heard(registration: MoriioRegistration, nowMs: number): void {
    const entry = this.#entries.get(registration.origin);
    if (entry === undefined) {
      this.#enter(registration, nowMs);
      return;
    }
    this.#learnInterval(entry, nowMs);
    entry.pings += 1;
    entry.lastAtMs = nowMs;
    entry.lastAtUnixMs = Date.now();
    entry.isAsked = false;
    if (!isSame(entry.registration, registration)) this.#replace(entry, registration);
    if (entry.instance === undefined && !entry.isSetAside) this.#attach(entry);
    this.#checkMode(entry);
  }

  /** Looks for engines that fell silent. @param nowMs monotonic. */
  check(nowMs: number): void {
    for (const entry of this.entries) {
      if (missedPings(entry, nowMs) < MISSED_PINGS) continue;
      const { instance } = entry;
      if (instance === undefined) this.#forget(entry);
      else if (instance.state === 'down') this.#letGo(entry, instance, nowMs);
      else if (!entry.isAsked) {
        entry.isAsked = true;
        this.#options.fleet.recheck(instance.id);
      }
    }
  }

  /** Nobody listens from now on: an instance that is removed meanwhile is forgotten, not set aside. */
  pause(): void {
    this.#isPaused = true;
  }

  /** Listening again: silence until now does not count. @param nowMs monotonic. */
  resume(nowMs: number): void {
    this.#isPaused = false;
    for (const entry of this.#entries.values()) {
      entry.lastAtMs = nowMs;
      entry.isAsked = false;
    }
  }

  /** Why an instance cannot take a leg; undefined when it can. */
  refusal(instance: Instance, kind: LegKind): string | undefined {
    if (kind === 'encode' || kind === 'render') return undefined;
    const entry = this.#entries.get(instance.origin);
    if (kind === 'forward') {
      const role = entry?.registration.role ?? instance.role;
      return role === 'decode' ? 'a MoRIIO decode instance cannot compute a prompt' : undefined;
    }
    if (entry === undefined) return 'no MoRIIO registration';
    const { role, mode } = entry.registration;
    if (role !== kind) return `registered as a ${role} instance`;
    return mode === this.#mode ? undefined : `transfer mode ${mode}, but ${this.#mode ?? 'none'} is in force`;
  }

  close(): void {
    for (const stop of this.#stops) stop();
    this.#entries.clear();
  }

  #enter(registration: MoriioRegistration, nowMs: number): void {
    if (this.#entries.size >= MAX_ENTRIES) {
      this.#overflow += 1;
      if (this.#overflow === 1) this.#options.report(tooMany(registration, MAX_ENTRIES));
      return;
    }
    const entry: Entry = {
      registration,
      instance: undefined,
      problem: undefined,
      isSetAside: false,
      pings: 1,
      lastAtMs: nowMs,
      lastAtUnixMs: Date.now(),
      intervalMs: this.#options.pingMs,
      lastGapMs: this.#options.pingMs,
      isAsked: false,
      isMismatchReported: false,
    };
    this.#entries.set(registration.origin, entry);
    this.#settleMode();
    this.#attach(entry);
    this.#checkMode(entry);
  }

  /** A ping may be late or doubled: one gap weighs little. A long one is silence, unless the one before was long as well. */
  #learnInterval(entry: Entry, nowMs: number): void {
    const { pingMs } = this.#options;
    const gap = Math.min(Math.max(nowMs - entry.lastAtMs, pingMs / 4), pingMs * 20);
    const learned = gap > entry.intervalMs * 2 ? Math.min(gap, entry.lastGapMs) : gap;
    entry.lastGapMs = gap;
    entry.intervalMs += (learned - entry.intervalMs) * LEARNING_RATE;
  }

  #replace(entry: Entry, registration: MoriioRegistration): void {
    const previous = entry.registration;
    this.#options.logger.info({ origin: registration.origin, zmqAddress: registration.zmqAddress, was: previous.zmqAddress }, 'MoRIIO registration changed');
    entry.registration = registration;
    entry.isMismatchReported = false;
    this.#settleMode();
    const { instance } = entry;
    if (instance === undefined) return;
    if (fits(instance, registration)) {
      takeDpSize(instance, registration);
      // It was restarted: what else is known of it may be old as well.
      this.#options.fleet.recheck(instance.id);
      return;
    }
    // The engine came back in the other role.
    entry.instance = undefined;
    if (instance.registeredBy === 'moriio') this.#leave(instance, `its engine registers as ${registration.role} now`);
  }

  #attach(entry: Entry): void {
    const { fleet, logger, report } = this.#options;
    const { registration } = entry;
    const { origin, role, dpSize } = registration;
    try {
      const instance = fleet.list().find((candidate) => fits(candidate, registration)) ?? fleet.join({ role, url: origin, dpSize }, 'moriio');
      entry.instance = instance;
      entry.problem = undefined;
      takeDpSize(instance, registration);
    } catch (error) {
      const problem = errorMessage(error);
      if (problem === entry.problem) return;
      entry.problem = problem;
      logger.warn({ origin, role, problem }, 'a MoRIIO engine cannot join the fleet');
      report(notTaken(registration, problem));
    }
  }

  #checkMode(entry: Entry): void {
    const { registration, instance } = entry;
    if (registration.mode === this.#mode || this.#mode === undefined || entry.isMismatchReported) return;
    entry.isMismatchReported = true;
    this.#options.report(modeMismatch(registration, this.#mode, instance?.id));
  }

  /** Stays while any entry has it. */
  #settleMode(): void {
    if (this.#options.mode !== undefined) return;
    let first: TransferMode | undefined;
    for (const { registration } of this.#entries.values()) {
      if (registration.mode === this.#mode) return;
      first ??= registration.mode;
    }
    this.#mode = first;
  }

  #letGo(entry: Entry, instance: Instance, nowMs: number): void {
    this.#forget(entry);
    if (instance.registeredBy !== 'moriio') return;
    const seconds = Math.round((nowMs - entry.lastAtMs) / 1000);
    const reason = `no MoRIIO registration for ${seconds} s, and down: ${instance.stateReason ?? 'unhealthy'}`;
    this.#left += 1;
    this.#options.report(instanceLeft(instance, reason));
    this.#leave(instance, reason);
  }

  #leave(instance: Instance, reason: string): void {
    this.#leaving.add(instance.id);
    this.#options.fleet.leave(instance.id, reason);
  }

  #forget(entry: Entry): void {
    this.#entries.delete(entry.registration.origin);
    this.#settleMode();
  }

  #onAdded(instance: Instance): void {
    const entry = this.#entries.get(instance.origin);
    if (entry === undefined || entry.instance !== undefined || !fits(instance, entry.registration)) return;
    entry.instance = instance;
    entry.isSetAside = false;
    entry.problem = undefined;
    takeDpSize(instance, entry.registration);
  }

  #onRemoved(instance: Instance): void {
    const isOurs = this.#leaving.delete(instance.id);
    const entry = this.#entries.get(instance.origin);
    if (entry?.instance !== instance) return;
    entry.instance = undefined;
    if (this.#isPaused) {
      this.#forget(entry);
      return;
    }
    // When it was let go and registers again, the next ping lets it join anew.
    entry.isSetAside = !isOurs;
  }
}

export function missedPings({ lastAtMs, intervalMs }: Entry, nowMs: number): number {
  return Math.max(0, Math.floor((nowMs - lastAtMs) / intervalMs));
}

function fits(instance: Instance, { origin, role }: MoriioRegistration): boolean {
  return instance.origin === origin && (instance.role === role || instance.role === 'both');
}

/** What a person gave is not overruled. */
function takeDpSize(instance: Instance, { dpSize }: MoriioRegistration): void {
  if (instance.registeredBy === 'moriio' || instance.dpSizeSource !== 'given') setDpSize(instance, dpSize, 'registration');
}

function isSame(one: MoriioRegistration, other: MoriioRegistration): boolean {
  return (
    one.zmqAddress === other.zmqAddress &&
    one.role === other.role &&
    one.schema === other.schema &&
    one.dpSize === other.dpSize &&
    one.tpSize === other.tpSize &&
    one.mode === other.mode &&
    one.handshakePort === other.handshakePort &&
    one.notifyPort === other.notifyPort
  );
}

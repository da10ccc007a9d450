/**
 * What the findings of one instance's monitor mean for the instance: health, facts, gauges, ranks. The fleet is told
 * through `WatchHooks`; nothing here knows of other instances except to compare models.
 */
import type { Logger } from '../log.ts';
import type { ManagedInstance } from './managed-instance.ts';
import type { MonitorEvents } from './instance-monitor.ts';
import { discoverKvEvents } from './kv-events-discovery.ts';
import { modelMismatch } from './model-match.ts';
import type { Instance } from './instance.ts';
import type { ProbeFindings } from './probe.ts';
import { setDpSize } from './ranks.ts';

/** Health checks that may time out before an instance counts as down: a busy engine may answer late once. */
const TIMEOUT_STRIKES = 2;
/** Failed scrapes after which the last gauges are too old to show. */
const STALE_SCRAPES = 5;
/** A restart between two checks shows only in models, version and engine id: these are asked again with every n-th check. */
const REPROBE_CHECKS = 10;

export interface WatchHooks {
  readonly logger: Logger;
  /** All but this instance. */
  others(): readonly Instance[];
  /** Derive the public state again. */
  refresh(): void;
  /** Something that others build on has changed. */
  changed(): void;
}

export function watchEvents(instance: ManagedInstance, hooks: WatchHooks): MonitorEvents {
  let checks = 0;
  return {
    needsProbe: () => {
      checks += 1;
      const isAsked = instance.wantsProbe;
      instance.wantsProbe = false;
      return isAsked || instance.health.kind !== 'ok' || checks % REPROBE_CHECKS === 0;
    },
    probed: (findings) => {
      // What a healthy instance is known to be does not get lost to one failed question.
      if (instance.health.kind === 'ok' && findings.problem !== undefined) return;
      const wasOk = instance.health.kind === 'ok';
      const hasChanged = applyFindings(instance, findings);
      instance.health = okHealth(modelMismatch(findings.models, hooks.others()) ?? findings.problem);
      // Coming up is a change of its own, told by `refresh`.
      if (hasChanged && wasOk) hooks.changed();
    },
    healthy: (startedAtMs) => {
      if (instance.circuit.checked(startedAtMs)) {
        hooks.logger.info({ instance: instance.id }, 'breaker closed');
        hooks.changed();
      }
      hooks.refresh();
    },
    unhealthy: (problem, isTimeout, strikes) => {
      if (isTimeout && strikes < TIMEOUT_STRIKES && instance.health.kind === 'ok') return;
      instance.health = { kind: 'bad', problem };
      hooks.refresh();
    },
    scraped: (gauges) => {
      instance.gauges = gauges;
      instance.scrapeError = undefined;
      if (gauges.dpRanks !== undefined && applyDpSize(instance, gauges.dpRanks, 'metrics')) hooks.changed();
    },
    scrapeFailed: (problem, strikes) => {
      instance.scrapeError = problem;
      if (strikes >= STALE_SCRAPES) instance.gauges = undefined;
    },
  };
}

/** Takes over what a probe found. @returns whether facts that connectors build on (engine id, ranks, version) changed. */
export function applyFindings(instance: ManagedInstance, findings: ProbeFindings): boolean {
  const before = `${instance.version} ${instance.transfer?.engineId} ${instance.transfer?.kvConnector}`;
  instance.isSimulated = findings.isSimulated;
  instance.models = findings.models;
  instance.maxModelLen = findings.maxModelLen;
  instance.version = findings.version;
  instance.transfer = findings.server?.transfer;
  const dpSize = findings.server?.dpSize;
  const told = findings.server?.kvEvents;
  const found = instance.kvEvents === undefined && told !== undefined ? discoverKvEvents(instance.origin, told) : undefined;
  if (found !== undefined) instance.kvEvents = found;
  const hasOtherRanks = dpSize !== undefined && applyDpSize(instance, dpSize, 'server_info');
  return found !== undefined || hasOtherRanks || before !== `${instance.version} ${instance.transfer?.engineId} ${instance.transfer?.kvConnector}`;
}

/** How much a source of the number of ranks is worth; what a person gave is never overruled. */
const WORTH = { default: 0, metrics: 1, registration: 2, server_info: 2, given: 3 } as const;

/** @returns whether the number of ranks changed. */
function applyDpSize(instance: Instance, size: number, source: Instance['dpSizeSource']): boolean {
  if (WORTH[source] < WORTH[instance.dpSizeSource]) return false;
  const before = instance.dpSize;
  setDpSize(instance, size, source);
  return before !== instance.dpSize;
}

export function okHealth(note: string | undefined): ManagedInstance['health'] {
  return { kind: 'ok', ...(note !== undefined && { note }) };
}

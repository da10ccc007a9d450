/** What the MoRIIO connector shows of itself: registrations, what it refused, the transfer mode, and what to do. */
import { MAX_STATUS_ROWS, type ConnectorStatus, type StatusCell, type StatusTable } from '#shared/protocol.ts';
import type { Instance } from '../../../fleet/instance.ts';
import { instanceCell } from '../instance-cell.ts';
import { MAX_REFUSALS, type Refusals } from './refusals.ts';
import { MAX_ENTRIES, MISSED_PINGS, missedPings, type Entry, type Registry } from './registry.ts';

export interface MoriioCounts {
  readonly registrations: number;
  readonly hellos: number;
  /** Registrations that name hosts outside the allowed ones. */
  readonly notAllowed: number;
  readonly p2pNccl: number;
  readonly malformed: number;
}

export interface StatusInput {
  /** `tcp://host:port`; undefined while not bound. */
  readonly endpoint: string | undefined;
  readonly port: number;
  readonly registry: Registry;
  readonly refusals: Refusals;
  readonly counts: MoriioCounts;
  /** All of the fleet. */
  readonly instances: readonly Instance[];
  /** Monotonic. */
  readonly nowMs: number;
}

const NAMES_SHOWN = 5;

type Notice = ConnectorStatus['notices'][number];

export function moriioStatus(input: StatusInput): ConnectorStatus {
  const { endpoint, registry, counts } = input;
  return {
    connector: 'moriio',
    summary:
      'Engines register at a ZeroMQ port. READ: prefill, then decode reads its blocks. WRITE: both at once, prefill writes into the blocks of decode.',
    notices: notices(input),
    facts: [
      { title: 'Registration socket', value: endpoint ?? 'closed' },
      { title: 'Transfer mode', value: describeMode(registry) },
      { title: 'Registrations received', value: counts.registrations },
      { title: 'HELLO messages', value: counts.hellos },
      { title: 'Refused: hosts not allowed', value: counts.notAllowed },
      { title: 'Refused: P2P-NCCL heartbeats', value: counts.p2pNccl },
      { title: 'Refused: malformed messages', value: counts.malformed },
    ],
    tables: [registrationTable(input), refusalTable(input.refusals)],
  };
}

function describeMode(registry: Registry): StatusCell {
  const { mode } = registry;
  if (mode === undefined) return null;
  return registry.isModeConfigured ? `${mode} (configured)` : `${mode} (of the first instance registered)`;
}

function notices({ endpoint, port, registry, counts, instances, nowMs }: StatusInput): readonly Notice[] {
  const found: Notice[] = [];
  const { entries, mode, overflowCount } = registry;
  if (endpoint === undefined) {
    found.push({ severity: 'info', message: 'The registration socket is closed while another protocol is in force.' });
  } else if (entries.length === 0) {
    found.push({ severity: 'warning', message: `No engine has registered yet. ${howToStart(endpoint.split(':').at(-1) ?? String(port))}` });
  }
  const mismatched = entries.filter(({ registration }) => registration.mode !== mode);
  if (mismatched.length > 0 && mode !== undefined) {
    const message = `${names(mismatched)}: registered with another transfer mode than ${mode}, and get no requests. Start all with the same read_mode.`;
    found.push({ severity: 'error', message });
  }
  const silent = entries.filter((entry) => missedPings(entry, nowMs) >= MISSED_PINGS);
  if (endpoint !== undefined && silent.length > 0) {
    const message = `${names(silent)}: no registration for ${MISSED_PINGS} intervals or more, but not known to be down. They stay; check that they can still reach this port.`;
    found.push({ severity: 'warning', message });
  }
  const outside = entries.filter(({ isSetAside, problem }) => isSetAside || problem !== undefined);
  for (const { registration, problem } of outside.slice(0, NAMES_SHOWN)) {
    const why = problem === undefined ? 'was removed by hand and is left out; add it again to use it' : `cannot join: ${problem}`;
    found.push({ severity: 'warning', message: `${registration.origin} registers, but ${why}.` });
  }
  const unregistered = instances.filter((instance) => instance.role !== 'encode' && registry.of(instance) === undefined);
  if (unregistered.length > 0) {
    const message = `${list(unregistered.map(({ name }) => name))}: in the fleet without a MoRIIO registration, and cannot be used. ${howToStart(String(port))}`;
    found.push({ severity: 'warning', message });
  }
  const schemas = new Set(entries.map(({ registration }) => (registration.schema === 'v2' ? 'v2' : 'v1')));
  if (schemas.size > 1) {
    found.push({ severity: 'warning', message: 'Engines from before and since 2026-04-23 have registered: use one vLLM version, transfers between them are not promised.' });
  }
  if (counts.notAllowed > 0) {
    found.push({ severity: 'warning', message: `${counts.notAllowed} registrations name hosts that --moriio-allow leaves out. See the table of refused messages.` });
  }
  if (counts.p2pNccl > 0) {
    found.push({ severity: 'error', message: `${counts.p2pNccl} heartbeats of P2P-NCCL engines were refused: that is another protocol. See the table of refused messages.` });
  }
  if (counts.malformed > 0) {
    found.push({ severity: 'warning', message: `${counts.malformed} messages were no registrations. See the table of refused messages.` });
  }
  if (overflowCount > 0) {
    found.push({ severity: 'error', message: `${overflowCount} registrations were ignored: ${MAX_ENTRIES} engines are kept at most.` });
  }
  return found;
}

function howToStart(port: string): string {
  return `Start vLLM with --kv-transfer-config '{"kv_connector":"MoRIIOConnector","kv_role":"kv_producer" or "kv_consumer","kv_connector_extra_config":{"proxy_ip":"<address of this machine>","proxy_ping_port":"${port}","http_port":"<port of vllm serve>"}}'.`;
}

function registrationTable({ registry, nowMs }: StatusInput): StatusTable {
  const { entries } = registry;
  return {
    id: 'registrations',
    title: 'Registrations',
    summary: `One row per engine, from its first registration on. It goes when ${MISSED_PINGS} registrations are missing and the engine is down as well.`,
    columns: [
      { title: 'Instance' },
      { title: 'Role' },
      { title: 'Schema' },
      { title: 'Transfer address' },
      { title: 'DP' },
      { title: 'TP' },
      { title: 'Mode' },
      { title: 'Last registration' },
      { title: 'Interval', unit: 'ms' },
      { title: 'Missed' },
      { title: 'State' },
    ],
    rows: entries
      .toSorted((one, other) => other.lastAtUnixMs - one.lastAtUnixMs)
      .slice(0, MAX_STATUS_ROWS)
      .map((entry) => registrationRow(entry, registry, nowMs)),
    total: entries.length,
    capacity: MAX_ENTRIES,
    evicted: registry.overflowCount,
    expired: registry.leftCount,
  };
}

function registrationRow(entry: Entry, registry: Registry, nowMs: number): readonly StatusCell[] {
  const { instance, registration, lastAtUnixMs, intervalMs } = entry;
  const { role, schema, zmqAddress, dpSize, tpSize, mode, origin } = registration;
  const missed = missedPings(entry, nowMs);
  return [
    instance === undefined ? origin : instanceCell(instance),
    role,
    schema,
    zmqAddress,
    dpSize,
    tpSize,
    mode,
    { atUnixMs: lastAtUnixMs },
    Math.round(intervalMs),
    missed,
    describeState(entry, missed, registry),
  ];
}

function describeState({ instance, problem, isSetAside, registration }: Entry, missed: number, { mode }: Registry): string {
  if (problem !== undefined) return 'cannot join';
  if (isSetAside) return 'removed by hand';
  if (registration.mode !== mode) return 'refused: transfer mode';
  if (missed >= MISSED_PINGS) return `silent, ${instance?.state ?? 'not in the fleet'}`;
  return instance?.state ?? 'joins with the next registration';
}

function refusalTable(refusals: Refusals): StatusTable {
  return {
    id: 'refused',
    title: 'Refused messages',
    summary: 'One row per kind of message that was refused, the latest first.',
    columns: [{ title: 'What' }, { title: 'Reason' }, { title: 'Count' }, { title: 'Last' }],
    rows: refusals.list().map(({ what, reason, count, lastAtUnixMs }) => [what, reason, count, { atUnixMs: lastAtUnixMs }]),
    total: refusals.size,
    capacity: MAX_REFUSALS,
    evicted: refusals.evicted,
  };
}

function names(entries: readonly Entry[]): string {
  return list(entries.map(({ instance, registration }) => instance?.name ?? registration.origin));
}

function list(texts: readonly string[]): string {
  const shown = texts.slice(0, NAMES_SHOWN).join(', ');
  return texts.length > NAMES_SHOWN ? `${shown} and ${texts.length - NAMES_SHOWN} more` : shown;
}

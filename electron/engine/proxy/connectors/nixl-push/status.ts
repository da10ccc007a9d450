/** The NIXL push connector's state for people. */
import { MAX_STATUS_ROWS, type ConnectorStatus, type StatusCell } from '#shared/protocol.ts';
import type { Instance } from '../../../fleet/instance.ts';
import { withoutRank } from '../../../fleet/ranks.ts';
import { instanceCell } from '../instance-cell.ts';
import type { Slot, Slots } from './slots.ts';

export interface PushCounts {
  /** Handoffs with both legs at once, and one after the other. */
  readonly overlapped: number;
  readonly serial: number;
  readonly stale: number;
  readonly waiting: number;
}

const PULL_CONNECTORS: ReadonlySet<string | undefined> = new Set(['NixlConnector', 'NixlPullConnector']);

export function pushStatus(slots: Slots, counts: PushCounts, instances: readonly Instance[]): ConnectorStatus {
  const known = slots.list().toReversed();
  return {
    connector: 'nixl-push',
    summary: 'Prefill and decode at the same time under one request id; prefill writes its KV into the blocks that decode registers. The first request of each engine runs serially, to learn where it is.',
    notices: [...known.flatMap(unsteady), ...instances.flatMap(pulling)],
    facts: [
      { title: 'Both legs at once', value: counts.overlapped },
      { title: 'One after the other', value: counts.serial },
      { title: 'Waiting for KV now', value: counts.waiting },
      { title: 'Coordinates learned', value: slots.learned },
      { title: 'Coordinates forgotten', value: slots.forgotten },
      { title: 'Cancelled for stale coordinates', value: counts.stale },
    ],
    tables: [
      {
        id: 'coordinates',
        title: 'Coordinates of prefill engines',
        summary: 'Learned from the first prefill answer of each instance and rank; forgotten when the instance leaves, goes down or restarts, or a leg that used them fails.',
        columns: [
          { title: 'Instance' }, { title: 'Rank' }, { title: 'Engine id' }, { title: 'Side channel' }, { title: 'TP' }, { title: 'PP' },
          { title: 'Learned' }, { title: 'Used' }, { title: '/server_info' }, { title: 'Last forgotten because' },
        ],
        rows: known.slice(0, MAX_STATUS_ROWS).map(rowOf),
        total: known.length,
        capacity: slots.capacity,
        evicted: slots.evicted,
      },
    ],
  };
}

function rowOf({ instance, rank, coordinates, learnedAtUnixMs, used, lost }: Slot): readonly StatusCell[] {
  const name = instanceCell(instance);
  if (coordinates === undefined) return [name, rank ?? null, null, null, null, null, null, null, null, lost ?? null];
  const { engineId, host, port, tpSize, ppSize } = coordinates;
  return [name, rank ?? null, engineId, `${host}:${port}`, tpSize, ppSize, { atUnixMs: learnedAtUnixMs }, used, confirmation(instance, engineId), lost ?? null];
}

/** The API server's view of the engine id has no rank. */
function confirmation({ transfer }: Instance, engineId: string): string | null {
  const told = transfer?.engineId;
  if (told === undefined) return null;
  return told === engineId || told === withoutRank(engineId) ? 'confirms' : `says ${told}`;
}

function unsteady({ instance, isUnsteady }: Slot): ConnectorStatus['notices'] {
  if (!isUnsteady) return [];
  return [{
    severity: 'warning',
    message: `${instance.name}: several data-parallel ranks answer behind this address, and pdscope does not know how many, so its requests run one leg after the other. Give the instance its number of ranks (dpSize).`,
  }];
}

function pulling({ name, transfer }: Instance): ConnectorStatus['notices'] {
  if (!PULL_CONNECTORS.has(transfer?.kvConnector)) return [];
  return [{ severity: 'error', message: `${name} runs ${transfer?.kvConnector ?? ''}, which never works with push engines. Start it with NixlPushConnector, or choose the protocol nixl.` }];
}

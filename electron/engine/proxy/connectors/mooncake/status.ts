/** The Mooncake connector's state for people. */
import { MAX_STATUS_ROWS, type ConnectorStatus, type StatusCell } from '#shared/protocol.ts';
import { instanceCell } from '../instance-cell.ts';
import type { BootstrapEntry } from './bootstrap-entry.ts';

export interface MooncakeCounts {
  /** Handoffs that decode has not answered yet. */
  readonly waiting: number;
  readonly handoffs: number;
  readonly keptNoKv: number;
  readonly staleEngineIds: number;
}

export function mooncakeStatus(entries: readonly BootstrapEntry[], counts: MooncakeCounts): ConnectorStatus {
  const rows = entries.flatMap(rowsOf);
  return {
    connector: 'mooncake',
    summary: 'Prefill and decode at the same time; decode asks prefill, named by its engine id, to push the KV of a transfer id.',
    notices: noticesOf(entries),
    facts: [
      { title: 'Prefill instances with an answer', value: `${entries.filter(({ refusal }) => refusal === undefined).length} of ${entries.length}` },
      { title: 'Handoffs', value: counts.handoffs },
      { title: 'Waiting for KV now', value: counts.waiting },
      { title: 'Prefill ended by stop', value: counts.keptNoKv },
      { title: 'Cancelled for a stale engine id', value: counts.staleEngineIds },
    ],
    tables: [
      {
        id: 'bootstrap',
        title: 'Bootstrap table',
        summary: 'What the bootstrap servers of prefill instances told, a row per data-parallel rank. Asked when an instance joins or comes up, until complete, and again after failures; never per request.',
        columns: [
          { title: 'Instance' }, { title: 'Bootstrap server' }, { title: 'Rank' }, { title: 'Engine id' }, { title: 'Workers (TP x PP)' },
          { title: 'Complete' }, { title: 'Asked' }, { title: 'Problem' },
        ],
        rows: rows.slice(0, MAX_STATUS_ROWS),
        total: rows.length,
      },
    ],
  };
}

function rowsOf(entry: BootstrapEntry): (readonly StatusCell[])[] {
  const { instance, address, ranks, isComplete, askedAtUnixMs, problem } = entry;
  const name = instanceCell(instance);
  const tail = [isComplete, askedAtUnixMs === undefined ? null : { atUnixMs: askedAtUnixMs }, problem ?? null];
  if (ranks.length === 0) return [[name, address, null, null, null, ...tail]];
  return ranks.map(({ rank, engineId, tp, pp }) => [name, address, rank, engineId, `${tp} x ${pp}`, ...tail]);
}

function noticesOf(entries: readonly BootstrapEntry[]): ConnectorStatus['notices'] {
  if (entries.length === 0) {
    return [{ severity: 'info', message: 'No prefill instance is registered. Add one with --prefill, on the Instances view or with POST /instances/add.' }];
  }
  return entries.flatMap((entry) => {
    const { instance, refusal, ranks, isComplete } = entry;
    const notices: ConnectorStatus['notices'][number][] = [];
    if (refusal !== undefined) {
      notices.push({ severity: 'error', message: `${instance.name} gets no requests: ${refusal}. Check VLLM_MOONCAKE_BOOTSTRAP_PORT there and the bootstrap port given to pdscope.` });
    } else if (!isComplete) {
      const known = instance.dpSizeSource === 'default' ? '' : ` of ${instance.dpSize}`;
      notices.push({ severity: 'warning', message: `${instance.name}: ${ranks.length}${known} ranks have registered at ${entry.address}, or not all of their workers; it is asked again until complete.` });
    }
    const told = instance.transfer?.engineId;
    const other = told === undefined ? undefined : ranks.find(({ engineId }) => engineId !== told && !isRankOf(engineId, told));
    if (other !== undefined) {
      notices.push({
        severity: 'warning',
        message: `${instance.name}: the bootstrap server names engine ${other.engineId}, /server_info ${told ?? ''}. A worker that restarted alone cannot register again: restart the whole instance.`,
      });
    }
    return notices;
  });
}

/** Engine processes append `_dp<rank>` to the id (vllm/v1/engine/core.py), the API server does not. */
function isRankOf(engineId: string, base: string): boolean {
  return engineId.startsWith(`${base}_dp`) && /^\d+$/.test(engineId.slice(base.length + 3));
}

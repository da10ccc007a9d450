/** KV rows in words: what an event did, and what pdscope noticed on its way. */
import type { KvRow } from '#shared/kv.ts';
import type { KvRowKind } from '#shared/vocabulary.ts';
import { formatInteger } from '../../ui/format.ts';

/** A sign for each kind, so that colour is never needed to tell them apart. */
export const KIND_SIGN: Readonly<Record<KvRowKind, string>> = {
  stored: '+', removed: '−', cleared: '×', unknown: '?', gap: '▲', filled: '✓', lost: '▲', restart: '▲', error: '✕',
};

/** Kinds that are sentences about the stream, not events of the engine. */
export function isNoteKind(kind: KvRowKind): boolean {
  return kind === 'gap' || kind === 'filled' || kind === 'lost' || kind === 'restart' || kind === 'error';
}

/** The sentence of a note row. */
export function noteWords(row: KvRow): string {
  return `${KIND_SIGN[row.kind]} ${row.kind}: ${row.note ?? 'no details recorded'}`;
}

/** Why blocks stored in `epoch` are no longer there; undefined while `current` is the same life of the engine, or is not known. */
export function staleWords(epoch: number, current: number | undefined): string | undefined {
  if (current === undefined || epoch >= current) return undefined;
  return `Epoch ${formatInteger(epoch)} is over: the engine started anew (now epoch ${formatInteger(current)}), and the blocks stored then are gone`;
}

/** KV rows in words: what an event did, and what pdscope noticed about a stream. */
import type { KvRow, KvStreamView } from '#shared/kv.ts';
import type { KvRowKind } from '#shared/vocabulary.ts';
import type { Tone } from '../../ui/state-mark.tsx';

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

export interface StreamHealth {
  readonly tone: Tone;
  readonly words: string;
  readonly title: string;
}

/** State of a stream as shape and word. `silent` is normal for an idle engine and stays quiet. */
export function streamHealth(stream: KvStreamView): StreamHealth {
  const reason = stream.stateReason ?? '';
  switch (stream.state) {
    case 'live':
      return stream.sawStart
        ? { tone: 'ok', words: 'live', title: reason || 'Batches arrive; seen from the first one' }
        : { tone: 'ok', words: 'live, joined late', title: reason || 'The first batch seen was not the first sent: blocks stored before are unknown' };
    case 'silent':
      return { tone: 'unknown', words: 'silent', title: reason || 'Connected, nothing received yet: normal for an idle engine' };
    case 'connecting':
      return { tone: 'busy', words: 'connecting', title: reason || 'No connection yet' };
    case 'lost':
      return { tone: 'warning', words: 'lost', title: reason || 'The connection broke and is tried again' };
    default:
      return { tone: 'error', words: 'failed', title: reason || 'The socket could not be made' };
  }
}

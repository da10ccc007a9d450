/** KV rows in words: what an event did, and what pdscope noticed about a stream. */
import type { KvCoverage, KvReplayView, KvRow, KvStreamView } from '#shared/kv.ts';
import type { KvRowKind } from '#shared/vocabulary.ts';
import { formatInteger } from '../../ui/format.ts';
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

export interface GapWords {
  readonly words: string;
  readonly title: string;
  /** Something is missing for good, or still is. */
  readonly isWarning: boolean;
}

/** `▲ 3 · 2 · 23`: gaps found, filled, and batches lost. An engine that does not tell them apart gives `▲ 3 (40)`. */
export function gapWords({ gaps, missedBatches, gapsFilled, missedFilled, missedLost }: KvStreamView): GapWords {
  if (gaps === 0) return { words: '0', title: 'No hole in the sequence', isWarning: false };
  if (gapsFilled === undefined && missedLost === undefined) {
    return { words: `▲ ${formatInteger(gaps)} (${formatInteger(missedBatches)})`, title: `${formatInteger(missedBatches)} batches missed`, isWarning: true };
  }
  const filled = gapsFilled ?? 0;
  const lost = missedLost ?? 0;
  const isWarning = lost > 0 || filled < gaps;
  return {
    words: `${isWarning ? '▲ ' : ''}${formatInteger(gaps)} · ${formatInteger(filled)} · ${formatInteger(lost)}`,
    title: `${formatInteger(gaps)} gaps missed ${formatInteger(missedBatches)} batches: ${formatInteger(missedFilled ?? 0)} brought by replay, ${formatInteger(lost)} lost for good, ${formatInteger(Math.max(0, missedBatches - (missedFilled ?? 0) - lost))} being asked for`,
    isWarning,
  };
}

/** The engine's replay socket as shape and word; undefined when the engine does not say. */
export function replayHealth(replay: KvReplayView | undefined): StreamHealth | undefined {
  if (replay === undefined) return undefined;
  const layout = replay.layout === undefined ? '' : `; replies ${replay.layout === 'topic' ? 'with a topic frame' : 'without a topic frame'}`;
  const done = `${formatInteger(replay.asked)} asked, ${formatInteger(replay.failed)} without a whole answer, ${formatInteger(replay.batches)} batches applied${layout}${replay.endpoint === undefined ? '' : `; ${replay.endpoint}`}`;
  switch (replay.state) {
    case 'none':
      return { tone: 'unknown', words: 'none', title: 'No replay socket is configured: what goes missing is lost' };
    case 'asking':
      return { tone: 'busy', words: 'asking', title: `Live batches wait for it. ${done}` };
    case 'failed':
      return { tone: 'warning', words: 'failed', title: `${replay.reason ?? 'The last question got no whole answer'}. ${done}` };
    default:
      return { tone: 'ok', words: 'idle', title: `Nothing to ask for. ${done}` };
  }
}

/** What went by unseen, for the hover of the share. */
export function coverageWords(coverage: KvCoverage | undefined): string {
  if (coverage === undefined) return 'No batch seen yet';
  const { applied, unseen, lost, unreadable } = coverage;
  return `Batches of the engine’s current life: ${formatInteger(applied)} applied, ${formatInteger(unseen)} went by before the stream was joined, ${formatInteger(lost)} lost in gaps, ${formatInteger(unreadable)} unreadable`;
}

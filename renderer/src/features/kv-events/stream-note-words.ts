/** What happened to a stream, in words: one line each, a gap with what came of it. */
import type { KvGapFate, KvNote } from '#shared/kv-notes.ts';
import { formatClock, formatCount, formatDuration, formatInteger } from '../../ui/format.ts';

export interface StreamNoteWords {
  readonly words: string;
  /** Something is missing for good, or was given up. */
  readonly isWarning: boolean;
}

export function streamNoteWords(note: KvNote): StreamNoteWords {
  switch (note.kind) {
    case 'connected': return { words: '● connected', isWarning: false };
    case 'disconnected': {
      const what = note.state === 'lost' ? 'connection lost' : 'the socket could not be made';
      return { words: `▲ ${what}${note.reason === undefined ? '' : `: ${note.reason}`}`, isWarning: true };
    }
    case 'gap': {
      const { from, to, refused, fate } = note;
      const numbers = from === to ? `${from}` : `${from} to ${to}`;
      const own = refused === 0 ? '' : `, ${refused === to - from + 1 ? 'all' : formatInteger(refused)} refused by pdscope’s own full queue`;
      const isWarning = fate.state === 'not-asked' || (fate.state === 'settled' && fate.lost > 0);
      return { words: `${isWarning ? '▲ ' : fate.state === 'settled' ? '✓ ' : ''}gap of ${formatCount(to - from + 1, 'batch', 'batches')} (${numbers})${own}, ${fateWords(fate)}`, isWarning };
    }
    case 'filled': return { words: `✓ ${note.text}`, isWarning: false };
    case 'lost': return { words: `▲ ${note.text}`, isWarning: true };
    case 'restart': return { words: `▲ epoch ${formatInteger(note.epoch)} is over: ${note.text}`, isWarning: true };
    case 'cleared': return { words: `× all blocks cleared${note.times === 1 ? '' : `, ${formatInteger(note.times)} times since ${formatClock(note.firstAtUnixMs)}`}`, isWarning: false };
  }
  return note;
}

function fateWords(fate: KvGapFate): string {
  switch (fate.state) {
    case 'asking': return 'the replay socket is being asked';
    case 'not-asked': return 'lost: no replay was asked';
    case 'unseen': return `sent before the stream was joined: ${fate.reason}`;
    case 'settled': break;
  }
  const { filled, lost, afterMs, reason } = fate;
  const after = `${formatDuration(afterMs)} later`;
  const why = reason === undefined ? '' : `: ${reason}`;
  if (lost === 0) return `filled by replay ${after}`;
  return filled === 0 ? `lost ${after}${why}` : `${formatInteger(filled)} filled by replay and ${formatInteger(lost)} lost ${after}${why}`;
}

/**
 * The last few things that happened to one stream. Rows that tell of them leave the ring of all streams with the flood;
 * these stay. A gap and what came of it are one note, and so are clearances that follow one another: a loop that clears
 * the cache every few seconds would push out the rest. Nothing here is called for each batch.
 */
import type { KvGapFate, KvNote, KvNotes } from '#shared/kv-notes.ts';
import type { Notice, NoticeFacts } from './kv-row.ts';
import type { GapRange } from './stream-tracker.ts';
import type { SocketPhase } from './sub-socket.ts';

type GapNote = Extract<KvNote, { readonly kind: 'gap' }>;

const DEFAULT_CAPACITY = 32;

export class StreamNotes {
  readonly #capacity: number;
  /** Oldest first. */
  readonly #notes: KvNote[] = [];
  #older = 0;
  /** When the gap being asked for was found, by the monotonic clock. */
  #askedAtMs = 0;

  constructor(capacity = DEFAULT_CAPACITY) {
    this.#capacity = capacity;
  }

  view(): KvNotes {
    return { notes: this.#notes.toReversed(), older: this.#older };
  }

  /** The connection is in another phase than before. Trying to connect is no news. */
  phase(phase: SocketPhase, reason: string | undefined, atUnixMs: number): void {
    if (phase === 'connected') this.#add({ kind: 'connected', atUnixMs });
    else if (phase !== 'connecting') this.#add({ kind: 'disconnected', atUnixMs, state: phase, ...(reason !== undefined && { reason }) });
  }

  cleared(atUnixMs: number): void {
    const last = this.#notes.at(-1);
    if (last?.kind !== 'cleared') this.#add({ kind: 'cleared', atUnixMs, firstAtUnixMs: atUnixMs, times: 1 });
    else this.#notes[this.#notes.length - 1] = { ...last, atUnixMs, times: last.times + 1 };
  }

  /** Takes what a row tells, too. Errors are counted by the stream, and there may be one for each message. */
  notice({ kind, note, facts }: Notice, atUnixMs: number): void {
    if (kind === 'error') return;
    if (facts?.kind === 'found') this.#found(facts, atUnixMs);
    else if (facts?.kind === 'ended') this.#add({ kind: 'restart', atUnixMs, epoch: facts.epoch, text: note });
    else if (facts !== undefined && this.#settle(facts)) return;
    else if (kind === 'filled' || kind === 'lost') this.#add({ kind, atUnixMs, text: note });
  }

  #found({ gap, refused, isAsked }: Extract<NoticeFacts, { readonly kind: 'found' }>, atUnixMs: number): void {
    if (isAsked) this.#askedAtMs = performance.now();
    this.#add({ kind: 'gap', atUnixMs, ...gap, refused: Math.min(refused, batchesOf(gap)), fate: { state: isAsked ? 'asking' : 'not-asked' } });
  }

  /** Writes what became of a gap beside it; false when the gap is no longer kept. */
  #settle(facts: Exclude<NoticeFacts, { readonly kind: 'found' | 'ended' }>): boolean {
    const { gap } = facts;
    const at = this.#notes.findLastIndex((note) => note.kind === 'gap' && note.from === gap.from && note.to === gap.to && note.epoch === gap.epoch);
    const note = this.#notes[at];
    if (note?.kind !== 'gap') return false;
    this.#notes[at] = { ...note, fate: this.#fateOf(note, facts) };
    return true;
  }

  #fateOf({ fate }: GapNote, facts: Exclude<NoticeFacts, { readonly kind: 'found' | 'ended' }>): KvGapFate {
    if (facts.kind === 'unseen') return { state: 'unseen', reason: facts.reason };
    const all = batchesOf(facts.gap);
    const afterMs = fate.state === 'settled' ? fate.afterMs : performance.now() - this.#askedAtMs;
    if (facts.kind === 'came') return { state: 'settled', filled: facts.batches, lost: all - facts.batches, afterMs };
    return { state: 'settled', filled: all - facts.batches, lost: facts.batches, afterMs, reason: facts.reason };
  }

  #add(note: KvNote): void {
    this.#notes.push(note);
    if (this.#notes.length <= this.#capacity) return;
    this.#notes.shift();
    this.#older += 1;
  }
}

function batchesOf({ from, to }: GapRange): number {
  return to - from + 1;
}

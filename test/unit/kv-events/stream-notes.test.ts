import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { NoticeFacts } from '#engine/kv-events/kv-row.ts';
import { StreamNotes } from '#engine/kv-events/stream-notes.ts';

const AT = 1_800_000_000_000;
const GAP = { from: 410, to: 412, epoch: 1 };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'Date'], now: AT });
});
afterEach(() => {
  vi.useRealTimers();
});

const found = (notes: StreamNotes, gap = GAP, refused = 0, isAsked = true): void => notes.notice({ kind: 'gap', note: '', facts: { kind: 'found', gap, refused, isAsked } }, AT);
const told = (notes: StreamNotes, kind: 'filled' | 'lost', facts: NoticeFacts): void => notes.notice({ kind, note: 'as the row says', facts }, AT + 500);

describe('StreamNotes', () => {
  it('makes one note of a gap and of what came of it', () => {
    const notes = new StreamNotes();
    found(notes);
    expect(notes.view().notes).toEqual([{ kind: 'gap', atUnixMs: AT, ...GAP, refused: 0, fate: { state: 'asking' } }]);
    vi.advanceTimersByTime(38);
    told(notes, 'filled', { kind: 'came', gap: GAP, batches: 3 });
    expect(notes.view()).toEqual({ notes: [{ kind: 'gap', atUnixMs: AT, ...GAP, refused: 0, fate: { state: 'settled', filled: 3, lost: 0, afterMs: 38 } }], older: 0 });
  });

  it('tells what came of a gap and what did not, beside the note that was made since', () => {
    const notes = new StreamNotes();
    found(notes, GAP, 7);
    notes.phase('lost', 'reset', AT + 1);
    vi.advanceTimersByTime(20);
    told(notes, 'filled', { kind: 'came', gap: GAP, batches: 2 });
    vi.advanceTimersByTime(5);
    told(notes, 'lost', { kind: 'gone', gap: GAP, batches: 1, reason: 'no answer' });
    expect(notes.view().notes).toEqual([
      { kind: 'disconnected', atUnixMs: AT + 1, state: 'lost', reason: 'reset' },
      { kind: 'gap', atUnixMs: AT, ...GAP, refused: 3, fate: { state: 'settled', filled: 2, lost: 1, afterMs: 20, reason: 'no answer' } },
    ]);
  });

  it('does not take a gap of another life for the one that was settled', () => {
    const notes = new StreamNotes();
    found(notes, GAP, 0, false);
    found(notes, { ...GAP, epoch: 2 });
    told(notes, 'lost', { kind: 'unseen', gap: { ...GAP, epoch: 2 }, reason: 'not kept' });
    expect(notes.view().notes.map((note) => note.kind === 'gap' && [note.epoch, note.fate])).toEqual([[2, { state: 'unseen', reason: 'not kept' }], [1, { state: 'not-asked' }]]);
  });

  it('keeps the last ones, counts the others, and keeps the fate of a gap that is not kept', () => {
    const notes = new StreamNotes(3);
    found(notes);
    for (let at = 1; at <= 4; at += 1) notes.phase(at % 2 === 1 ? 'lost' : 'connected', undefined, AT + at);
    notes.phase('connecting', undefined, AT + 5);
    told(notes, 'lost', { kind: 'gone', gap: GAP, batches: 3, reason: 'no answer' });
    expect(notes.view()).toEqual({
      notes: [{ kind: 'lost', atUnixMs: AT + 500, text: 'as the row says' }, { kind: 'connected', atUnixMs: AT + 4 }, { kind: 'disconnected', atUnixMs: AT + 3, state: 'lost' }],
      older: 3,
    });
  });

  it('counts clearances that follow one another, so that they push nothing out', () => {
    const notes = new StreamNotes(2);
    notes.notice({ kind: 'restart', note: 'its clock is newer', facts: { kind: 'ended', epoch: 1 } }, AT);
    for (let at = 1; at <= 100; at += 1) notes.cleared(AT + at);
    expect(notes.view()).toEqual({ notes: [{ kind: 'cleared', atUnixMs: AT + 100, firstAtUnixMs: AT + 1, times: 100 }, { kind: 'restart', atUnixMs: AT, epoch: 1, text: 'its clock is newer' }], older: 0 });
  });

  it('leaves errors to their rows and counters', () => {
    const notes = new StreamNotes();
    notes.notice({ kind: 'error', note: 'message not readable' }, AT);
    expect(notes.view()).toEqual({ notes: [], older: 0 });
  });
});

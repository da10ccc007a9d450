import { describe, expect, it } from 'vitest';
import { shortHash, tokenPreview } from '../../../renderer/src/features/kv-events/hash-text.ts';
import { noteWords, streamHealth } from '../../../renderer/src/features/kv-events/kv-words.ts';
import { residentWords } from '../../../renderer/src/features/kv-events/stream-strip.tsx';
import { residentInput } from '../../../renderer/src/features/kv-events/use-resident-blocks.ts';
import { sampleInstance, sampleStream } from '../fixtures/sample-state.ts';
import { gapRow, sampleEvent } from './sample-events.ts';

describe('KV words', () => {
  it('shortens hashes to a prefix that filters, and token lists to a preview', () => {
    expect(shortHash('9f3ac4d1a0000001')).toBe('9f3ac4d1…');
    expect(shortHash('9f3a')).toBe('9f3a');
    expect(tokenPreview([1, 2, 3], 2)).toBe('1, 2, …');
    expect(tokenPreview([1, 2], 2)).toBe('1, 2');
  });

  it('writes notes, also without details', () => {
    expect(noteWords(gapRow(1))).toMatch(/^▲ gap: batches 96,102/);
    expect(noteWords(sampleEvent(1, { kind: 'error' }))).toBe('✕ error: no details recorded');
  });

  it('keeps an idle stream quiet and owns up to a late start', () => {
    const stream = (part: Parameters<typeof sampleStream>[1]): ReturnType<typeof sampleStream> => sampleStream(sampleInstance({ name: 'P0', role: 'prefill' }), part);
    expect(streamHealth(stream({ state: 'silent' }))).toMatchObject({ tone: 'unknown', words: 'silent' });
    expect(streamHealth(stream({ sawStart: false }))).toMatchObject({ tone: 'ok', words: 'live, joined late' });
    expect(streamHealth(stream({ state: 'failed', stateReason: 'bad endpoint' }))).toEqual({ tone: 'error', words: 'failed', title: 'bad endpoint' });
    expect(residentWords([{ medium: 'GPU', blocks: 1204 }, { medium: 'CPU', blocks: 88 }])).toBe('1.2k GPU · 88 CPU');
    expect(residentWords([])).toBe('none known');
  });
});

describe('residentInput', () => {
  it('sends only what was asked for, and no hash that is none', () => {
    expect(residentInput({ stream: '', medium: '', hash: '' })).toEqual({ limit: 200 });
    expect(residentInput({ stream: 'p0/0', medium: 'GPU', hash: '0x9F3A…' })).toEqual({ limit: 200, stream: 'p0/0', medium: 'GPU', hash: '9f3a' });
    expect(residentInput({ stream: '', medium: '', hash: 'xyz' })).toBeUndefined();
  });
});

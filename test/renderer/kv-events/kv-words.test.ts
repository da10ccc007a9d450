import { describe, expect, it } from 'vitest';
import { shortHash } from '../../../renderer/src/blocks/short-hash.ts';
import { tokenIds } from '../../../renderer/src/blocks/token-words.ts';
import { noteWords, staleWords } from '../../../renderer/src/features/kv-events/kv-words.ts';
import { describeStreams } from '../../../renderer/src/fleet/instance-state.ts';
import { streamContext, streamHealth } from '../../../renderer/src/fleet/stream-words.ts';
import { oddInput, oddWords } from '../../../renderer/src/fleet/odd-input.ts';
import { residentWords } from '../../../renderer/src/features/kv-events/stream-strip.tsx';
import { residentInput } from '../../../renderer/src/features/kv-events/use-resident-blocks.ts';
import { NOW, sampleInstance, sampleStream } from '../fixtures/sample-state.ts';
import { gapRow, sampleEvent } from './sample-events.ts';

describe('KV words', () => {
  it('shortens hashes to a prefix that filters, and token lists to a preview', () => {
    expect(shortHash('9f3ac4d1a0000001')).toBe('9f3ac4d1…');
    expect(shortHash('9f3a')).toBe('9f3a');
    expect(tokenIds([1, 2, 3], 2)).toBe('1, 2, …');
    expect(tokenIds([1, 2], 2)).toBe('1, 2');
  });

  it('writes notes, also without details', () => {
    expect(noteWords(gapRow(1))).toMatch(/^▲ gap: batches 96,102/);
    expect(noteWords(sampleEvent(1, { kind: 'error' }))).toBe('✕ error: no details recorded');
  });

  it('keeps an idle stream quiet and owns up to a late start', () => {
    const stream = (part: Parameters<typeof sampleStream>[1]): ReturnType<typeof sampleStream> => sampleStream(sampleInstance({ name: 'P0', role: 'prefill' }), part);
    const idle = { nowUnixMs: NOW, isBusy: false };
    expect(streamHealth(stream({ state: 'silent' }), idle)).toMatchObject({ tone: 'unknown', words: 'silent' });
    expect(streamHealth(stream({ sawStart: false }), idle)).toMatchObject({ tone: 'ok', words: 'live, joined late' });
    expect(streamHealth(stream({ state: 'failed', stateReason: 'bad endpoint' }), idle)).toEqual({ tone: 'error', words: 'failed', title: 'bad endpoint' });
    const connecting = stream({ state: 'connecting', endpoint: 'tcp://10.0.4.12:5557' });
    expect(streamHealth(connecting, { ...idle, upMs: 9000 })).toMatchObject({ tone: 'busy', words: 'connecting' });
    expect(streamHealth(connecting, { ...idle, upMs: 11_000 })).toMatchObject({ tone: 'warning', words: 'not connected', title: expect.stringContaining('nobody publishes at tcp://10.0.4.12:5557') });
    expect(streamHealth(connecting, idle)).toMatchObject({ words: 'connecting' });
    const up = sampleInstance({ name: 'P0', role: 'prefill', state: 'up', stateSinceUnixMs: NOW - 20_000 });
    expect(describeStreams([connecting, stream({})], streamContext(up, NOW))).toMatchObject({ tone: 'warning', words: 'not connected 1/2' });
    expect(describeStreams([connecting], streamContext({ ...up, state: 'down' }, NOW))).toMatchObject({ tone: 'busy', words: 'connecting' });
    expect(residentWords([{ medium: 'GPU', blocks: 1204 }, { medium: 'CPU', blocks: 88 }])).toBe('1.2k GPU · 88 CPU');
    expect(residentWords([])).toBe('none known');
  });
});

describe('a stream that stopped', () => {
  const stopped = sampleStream(sampleInstance({ name: 'P0', role: 'prefill' }), { lastReceivedAtUnixMs: NOW - 75_000 });
  const words = (isBusy: boolean): unknown => streamHealth(stopped, { nowUnixMs: NOW, isBusy });

  it('is quiet while its instance is idle, and a warning while it moves tokens', () => {
    expect(words(false)).toMatchObject({ tone: 'ok', words: 'live, quiet 1\u2009m 15\u2009s' });
    expect(words(true)).toMatchObject({ tone: 'warning', words: 'quiet 1\u2009m 15\u2009s', title: expect.stringContaining('publisher is stuck') });
    expect(streamHealth(stopped, { nowUnixMs: NOW - 50_000, isBusy: true })).toMatchObject({ tone: 'ok', words: 'live' });
  });

  it('is a warning, idle or not, once requests prove that there was something to tell', () => {
    const reasons = [{ code: 'stores-untold' as const, weight: 0.5, text: 'No batch came since 2 requests' }];
    const health = (nowUnixMs: number): unknown => streamHealth({ ...stopped, reasons }, { nowUnixMs, isBusy: false });
    expect(health(NOW)).toEqual({ tone: 'warning', words: 'stores untold, quiet 1\u2009m 15\u2009s', title: 'No batch came since 2 requests' });
    expect(health(NOW - 50_000)).toMatchObject({ tone: 'warning', words: 'stores untold' });
  });
});

describe('odd input', () => {
  const sound = sampleStream(sampleInstance({ name: 'P0', role: 'prefill' }));

  it('is nothing for a sound stream', () => {
    expect(oddInput(sound)).toEqual([]);
    expect(oddWords([])).toBe('0');
  });

  it('names every kind, and tells what took something away from what happens to sound streams too', () => {
    const found = oddInput({
      ...sound, droppedMessages: 9, badMessages: 1, badEvents: 2, unknownEvents: 3, unknownFields: 4, badTimestamps: 8, unknownRemovals: 5, unknownParents: 6, duplicateStores: 7, duplicateBatches: 1, strayBatches: 3, hashFormChanges: 2,
    });
    expect(found.map(({ words }) => words)).toEqual([
      '9 messages refused by pdscope’s own full queue', '1 message that could not be read', '2 events that could not be read, in batches that could',
      '3 events of kinds that pdscope does not know, kept as they came', '4 fields that pdscope does not know, or of an odd type, kept as they came', '8 batches whose timestamp is no time', '5 removals of blocks not held',
      '6 stores after a block never seen stored', '7 blocks stored while held already: copies', '1 batch that came again, or late, left out',
      '3 batches with old numbers, of another life of the engine or another publisher, left out', '2 batches with hashes in another form than before',
    ]);
    expect(oddWords(found)).toBe('▲ 18 bad, 33 odd');
    expect(oddWords(oddInput({ ...sound, unknownRemovals: 5 }))).toBe('5 odd');
  });
});

describe('staleWords', () => {
  it('says that an epoch is over, and nothing of the current one or of a stream that is gone', () => {
    expect(staleWords(1, 3)).toBe('Epoch 1 is over: the engine started anew (now epoch 3), and the blocks stored then are gone');
    expect(staleWords(3, 3)).toBeUndefined();
    expect(staleWords(1, undefined)).toBeUndefined();
  });
});

describe('residentInput', () => {
  it('sends only what was asked for, and no hash that is none', () => {
    expect(residentInput({ stream: '', medium: '', hash: '' })).toEqual({ limit: 60 });
    expect(residentInput({ stream: 'p0/0', medium: 'GPU', hash: '0x9F3A…' })).toEqual({ limit: 60, stream: 'p0/0', medium: 'GPU', hash: '9f3a' });
    expect(residentInput({ stream: '', medium: '', hash: 'xyz' })).toBeUndefined();
  });
});

import { describe, expect, it } from 'vitest';
import { counterParts, type CountersInput } from '../../../renderer/src/table/counters.ts';
import { emptyKind } from '../../../renderer/src/table/empty-kind.ts';

const counters = { total: 12_431, kept: 10_000, evicted: 2431, dropped: 0, matching: 412 };
const quiet: CountersInput = { shown: 412, counters, omitted: 0, skippedSnapshots: 0, resyncs: 0 };
const words = (input: CountersInput): string => counterParts(input).map(({ label, text }) => `${label} ${text}`).join(' · ');

describe('counterParts', () => {
  it('always says what is shown, matching, recorded, evicted and dropped', () => {
    expect(words(quiet)).toBe('shown 412 · matching 412 of 10,000 · total 12,431 · evicted 2,431 · dropped 0');
  });

  it('adds what was lost on the way only when something was, and marks it', () => {
    const lossy = { ...quiet, counters: { ...counters, dropped: 3 }, omitted: 1600, skippedSnapshots: 2, resyncs: 1 };
    expect(words(lossy)).toBe('shown 412 · matching 412 of 10,000 · total 12,431 · evicted 2,431 · dropped 3 · omitted 1,600 · skipped 2 · resyncs 1');
    expect(counterParts(lossy).filter((part) => part.isLoss).map((part) => part.label)).toEqual(['dropped', 'omitted', 'skipped', 'resyncs']);
  });

  it('says nothing before the first snapshot', () => {
    expect(counterParts({ ...quiet, counters: undefined })).toEqual([]);
  });
});

describe('emptyKind', () => {
  it.each([
    [{ status: 'disconnected', counters: undefined, filter: '' }, 'disconnected'],
    [{ status: 'loading', counters: undefined, filter: '' }, 'loading'],
    [{ status: 'rejected', counters, filter: 'x' }, 'rejected'],
    [{ status: 'live', counters: { ...counters, matching: 0 }, filter: 'status:5xx' }, 'filtered'],
    [{ status: 'live', counters: { ...counters, kept: 0 }, filter: 'status:5xx' }, 'nothing'],
    [{ status: 'paused', counters: { ...counters, kept: 0 }, filter: '' }, 'paused'],
    [{ status: 'live', counters: { ...counters, kept: 0 }, filter: '' }, 'nothing'],
  ] as const)('%j is %s', (input, kind) => {
    expect(emptyKind(input)).toBe(kind);
  });
});

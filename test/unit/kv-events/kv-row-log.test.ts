import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InstanceIdSchema, streamId } from '#shared/ids.ts';
import { decodeMessage } from '#engine/kv-events/decode-batch.ts';
import { KvRowLog } from '#engine/kv-events/kv-row-log.ts';
import { eventBytes, toRow, type RowEvent, type RowSource } from '#engine/kv-events/kv-row.ts';
import { frames, vector } from './golden.ts';

const instance = InstanceIdSchema.parse('p0');
const source: RowSource = {
  stream: { id: streamId(instance, 1), instance, instanceName: 'P0', rank: 1 }, epoch: 2, seq: 7, tsUnixMs: 1500.5, receivedAtUnixMs: 1600,
};
const notice = (note: string): RowEvent => ({ kind: 'error', note });

function newLog(capacity: number, maxBytes = 1e9): KvRowLog {
  return new KvRowLog({ capacity, maxBytes, dropped: () => 4 });
}

function golden(name: string): readonly RowEvent[] {
  const result = decodeMessage(frames(vector(name).frames_hex));
  if (!result.ok) throw new Error(result.detail);
  return result.batch.events;
}

describe('KvRowLog', () => {
  it('numbers rows from 1, keeps the newest, and says how many went', () => {
    const log = newLog(3);
    expect(log.lastChange()).toBe(0);
    for (const note of ['a', 'b', 'c', 'd', 'e']) log.append(source, notice(note));
    expect(Array.from(log.rows(), (row) => [row.n, row.note])).toEqual([[3, 'c'], [4, 'd'], [5, 'e']]);
    expect(Array.from(log.changedSince(4), (row) => row.note)).toEqual(['e']);
    expect(Array.from(log.changedSince(0), (row) => row.n)).toEqual([3, 4, 5]);
    expect(log.counters()).toEqual({ kept: 3, capacity: 3, total: 5, evicted: 2, dropped: 4 });
    expect(log.lastChange()).toBe(5);
  });

  it('forgets on clear, and counts on', () => {
    const log = newLog(3);
    log.append(source, notice('a'));
    log.append(source, notice('b'));
    expect(log.clear()).toBe(2);
    expect(log.generation()).toBe(1);
    expect(Array.from(log.rows())).toEqual([]);
    log.append(source, notice('c'));
    expect(Array.from(log.changedSince(0), (row) => [row.n, row.note])).toEqual([[3, 'c']]);
    expect(log.counters()).toMatchObject({ kept: 1, total: 3, evicted: 0 });
  });

  it('evicts by bytes too, but keeps the newest however large', () => {
    const [large] = golden('2026-08-20/2f41c894e/stored-large');
    if (large === undefined) throw new Error('no event');
    const log = newLog(100, eventBytes(large) + eventBytes(notice('x')));
    log.append(source, notice('x'));
    log.append(source, large);
    log.append(source, large);
    expect(Array.from(log.rows(), (row) => row.n)).toEqual([3]);
    expect(log.counters()).toMatchObject({ kept: 1, evicted: 2 });
    const tiny = newLog(100, 1);
    tiny.append(source, large);
    expect(tiny.counters().kept).toBe(1);
  });

  it('is a plain bounded list to its readers', () => {
    fc.assert(fc.property(fc.array(fc.oneof({ weight: 8, arbitrary: fc.string({ maxLength: 3 }) }, { weight: 1, arbitrary: fc.constant(undefined) }), { maxLength: 60 }), fc.integer({ min: 1, max: 9 }), fc.nat(60), (steps, capacity, since) => {
      const log = newLog(capacity);
      let model: { n: number; note: string }[] = [];
      let n = 0;
      for (const note of steps) {
        if (note === undefined) {
          log.clear();
          model = [];
        } else {
          n += 1;
          log.append(source, notice(note));
          model = [...model, { n, note }].slice(-capacity);
        }
      }
      expect(Array.from(log.rows(), ({ n, note }) => ({ n, note }))).toEqual(model);
      expect(Array.from(log.changedSince(since), (row) => row.n)).toEqual(model.map((row) => row.n).filter((number) => number > since));
    }));
  });
});

describe('toRow', () => {
  it('has the fields of a stored event, cut to size', () => {
    const [event] = golden('2026-08-20/2f41c894e/stored-extra-keys');
    if (event === undefined) throw new Error('no event');
    expect(toRow(9, source, event)).toEqual({
      n: 9, stream: 'p0/1', instance: 'p0', instanceName: 'P0', rank: 1, epoch: 2, seq: 7, engineTsUnixMs: 1500.5, receivedAtUnixMs: 1600,
      kind: 'stored', hashes: ['c910c6b15f1388cf', 'b97a1432d92956be', '115e07e8277befe8'], hashCount: 3, blockSize: 16, tokenCount: 48,
      tokens: [151644, 872, 198, 9064, 374, 279, 6722, 315, 5616, 30, 151645, 198, 151644, 77091, 198, 151667, ...Array.from({ length: 16 }, (_, index) => 1000 + index)],
      medium: 'GPU', loraName: 'a', loraId: 1, groupIdx: 0, specKind: 'full_attention',
      extraKeys: '[["a",["5d41402abc4b2a76b9719d911017c592",4],"tenant-salt","b8f6f245094fb10387f6273ae1de9c841d63667f323630fc9a96497413b4cdd1"],[["5d41402abc4b2a76b9719d911017c592",-12]],null]',
    });
  });

  it('shows where secondary tiers hold a block, and what an open pull request adds', () => {
    const [, store, remove] = golden('mirror/vllm-2026-09/stored-session-ownership');
    expect(store === undefined ? undefined : toRow(1, source, store)).toMatchObject({ medium: 'STORAGE', locality: 'LOCAL', ownership: 'kvcr' });
    expect(remove === undefined ? undefined : toRow(1, source, remove)).toMatchObject({ kind: 'removed', ownership: 'kvcr' });
    const [copies] = golden('mirror/vllm-open-pr/removed-remaining-copy-counts');
    expect(copies === undefined ? undefined : toRow(1, source, copies).note).toBe('copies left: 1, 0');
    const [unknown] = golden('mirror/vllm-open-pr/unknown-event-type');
    expect(unknown === undefined ? undefined : toRow(1, source, unknown)).toMatchObject({ kind: 'unknown', hashCount: 1, medium: 'GPU', note: expect.stringContaining('BlockInactive: {"type":"BlockInactive"') as string });
  });
});

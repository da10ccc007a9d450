import { describe, expect, it } from 'vitest';
import { decodeMessage } from '#engine/kv-events/decode-batch.ts';
import { formatJson, formatText } from '#engine/kv-events/format-event.ts';
import type { WatchRecord } from '#engine/kv-events/watch.ts';
import { frames, vector } from './golden.ts';

function records(name: string): WatchRecord[] {
  const result = decodeMessage(frames(vector(name).frames_hex));
  if (!result.ok) throw new Error(result.detail);
  const context = { rank: 0, isReplayed: false, epoch: 1, seq: result.seq, tsUnixMs: result.batch.tsUnixMs, receivedAtUnixMs: 1_789_095_900_000 };
  return result.batch.events.map((event) => ({ ...context, event }));
}

const texts = (name: string): string[] => records(name).map((record) => formatText(record));

describe('formatText', () => {
  it.each([
    ['2025-04-30/0be6d05b5/stored-chain-int', '03:03:29.000 #1      stored   2 blocks b97a1432d92956be 115e07e8277befe8 <-c910c6b15f1388cf medium? 32 tokens of 16: 1000 1001 1002 1003 1004 1005 1006 1007…'],
    ['2026-08-20/2f41c894e/stored-group1-swa', '03:03:30.123 #7      stored   1 block 115e07e8277befe8 <-c910c6b15f1388cf GPU group 1 32 tokens of 16: 1000 1001 1002 1003 1004 1005 1006 1007… sliding_window of 128'],
    ['2026-08-20/2f41c894e/stored-cpu-placeholder', '03:03:28.837 #12     stored   1 block b97a1432d92956be <-root CPU tokens not said'],
    ['2026-08-20/2f41c894e/removed-storage-local', '03:03:29.000 #17     removed  1 block c910c6b15f1388cf STORAGE LOCAL'],
    ['2026-08-20/2f41c894e/cleared', '03:03:29.250 #18     cleared  all GPU blocks of this rank'],
  ])('%s', (name, line) => {
    expect(texts(name)).toEqual([line]);
  });

  it('shows extra keys, which tell tenants, adapters and pictures apart, cut where they are long', () => {
    expect(texts('2026-08-20/2f41c894e/stored-extra-keys')[0]).toMatch(/ keys \[\["a",\["5d41402abc4b2a76b9719d911017c592",4\],"tenant-salt",\{"bytes":"b8f6.{40,}…$/u);
  });

  it('counts the hashes it does not show', () => {
    expect(texts('2026-08-20/2f41c894e/stored-large')[0]).toMatch(/stored {3}128 blocks b7a7689a1fc5ba5f b18ab6207bff4e3f \+126 <-/);
  });
});

describe('formatJson', () => {
  it('has hashes as hex and as exact integers, signed ones as the engine publishes them', () => {
    const [unsigned] = records('2026-08-20/2f41c894e/stored-chain-int').map(formatJson);
    expect(unsigned).toMatchObject({
      kind: 'stored', seq: 1, hashes: ['b97a1432d92956be', '115e07e8277befe8'], hashesDecimal: ['13365017052799653566', '1251446440131817448'],
      parent: 'c910c6b15f1388cf', parentDecimal: '14488298466357512399', blockSize: 16, medium: 'GPU', groupIdx: 0, extraKeys: [null, null],
    });
    const [signed] = records('2025-04-30/0be6d05b5/stored-negative-int').map(formatJson);
    expect(signed).toMatchObject({ hashes: ['87ffffffffffffff', '000000000000002a'], hashesDecimal: ['-8646911284551352321', '42'], parent: 'ffffffffffffffff', parentDecimal: '-1' });
  });

  it('has the whole digest of the bytes form, and bytes among extra keys as hex', () => {
    const [digest] = records('2026-08-20/2f41c894e/removed-bytes32').map(formatJson);
    expect(digest).toMatchObject({ hashes: ['b8f6f245094fb10387f6273ae1de9c841d63667f323630fc9a96497413b4cdd1'], hashesDecimal: ['11139171491243150801'] });
    const [extra] = records('2026-08-20/2f41c894e/stored-extra-keys').map(formatJson);
    expect(extra?.['extraKeys']).toEqual([['a', ['5d41402abc4b2a76b9719d911017c592', 4], 'tenant-salt', { bytes: 'b8f6f245094fb10387f6273ae1de9c841d63667f323630fc9a96497413b4cdd1' }], [['5d41402abc4b2a76b9719d911017c592', -12]], null]);
  });

  it('survives JSON for every kind, notices included', () => {
    const notice: WatchRecord = { rank: 1, isReplayed: true, epoch: 1, seq: 4, tsUnixMs: undefined, receivedAtUnixMs: 5, event: { kind: 'gap', note: 'batch 3 is missing' } };
    expect(JSON.parse(JSON.stringify(formatJson(notice)))).toEqual({ kind: 'gap', rank: 1, epoch: 1, seq: 4, receivedAtUnixMs: 5, replayed: true, note: 'batch 3 is missing' });
    const [unknown] = records('mirror/vllm-open-pr/unknown-event-type').map(formatJson);
    expect(unknown).toMatchObject({ kind: 'unknown', type: 'BlockInactive', hashes: ['c910c6b15f1388cf'] });
  });
});

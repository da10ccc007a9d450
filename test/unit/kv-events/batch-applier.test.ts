import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { BatchApplier } from '#engine/kv-events/batch-applier.ts';
import { lowWord } from '#engine/kv-events/block-hashes.ts';
import { copyOfRun } from '#engine/kv-events/word-run.ts';

function applier(): BatchApplier {
  return new BatchApplier({ onEpoch: () => undefined, onNotice: () => undefined, onGap: () => false, onLost: () => undefined, onEvent: () => undefined });
}

function message(seq: number, ...hashes: (bigint | Uint8Array)[]): Uint8Array[] {
  return messageAt(seq, 1000 + seq, ...hashes);
}

function messageAt(seq: number, ts: unknown, ...hashes: (bigint | Uint8Array)[]): Uint8Array[] {
  const sequence = Buffer.alloc(8);
  sequence.writeBigUInt64BE(BigInt(seq));
  return [new Uint8Array(0), sequence, encode([ts, hashes.map((hash) => ['BlockRemoved', [hash], 'GPU']), 0], { useBigInt64: true })];
}

const DIGEST = new Uint8Array(32).fill(7);

describe('BatchApplier', () => {
  it('counts how often hashes change between integers and bytes', () => {
    const stream = applier();
    const batches: (readonly (bigint | Uint8Array)[])[] = [[1n], [2n], [], [DIGEST], [DIGEST, DIGEST], [3n], [4n, DIGEST], [5n]];
    const seen = batches.map((hashes, seq) => {
      stream.apply(message(seq, ...hashes), { receivedAtUnixMs: 0, isReconnected: false, droppedBefore: 0 });
      return stream.hashFormChanges;
    });
    expect(seen).toEqual([0, 0, 0, 1, 1, 2, 3, 4]);
    expect(stream.hashForm).toBe('mixed');
  });

  it('counts timestamps that are no time, and forgets the lag of the batch before', () => {
    const stream = applier();
    const told = [1000, 'soon', null, Number.NaN, Number.NEGATIVE_INFINITY, 8.64e12 + 1, 8.64e12, -5, 2n ** 40n].map((ts, seq) => {
      stream.apply(messageAt(seq, ts, 1n), { receivedAtUnixMs: 5, isReconnected: false, droppedBefore: 0 });
      return [stream.badTimestamps, stream.lastTsUnixMs];
    });
    expect(told).toEqual([[0, 1_000_000], [1, undefined], [2, undefined], [3, undefined], [4, undefined], [5, undefined], [5, 8.64e15], [5, -5000], [5, 1_099_511_627_776_000]]);
    stream.apply(messageAt(9, 1000, 1n).with(2, Uint8Array.of(0xc1)), { receivedAtUnixMs: 5, isReconnected: false, droppedBefore: 0 });
    expect(stream).toMatchObject({ batches: 9, badMessages: 1, badTimestamps: 5, lastTsUnixMs: 1_099_511_627_776_000 });
  });

  it('reads one batch after the other into the same memory', () => {
    const slabs = new Set<Uint32Array>();
    const stored: number[] = [];
    const stream = new BatchApplier({
      onEpoch: () => undefined,
      onNotice: () => undefined,
      onGap: () => false,
      onLost: () => undefined,
      onEvent: (_, event) => {
        if (event.kind !== 'stored') return;
        slabs.add(event.tokens.words);
        stored.push(lowWord(event.hashes, 0), ...copyOfRun(event.tokens, 1));
      },
    });
    // A thousand of them would need thirty slabs.
    const batches = Array.from({ length: 1000 }, (_, seq) => encode([1000.5 + seq, [['BlockStored', [seq], null, Array.from({ length: 512 }, () => seq), 512, null, 'GPU', null]], 0]));
    for (const [seq, payload] of batches.entries()) {
      stream.apply(message(seq).with(2, payload), { receivedAtUnixMs: 0, isReconnected: false, droppedBefore: 0 });
    }
    expect(slabs.size).toBe(1);
    expect(stored).toEqual(batches.flatMap((_, seq) => [seq, seq]));
  });
});

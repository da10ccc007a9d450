import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { BatchApplier } from '#engine/kv-events/batch-applier.ts';

function applier(): BatchApplier {
  return new BatchApplier({ onEpoch: () => undefined, onNotice: () => undefined, onGap: () => false, onLost: () => undefined, onEvent: () => undefined });
}

function message(seq: number, ...hashes: (bigint | Uint8Array)[]): Uint8Array[] {
  const sequence = Buffer.alloc(8);
  sequence.writeBigUInt64BE(BigInt(seq));
  return [new Uint8Array(0), sequence, encode([1000 + seq, hashes.map((hash) => ['BlockRemoved', [hash], 'GPU']), 0], { useBigInt64: true })];
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
});

/** KV rows for renderer tests and for looking at the page. Every figure is a function of the number given. */
import type { InstanceId, StreamId } from '#shared/ids.ts';
import type { KvRow } from '#shared/kv.ts';

const NAMES = ['P0', 'D1', 'D2', 'P1'] as const;

export function hashOf(n: number): string {
  return (0x9f3ac4d100000000n + BigInt(n) * 0x1f3d5b79n).toString(16).slice(-16).padStart(16, '0');
}

export function sampleEvent(n: number, part: Partial<KvRow> = {}): KvRow {
  const name = NAMES[n % NAMES.length] ?? 'P0';
  const id = name.toLowerCase();
  const isRemoval = n % 3 === 1;
  const count = isRemoval ? 1 : 1 + (n % 12);
  return {
    n, stream: `${id}/0` as StreamId, instance: id as InstanceId, instanceName: name, rank: 0, epoch: 1, seq: 48_000 + n, engineTsUnixMs: Date.UTC(2026, 10, 20, 14, 2, 31) + n * 37,
    receivedAtUnixMs: Date.UTC(2026, 10, 20, 14, 2, 31) + n * 37 + 3, kind: isRemoval ? 'removed' : 'stored', hashes: Array.from({ length: Math.min(16, count) }, (_, index) => hashOf(n * 20 + index)),
    hashCount: count, medium: n % 9 === 0 ? 'CPU' : 'GPU',
    ...(!isRemoval && { parent: hashOf(n * 20 - 1), blockSize: 16, tokenCount: 16 * count, tokens: Array.from({ length: 32 }, (_, index) => (n * 7919 + index * 104_729) % 151_936) }),
    ...part,
  };
}

/** A row pdscope made: 23 batches missing. */
export function gapRow(n: number): KvRow {
  const { seq: _seq, engineTsUnixMs: _ts, parent: _parent, tokens: _tokens, tokenCount: _count, blockSize: _size, medium: _medium, ...rest } = sampleEvent(n);
  return { ...rest, kind: 'gap', hashes: [], hashCount: 0, note: 'batches 96,102 to 96,124 (23) missing; replay answered with 23 in 0.3 s' };
}

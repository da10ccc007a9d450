import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { BlockHash } from '#engine/simulator/block-hash.ts';
import { encodeKvBatch, type KvEvent, type KvWireFormat } from '#engine/simulator/kv-event.ts';

interface GoldenEvent {
  readonly type: string;
  readonly block_hashes?: readonly ({ $int?: string; $bytes?: string })[];
  readonly parent_block_hash?: { $int?: string; $bytes?: string } | null;
  readonly token_ids?: readonly number[];
  readonly block_size?: number;
  readonly lora_id?: number | null;
  readonly lora_name?: string | null;
  readonly extra_keys?: readonly (readonly string[] | null)[];
}
interface GoldenVector {
  readonly name: string;
  readonly frames_hex: readonly [string, string, string];
  readonly decoded: { readonly batch: { readonly ts: number; readonly events: readonly GoldenEvent[]; readonly data_parallel_rank?: number } };
}

const vectors = JSON.parse(
  readFileSync(new URL('../../fixtures/golden/kv-events.json', import.meta.url), 'utf8'),
) as readonly GoldenVector[];

function toHash(value: { $int?: string; $bytes?: string }): BlockHash {
  const digest =
    value.$bytes === undefined
      ? Buffer.concat([Buffer.alloc(24), Buffer.from(BigInt(value.$int ?? '0').toString(16).padStart(16, '0'), 'hex')])
      : Buffer.from(value.$bytes, 'hex');
  return { digest, key: digest.toString('hex', 24) };
}

function toEvents(event: GoldenEvent): KvEvent[] {
  const hashes = (event.block_hashes ?? []).map(toHash);
  if (event.type === 'AllBlocksCleared') return [{ kind: 'cleared' }];
  if (event.type === 'BlockRemoved') return hashes.map((hash) => ({ kind: 'removed', hash }));
  return [
    {
      kind: 'stored',
      hashes,
      parent: event.parent_block_hash ? toHash(event.parent_block_hash) : undefined,
      tokens: event.token_ids ?? [],
      blockSize: event.block_size ?? 0,
      lora: event.lora_name ? { id: event.lora_id ?? 0, name: event.lora_name } : undefined,
      extraKeys: (event.extra_keys ?? []).map((keys) => keys ?? undefined),
    },
  ];
}

function payload(name: string, format: KvWireFormat): { readonly actual: string; readonly expected: string } {
  const vector = vectors.find((candidate) => candidate.name === name);
  if (vector === undefined) throw new Error(`no golden vector ${name}`);
  const { batch } = vector.decoded;
  const encoded = encodeKvBatch(
    { ts: batch.ts, events: batch.events.flatMap(toEvents), rank: batch.data_parallel_rank ?? 0 },
    format,
  );
  // Whole seconds are nudged by a microsecond to stay floats; golden times of that kind are compared without their bytes.
  const withoutTime = (hex: string): string => (Number.isInteger(batch.ts) ? hex.slice(0, 4) + hex.slice(20) : hex);
  return { actual: withoutTime(Buffer.from(encoded).toString('hex')), expected: withoutTime(vector.frames_hex[2]) };
}

const SHARED_NAMES = ['stored-chain-int', 'stored-lora', 'removed-int', 'cleared', 'mixed', 'dp-rank-3'] as const;

describe('KV events on the wire are byte for byte what vLLM publishes', () => {
  it.each(SHARED_NAMES)('array layout: %s', (name) => {
    const { actual, expected } = payload(`2026-05-12/bcb9c133b/${name}`, { encoding: 'array', hashForm: 'int' });
    expect(actual).toBe(expected);
  });

  it.each(SHARED_NAMES)('map layout: %s', (name) => {
    const { actual, expected } = payload(`2026-06-09/5b3807e86/${name}`, { encoding: 'map', hashForm: 'int' });
    expect(actual).toBe(expected);
  });

  it.each(['stored-root-bytes32', 'removed-bytes32'])('byte hashes in both layouts: %s', (name) => {
    const array = payload(`2026-05-12/bcb9c133b/${name}`, { encoding: 'array', hashForm: 'bytes' });
    expect(array.actual).toBe(array.expected);
    const map = payload(`2026-06-09/5b3807e86/${name}`, { encoding: 'map', hashForm: 'bytes' });
    expect(map.actual).toBe(map.expected);
  });

  it('keeps the time a float64 on a whole second', () => {
    const encoded = encodeKvBatch({ ts: 1_789_095_809, events: [{ kind: 'cleared' }], rank: 0 }, { encoding: 'map', hashForm: 'int' });
    expect(encoded[1]).toBe(0xcb);
  });
});

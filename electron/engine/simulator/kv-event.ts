/** KV-cache events of one engine and their two wire layouts (protocol facts: vllm/distributed/kv_events.py). */
import { Encoder } from '@msgpack/msgpack';
import { hashToInt, type BlockHash, type ExtraKey } from './block-hash.ts';

export type KvEvent =
  | {
      readonly kind: 'stored';
      readonly hashes: readonly BlockHash[];
      /** Absent: the first block starts at token 0. */
      readonly parent: BlockHash | undefined;
      readonly tokens: readonly number[];
      readonly blockSize: number;
      readonly lora: { readonly id: number; readonly name: string } | undefined;
      /** One entry per hash. */
      readonly extraKeys: readonly (readonly ExtraKey[] | undefined)[];
    }
  | { readonly kind: 'removed'; readonly hash: BlockHash }
  | { readonly kind: 'cleared' };

export interface KvWireFormat {
  /** `array`: positional, 12 wide (vLLM 2026-05-12 to 2026-06-09). `map`: named, defaults omitted (since 2026-06-09). */
  readonly encoding: 'array' | 'map';
  /** `int`: u64. `bytes`: 32-byte digests (VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0). */
  readonly hashForm: 'int' | 'bytes';
}

const MEDIUM = 'GPU';
const GROUP = 0;
const SPEC_KIND = 'full_attention';

// useBigInt64 writes a bigint as a 64-bit integer, which a hash needs; token ids stay plain numbers.
const encoder = new Encoder({ useBigInt64: true });

function wireEvent(event: KvEvent, format: KvWireFormat): unknown {
  const hashOf = (hash: BlockHash): bigint | Buffer => (format.hashForm === 'int' ? hashToInt(hash) : hash.digest);
  const isMap = format.encoding === 'map';
  switch (event.kind) {
    case 'stored': {
      const hashes = event.hashes.map(hashOf);
      const parent = event.parent === undefined ? null : hashOf(event.parent);
      const extraKeys = event.extraKeys.map((keys) => keys ?? null);
      const loraId = event.lora?.id ?? null;
      const loraName = event.lora?.name ?? null;
      if (!isMap) {
        return [
          'BlockStored', hashes, parent, event.tokens, event.blockSize, loraId, MEDIUM, loraName, extraKeys, GROUP,
          SPEC_KIND, null,
        ];
      }
      return {
        type: 'BlockStored',
        block_hashes: hashes,
        parent_block_hash: parent,
        token_ids: event.tokens,
        block_size: event.blockSize,
        lora_id: loraId,
        medium: MEDIUM,
        lora_name: loraName,
        extra_keys: extraKeys,
        group_idx: GROUP,
        kv_cache_spec_kind: SPEC_KIND,
      };
    }
    case 'removed': {
      const hashes = [hashOf(event.hash)];
      if (!isMap) return ['BlockRemoved', hashes, MEDIUM, GROUP];
      return { type: 'BlockRemoved', block_hashes: hashes, medium: MEDIUM, group_idx: GROUP };
    }
    case 'cleared':
      break;
  }
  return isMap ? { type: 'AllBlocksCleared' } : ['AllBlocksCleared'];
}

export interface KvBatch {
  /** Unix seconds. */
  readonly ts: number;
  readonly events: readonly KvEvent[];
  readonly rank: number;
}

/** One batch as msgpack: `[ts: float64, events, rank]`. */
export function encodeKvBatch(batch: KvBatch, format: KvWireFormat): Uint8Array {
  // A whole second would be written as an integer; vLLM's field is always a float64.
  const ts = Number.isInteger(batch.ts) ? batch.ts + 1e-6 : batch.ts;
  return encoder.encode([ts, batch.events.map((event) => wireEvent(event, format)), batch.rank]);
}

/** What is read straight from bytes is what the general way reads, for every payload whatsoever. */
import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { DEFAULT_DECODE_LIMITS, decodeGeneric, decodePayload } from '#engine/kv-events/decode-batch.ts';
import { readKnownBatch } from '#engine/kv-events/known-batch.ts';
import { frames, replays, vectors } from './golden.ts';
import { encodeWidely } from './odd-msgpack.ts';
import { withOwnWords } from './own-words.ts';

const nil = fc.constant(null);
const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arbitrary, { nil: null, freq: 3 });
const intHash = fc.oneof({ weight: 8, arbitrary: fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }) }, { weight: 1, arbitrary: fc.nat(300) }, { weight: 1, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.bigInt({ min: -(1n << 63n), max: -1n }) });
const digest = fc.oneof(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.uint8Array({ minLength: 1, maxLength: 64 }));
const hashes = fc.oneof({ weight: 4, arbitrary: fc.array(intHash, { maxLength: 20 }) }, { weight: 2, arbitrary: fc.array(digest, { maxLength: 4 }) });
const token = fc.oneof(fc.nat(127), fc.nat(255), fc.nat(65_535), fc.nat(200_000), fc.constant(0xffff_ffff));
const text = fc.oneof(fc.constantFrom('GPU', 'CPU', 'cpu', 'STORAGE', '', 'full_attention', 'mamba', 'LOCAL', 'chat-7b'), fc.string({ unit: 'binary-ascii', maxLength: 40 }));
const integer = fc.oneof(fc.nat(300), fc.integer());
const blockKeys = maybe(fc.array(fc.oneof(text, fc.tuple(text, integer), fc.uint8Array({ maxLength: 32 }), integer, nil), { maxLength: 3 }));

interface Parts {
  readonly block_hashes: unknown;
  readonly parent_block_hash: unknown;
  readonly token_ids: unknown;
  readonly block_size: unknown;
  readonly lora_id: unknown;
  readonly medium: unknown;
  readonly lora_name: unknown;
  readonly extra_keys: unknown;
  readonly group_idx: unknown;
  readonly kv_cache_spec_kind: unknown;
  readonly kv_cache_spec_sliding_window: unknown;
}

const storedParts: fc.Arbitrary<Parts> = fc.record({
  block_hashes: hashes, parent_block_hash: maybe(fc.oneof(intHash, digest)), token_ids: fc.array(token, { maxLength: 40 }), block_size: fc.nat(2000), lora_id: maybe(integer), medium: maybe(text),
  lora_name: maybe(text), extra_keys: maybe(fc.array(blockKeys, { maxLength: 4 })), group_idx: maybe(fc.nat(8)), kv_cache_spec_kind: maybe(text), kv_cache_spec_sliding_window: maybe(fc.nat(5000)),
});
const laterParts = fc.record({ locality: maybe(text), ownership: maybe(text), session_id: maybe(text), cache_salt: maybe(text) }, { requiredKeys: [] });

const named = fc.oneof(
  fc.tuple(storedParts, laterParts).map(([parts, later]) => ({ type: 'BlockStored', ...parts, ...later })),
  fc.record({ type: fc.constant('BlockRemoved'), block_hashes: hashes, medium: maybe(text) }),
  fc.record({ type: fc.constant('BlockRemoved'), block_hashes: hashes, medium: maybe(text), group_idx: maybe(fc.nat(4)), locality: maybe(text), ownership: maybe(text) }),
  fc.constant({ type: 'AllBlocksCleared' }),
);
// vLLM's widths; in 8 and 9 slots an adapter's name may be SGLang's salt, so the general way decides.
const positional = fc.oneof(
  fc.tuple(storedParts, fc.constantFrom(5, 6, 7, 10, 11, 12)).map(([parts, width]) => ['BlockStored', ...Object.values(parts)].slice(0, width)),
  fc.tuple(storedParts, fc.constantFrom(8, 9)).map(([parts, width]) => ['BlockStored', ...Object.values({ ...parts, lora_name: null })].slice(0, width)),
  fc.tuple(hashes, maybe(text), maybe(fc.nat(4)), fc.integer({ min: 2, max: 4 })).map(([list, medium, group, width]) => ['BlockRemoved', list, medium, group].slice(0, width)),
  fc.constant(['AllBlocksCleared']),
);
const time = fc.oneof({ weight: 8, arbitrary: fc.double({ min: 0.5, max: 2e9 + 0.5, noNaN: true, noInteger: true }) }, fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, 8.64e12 + 0.5, 1e300, -1e300));
const batchOf = (event: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> => fc.oneof(
  fc.tuple(time, fc.array(event, { maxLength: 5 }), maybe(fc.nat(64))),
  fc.tuple(time, fc.array(event, { maxLength: 5 })),
);
const known = batchOf(fc.oneof(named, positional));

const anything = fc.oneof(
  fc.nat(300), fc.integer(), fc.double(), fc.bigInt({ min: -(1n << 63n), max: (1n << 64n) - 1n }), fc.string(), fc.uint8Array({ maxLength: 70 }), fc.boolean(), nil, fc.constant([]), fc.constant({}),
  fc.array(fc.tuple(fc.nat(9), fc.nat(9)), { maxLength: 3 }), fc.constantFrom('BlockStored', 'é', 'x'.repeat(200)), fc.record({ cache_salt: fc.string(), session_id: fc.string() }),
);
/** An event with one thing about it changed: a field of another kind, missing, unknown, or in another order. */
const odd = fc.oneof(
  fc.tuple(named, fc.constantFrom('type', 'block_hashes', 'parent_block_hash', 'token_ids', 'block_size', 'medium', 'lora_name', 'extra_keys', 'group_idx', 'locality', 'new_field', 'remaining_copy_counts'), anything).map(([event, name, value]) => ({ ...event, [name]: value })),
  fc.tuple(named, fc.nat(20)).map(([event, at]) => Object.fromEntries(Object.entries(event).filter((_, index) => index !== at % Object.keys(event).length))),
  named.map((event) => Object.fromEntries(Object.entries(event).toReversed())),
  fc.tuple(positional, fc.nat(12), anything).map(([event, at, value]) => (event as readonly unknown[]).with(at % event.length, value)),
  fc.tuple(positional, anything).map(([event, value]) => [...event, value]),
  fc.tuple(storedParts, fc.string(), fc.string()).map(([parts, salt, session]) => ['BlockStored', ...Object.values(parts).slice(0, 6), salt, session]),
  anything,
);
const oddBatch = fc.oneof(
  batchOf(fc.oneof(named, positional, odd)),
  fc.tuple(anything, fc.array(named, { maxLength: 2 }), anything),
  fc.record({ ts: anything, events: fc.array(named, { maxLength: 2 }), data_parallel_rank: anything }),
  fc.tuple(time, anything),
  fc.tuple(time, fc.array(named, { maxLength: 2 }), fc.nat(3), anything),
);

const NARROW = () => 0;
/** Payloads with values in wider forms here and there. */
const encoded = (batch: fc.Arbitrary<unknown>): fc.Arbitrary<Uint8Array> =>
  fc.tuple(batch, fc.infiniteStream(fc.oneof({ weight: 12, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) })))
    .map(([value, widths]) => encodeWidely(value, () => widths.next().value ?? 0));

const payloads = [
  ...vectors.map(({ name, frames_hex }) => [name, frames(frames_hex)[2] ?? Buffer.alloc(0)] as const),
  ...replays.flatMap(({ name, reply_frames_hex }) => reply_frames_hex.map((reply) => [name, Buffer.from(reply.at(-1) ?? '', 'hex')] as const)).filter(([, payload]) => payload.length > 0),
];

describe('golden payloads', () => {
  it.each(payloads)('%s is the same both ways', (_, payload) => {
    expect(withOwnWords(decodePayload(payload))).toStrictEqual(withOwnWords(decodeGeneric(payload)));
    expect(withOwnWords(decodePayload(new Uint8Array(payload)))).toStrictEqual(withOwnWords(decodeGeneric(payload)));
  });

  it('are read straight from bytes, all that vLLM of today sends and most of before', () => {
    const left = payloads.filter(([, payload]) => readKnownBatch(payload, DEFAULT_DECODE_LIMITS) === undefined).map(([name]) => name);
    expect(left.filter((name) => name.startsWith('vllm'))).toEqual([]);
    expect(left.length).toBeLessThan(payloads.length / 3);
  });
});

describe('readKnownBatch', () => {
  it('reads well-formed batches as the general way does', () => {
    fc.assert(fc.property(known, (batch) => {
      const payload = encodeWidely(batch, NARROW);
      expect(readKnownBatch(payload, DEFAULT_DECODE_LIMITS)).toBeDefined();
      expect(withOwnWords(decodePayload(payload))).toStrictEqual(withOwnWords(decodeGeneric(payload)));
    }), { numRuns: 600 });
  });

  it('agrees on values in wider forms than needed', () => {
    fc.assert(fc.property(encoded(known), (payload) => {
      expect(withOwnWords(decodePayload(payload))).toStrictEqual(withOwnWords(decodeGeneric(payload)));
    }), { numRuns: 600 });
  });

  it('agrees on odd fields, kinds and types', () => {
    fc.assert(fc.property(encoded(oddBatch), (payload) => {
      expect(withOwnWords(decodePayload(payload))).toStrictEqual(withOwnWords(decodeGeneric(payload)));
    }), { numRuns: 1500 });
  });

  it('agrees on payloads cut anywhere, or with bytes behind', () => {
    fc.assert(fc.property(encoded(known), fc.uint8Array({ minLength: 1, maxLength: 3 }), (payload, tail) => {
      const step = Math.max(1, Math.floor(payload.length / 25));
      for (let length = 0; length < payload.length; length += step) {
        const cut = payload.subarray(0, length);
        expect(withOwnWords(decodePayload(cut))).toStrictEqual(withOwnWords(decodeGeneric(cut)));
      }
      const longer = Buffer.concat([payload, tail]);
      expect(withOwnWords(decodePayload(longer))).toStrictEqual(withOwnWords(decodeGeneric(longer)));
    }), { numRuns: 80 });
  });

  it('agrees on payloads with bytes changed', () => {
    const byte = fc.oneof(fc.constantFrom(0x80, 0x90, 0x91, 0xa0, 0xc0, 0xc1, 0xc4, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd2, 0xd3, 0xd9, 0xdc, 0xdd, 0xde, 0xff), fc.nat(255));
    const edits = fc.array(fc.tuple(fc.nat(100_000), byte), { minLength: 1, maxLength: 4 });
    const source = fc.oneof(encoded(known), fc.constantFrom(...payloads.map(([, payload]) => payload).filter(({ length }) => length < 2000)));
    fc.assert(fc.property(source, edits, (payload, list) => {
      const bytes = Buffer.from(payload);
      for (const [at, value] of list) bytes[at % bytes.length] = value;
      expect(withOwnWords(decodePayload(bytes))).toStrictEqual(withOwnWords(decodeGeneric(bytes)));
    }), { numRuns: 2500 });
  });

  it('leaves what may be beyond the limits to the general way', () => {
    const payload = encodeWidely([1.5, [{ type: 'BlockStored', block_hashes: [1], parent_block_hash: null, token_ids: [1, 2], block_size: 2, extra_keys: [[['image', 3]]] }], 0], NARROW);
    for (const some of [{ maxDepth: 5 }, { maxDepth: 6 }, { maxDepth: 7 }, { maxNodes: 10 }, { maxNodes: 200 }]) {
      const limits = { ...DEFAULT_DECODE_LIMITS, ...some };
      expect(withOwnWords(decodePayload(payload, limits))).toStrictEqual(withOwnWords(decodeGeneric(payload, limits)));
    }
  });

  it('keeps nothing of the payload', () => {
    const payload = encodeWidely([1.5, [{ type: 'BlockStored', block_hashes: [new Uint8Array(32).fill(5)], parent_block_hash: 7, token_ids: Array.from({ length: 40 }, (_, at) => at), block_size: 40, medium: 'NVME', extra_keys: [['salt', new Uint8Array(32).fill(9)]] }], 0], NARROW);
    const batch = readKnownBatch(payload, DEFAULT_DECODE_LIMITS);
    const copy = structuredClone(batch);
    payload.fill(0);
    expect(batch).toStrictEqual(copy);
    expect(batch?.events).toHaveLength(1);
  });
});

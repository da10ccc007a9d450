import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { DEFAULT_DECODE_LIMITS, decodeMessage, decodePayload, readSequence } from '#engine/kv-events/decode-batch.ts';
import { hashDecimal, hashHex, highWord, lowWord } from '#engine/kv-events/block-hashes.ts';
import type { KvBatch, KvEvent, RemovedEvent, StoredEvent } from '#engine/kv-events/kv-event.ts';
import { copyOfRun } from '#engine/kv-events/word-run.ts';
import { asGolden, expectedEvent, frames, replays, vector, vectors } from './golden.ts';

function decodeEvents(events: readonly unknown[]): KvBatch {
  const result = decodePayload(encode([1, events, 0], { useBigInt64: true }));
  if (!result.ok) throw new Error(result.detail);
  return result.batch;
}

function only<Kind extends KvEvent['kind']>(batch: KvBatch, kind: Kind): Extract<KvEvent, { kind: Kind }> {
  const [event] = batch.events;
  if (batch.events.length !== 1 || event?.kind !== kind) throw new Error(`expected one ${kind} event, got ${JSON.stringify(batch.events.map((e) => e.kind))}`);
  return event as Extract<KvEvent, { kind: Kind }>;
}

function payload(...hex: string[]): Buffer {
  return Buffer.from(hex.join(''), 'hex');
}

describe('golden vectors', () => {
  it.each(vectors.map((golden) => [golden.name, golden] as const))('%s', (_name, golden) => {
    const result = decodeMessage(frames(golden.frames_hex));
    if (!result.ok) throw new Error(result.detail);
    expect(result.topic).toBe(golden.decoded.topic);
    expect(result.seq).toBe(golden.decoded.seq);
    expect(result.batch.tsUnixMs).toBe(golden.decoded.batch.ts * 1000);
    expect(result.batch.rank).toBe(golden.decoded.batch.data_parallel_rank ?? golden.decoded.batch.attn_dp_rank ?? undefined);
    expect(result.batch.encoding).toBe(golden.event_layout);
    expect(result.batch.unknownFields).toBe(0);
    expect(result.batch.events.map(asGolden)).toEqual(golden.decoded.batch.events.map(expectedEvent));
  });

  it.each(replays.map((golden) => [golden.name, golden] as const))('replay %s', (_name, golden) => {
    const decoded = golden.reply_frames_hex.flatMap((reply) => {
      const body = Buffer.from(reply.at(-1) ?? '', 'hex');
      return body.length === 0 ? [] : [decodePayload(body)];
    });
    const expected = golden.decoded.filter((reply) => !reply.end);
    expect(decoded.length).toBe(expected.length);
    for (const [index, reply] of expected.entries()) {
      const result = decoded[index];
      if (result?.ok !== true) throw new Error('not decoded');
      const [ts, events, rank] = reply.batch ?? [];
      expect(result.batch.tsUnixMs).toBe(Number(ts) * 1000);
      expect(result.batch.rank).toBe(rank);
      const [event] = result.batch.events;
      const [raw] = events as [Readonly<Record<string, unknown>> | readonly unknown[]];
      const hashes = Array.isArray(raw) ? (raw[1] as unknown) : (raw as Readonly<Record<string, unknown>>)['block_hashes'];
      const tokens = Array.isArray(raw) ? (raw[3] as unknown) : (raw as Readonly<Record<string, unknown>>)['token_ids'];
      expect(event).toMatchObject({ kind: 'stored', blockSize: 4, medium: 'GPU', groupIdx: 0 });
      expect(asGolden(event as StoredEvent)).toMatchObject({ block_hashes: hashes, token_ids: tokens });
    }
  });
});

describe('hashes', () => {
  it('names the same block by integer and by digest alike', () => {
    const digest = Buffer.from('a3da5751f73e1ba159753d0b02ef8ecc524830c3051f50c8c910c6b15f1388cf', 'hex');
    const event = only(decodeEvents([['BlockRemoved', [digest, 14488298466357512399n]]]), 'removed');
    expect([highWord(event.hashes, 0), lowWord(event.hashes, 0)]).toEqual([highWord(event.hashes, 1), lowWord(event.hashes, 1)]);
    expect(hashHex(event.hashes, 0)).toBe(digest.toString('hex'));
    expect(hashHex(event.hashes, 1)).toBe('c910c6b15f1388cf');
    expect(hashDecimal(event.hashes, 0)).toBe('14488298466357512399');
  });

  it('shows signed integers as two\'s complement, and keeps them exact', () => {
    const event = only(decodeEvents([['BlockRemoved', [-1, -9223372036854775808n, 42]]]), 'removed');
    expect([0, 1, 2].map((index) => hashHex(event.hashes, index))).toEqual(['ffffffffffffffff', '8000000000000000', '000000000000002a']);
    expect([0, 1, 2].map((index) => hashDecimal(event.hashes, index))).toEqual(['-1', '-9223372036854775808', '42']);
  });

  it('reads 53-bit numbers without losing their high word', () => {
    const event = only(decodeEvents([['BlockRemoved', [0x1f_ffff_ffff_ffff]]]), 'removed');
    expect(hashHex(event.hashes, 0)).toBe('001fffffffffffff');
  });

  it('says when integers and digests are mixed', () => {
    expect(decodeEvents([['BlockRemoved', [1]], ['BlockRemoved', [Buffer.alloc(32)]]]).hashForm).toBe('mixed');
    expect(decodeEvents([['BlockRemoved', [Buffer.alloc(16)]]]).hashForm).toBe('bytes');
    expect(decodeEvents([['BlockRemoved', [1, Buffer.alloc(16)]]]).hashForm).toBe('mixed');
    expect(decodeEvents([['AllBlocksCleared']]).hashForm).toBeUndefined();
  });
});

describe('tolerance', () => {
  it('costs one bad event that event only', () => {
    const batch = decodeEvents([
      ['BlockStored', [1], null, [1, 2], 2, null],
      ['BlockStored', 'no list', null, [1, 2], 2, null],
      ['BlockStored', [1.5], null, [1, 2], 2, null],
      ['BlockStored', [1], null, [1, -2], 2, null],
      ['BlockStored', [1], null, [1, 2], null, null],
      ['BlockStored', [1], {}, [1, 2], 2, null],
      [7],
      null,
      { block_hashes: [1] },
      ['BlockRemoved', [2]],
    ]);
    expect(batch.events.map((event) => event.kind)).toEqual(['stored', 'bad', 'bad', 'bad', 'bad', 'bad', 'bad', 'bad', 'bad', 'removed']);
    expect(batch.events.map((event) => (event.kind === 'bad' ? event.reason : ''))).toEqual([
      '',
      'BlockStored: block_hashes is a string',
      'BlockStored: block hash 0 is a number, not an integer or a digest',
      'BlockStored: token 1 is no token id',
      'BlockStored: block_size is nil',
      'BlockStored: parent_block_hash is neither nil nor a hash',
      'event tag is a number',
      'event is nil',
      'event type is nil',
      '',
    ]);
  });

  it('takes a parent of 0, which simulators send for none, for the beginning of the prompt', () => {
    const parents = [0, 0n, null, 1, new Uint8Array(32)].map((parent) => only(decodeEvents([['BlockStored', [7], parent, [1, 2], 2, null, 'GPU']]), 'stored').parent);
    expect(parents.map((parent) => parent !== undefined)).toEqual([false, false, false, true, true]);
    const named = { type: 'BlockStored', block_hashes: [7], parent_block_hash: 0, token_ids: [1, 2], block_size: 2, lora_id: null, medium: 'GPU', lora_name: null, odd: 1 };
    expect(only(decodeEvents([named]), 'stored').parent).toBeUndefined();
  });

  it('keeps events of unknown kinds, with what can be read of them', () => {
    const named = only(decodeEvents([{ type: 'BlockInactive', block_hashes: [7], medium: 'GPU', since: 1 }]), 'unknown');
    expect(named).toMatchObject({ tag: 'BlockInactive', medium: 'GPU', raw: '{"type":"BlockInactive","block_hashes":[7],"medium":"GPU","since":1}' });
    expect(hashHex(named.hashes, 0)).toBe('0000000000000007');
    expect(only(decodeEvents([['Moved', 'x']]), 'unknown')).toMatchObject({ tag: 'Moved', raw: '["Moved","x"]' });
  });

  it('counts unknown fields, extra slots and optional fields of odd types, and keeps them as text', () => {
    const batch = decodeEvents([
      { type: 'BlockRemoved', block_hashes: [1], medium: 5, colour: 'red' },
      ['BlockRemoved', [1], 'GPU', 0, 'more'],
      ['AllBlocksCleared', 'GPU'],
    ]);
    expect(batch.unknownFields).toBe(4);
    expect(batch.events.map((event) => event.kind)).toEqual(['removed', 'removed', 'cleared']);
    expect((batch.events[0] as RemovedEvent).medium).toBeUndefined();
    expect(batch.events.map((event) => ('unread' in event ? event.unread : undefined))).toEqual(['{"colour":"red","medium":5}', '{"slot_4":"more"}', undefined]);
  });

  it('reads small integers that came in 64 bits, as Go and Rust encoders send them', () => {
    const event = only(decodeEvents([['BlockStored', [5n], 4n, [1n, 2n], 2n, null, 'GPU', null, null, 3n]]), 'stored');
    expect(event).toMatchObject({ blockSize: 2, groupIdx: 3 });
    expect(Array.from(copyOfRun(event.tokens))).toEqual([1, 2]);
  });

  it('takes a batch as a map, with a rank under either name', () => {
    for (const name of ['data_parallel_rank', 'attn_dp_rank']) {
      const result = decodePayload(encode({ ts: 2.5, events: [['AllBlocksCleared']], [name]: 3, more: 1 }));
      expect(result).toMatchObject({ ok: true, batch: { tsUnixMs: 2500, rank: 3, unknownFields: 1, encoding: 'array' } });
    }
  });

  it('says mixed when a batch has events of both layouts', () => {
    expect(decodeEvents([['AllBlocksCleared'], { type: 'AllBlocksCleared' }]).encoding).toBe('mixed');
  });
});

describe("SGLang's slot 7", () => {
  const head = ['BlockStored', [1], null, [1], 1];

  it('is an object with salt and session', () => {
    expect(only(decodeEvents([[...head, null, 'GPU', { cache_salt: 'tenant', session_id: 's1' }]]), 'stored'))
      .toMatchObject({ cacheSalt: 'tenant', sessionId: 's1', loraName: undefined });
  });

  it('is a salt when slot 8 is a session', () => {
    expect(only(decodeEvents([[...head, null, 'GPU', 'tenant', 's1']]), 'stored')).toMatchObject({ cacheSalt: 'tenant', sessionId: 's1', loraName: undefined });
  });

  it('is a salt when hashes are signed and no LoRA id is there', () => {
    const signed = ['BlockStored', [-5], null, [1], 1];
    expect(only(decodeEvents([[...signed, null, 'GPU', 'tenant', null]]), 'stored')).toMatchObject({ cacheSalt: 'tenant', loraName: undefined });
  });

  it("is vLLM's LoRA name otherwise", () => {
    expect(only(decodeEvents([[...head, 4, 'GPU', 'sql-adapter']]), 'stored')).toMatchObject({ cacheSalt: undefined, loraName: 'sql-adapter', loraId: 4 });
    expect(only(decodeEvents([[...head, null, 'GPU', 'sql-adapter', [null]]]), 'stored')).toMatchObject({ cacheSalt: undefined, loraName: 'sql-adapter' });
  });
});

describe('bad messages', () => {
  const good = frames(vector('2026-08-20/2f41c894e/cleared').frames_hex);
  const [topic, seq, body] = good as [Buffer, Buffer, Buffer];

  it.each([
    ['no frames', [], 'frame-count', undefined],
    ['two frames', [seq, body], 'frame-count', undefined],
    ['four frames', [topic, seq, body, body], 'frame-count', undefined],
    ['short sequence', [topic, Buffer.from([1]), body], 'sequence', undefined],
    ['the end marker as sequence', [topic, Buffer.alloc(8, 0xff), body], 'sequence', undefined],
    ['empty payload', [topic, seq, Buffer.alloc(0)], 'malformed', 18],
    ['truncated payload', [topic, seq, body.subarray(0, -1)], 'malformed', 18],
    ['bytes after the payload', [topic, seq, Buffer.concat([body, Buffer.from([0])])], 'malformed', 18],
    ['a string', [topic, seq, payload('a161')], 'not-a-batch', 18],
    ['events that are no list', [topic, seq, payload('920105')], 'not-a-batch', 18],
    ['a reserved byte', [topic, seq, payload('c1')], 'malformed', 18],
  ] as const)('%s', (_name, message, reason, knownSeq) => {
    expect(decodeMessage(message)).toMatchObject({ ok: false, reason, seq: knownSeq });
  });

  it('refuses by size before looking inside', () => {
    const result = decodePayload(Buffer.alloc(101), { ...DEFAULT_DECODE_LIMITS, maxPayloadBytes: 100 });
    expect(result).toEqual({ ok: false, reason: 'too-large', detail: 'payload of 101 bytes, limit 100' });
  });

  it.each([
    ['an array of four billion', 'ddffffffff', 'truncated'],
    ['a map of four billion', 'dfffffffff', 'truncated'],
    ['nesting without end', '91'.repeat(100_000), 'nested deeper than 16'],
    ['claims inside claims', 'dd000fffff'.repeat(1000), 'truncated'],
  ])('refuses %s cheaply', (_name, hex, detail) => {
    expect(decodePayload(payload(hex))).toEqual({ ok: false, reason: 'malformed', detail: `payload: ${detail}` });
  });

  it('refuses more events or blocks than a batch can have, whichever way it is read', () => {
    const batch = (events: readonly unknown[]): Uint8Array => encode([1.5, events, 0]);
    const limits = { ...DEFAULT_DECODE_LIMITS, maxEvents: 3, maxBlocks: 4 };
    const removed = (count: number): unknown[] => ['BlockRemoved', Array.from({ length: count }, (_, index) => index), 'GPU'];
    expect(decodePayload(batch([removed(2), removed(2), ['AllBlocksCleared']]), limits).ok).toBe(true);
    const tooMany = { ok: false, reason: 'too-large', detail: '4 events in one batch, limit 3' };
    expect(decodePayload(batch(Array.from({ length: 4 }, () => ['AllBlocksCleared'])), limits)).toEqual(tooMany);
    expect(decodePayload(batch(Array.from({ length: 4 }, () => null)), limits)).toEqual(tooMany);
    const tooLarge = { ok: false, reason: 'too-large', detail: '5 block hashes in one batch, limit 4' };
    expect(decodePayload(batch([removed(2), removed(3)]), limits)).toEqual(tooLarge);
    expect(decodePayload(batch([removed(2), removed(3), ['Novel']]), limits)).toEqual(tooLarge);
  });

  it('refuses too many values', () => {
    const result = decodePayload(encode([1, [['BlockRemoved', [1, 2, 3]]], 0]), { ...DEFAULT_DECODE_LIMITS, maxNodes: 8 });
    expect(result).toMatchObject({ ok: false, detail: 'payload: more than 8 values' });
  });
});

describe('readSequence', () => {
  it('is big-endian over all eight bytes', () => {
    expect(readSequence(payload('0000000100000002'))).toBe(4_294_967_298);
    expect(readSequence(payload('001fffffffffffff'))).toBe(Number.MAX_SAFE_INTEGER);
    expect(readSequence(payload('0020000000000000'))).toBeUndefined();
  });
});

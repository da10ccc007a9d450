import { decode } from '@msgpack/msgpack';
import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { decodeMessage, decodePayload, type MessageResult } from '#engine/kv-events/decode-batch.ts';
import { decodeEvent } from '#engine/kv-events/decode-event.ts';
import { checkMsgpack } from '#engine/kv-events/msgpack-guard.ts';
import { parseReply } from '#engine/kv-events/replay-client.ts';
import { frames, vectors } from './golden.ts';

const LIMITS = { maxDepth: 16, maxNodes: 100_000 };
// The big vector only makes mutation slow.
const small = vectors.map((golden) => frames(golden.frames_hex)).filter((message) => (message[2]?.length ?? 0) < 2000);

/** A golden message with some bytes overwritten, and perhaps cut. */
const mutated = fc.record({
  message: fc.constantFrom(...small),
  edits: fc.array(fc.record({ at: fc.nat(2000), byte: fc.oneof(fc.constantFrom(0x80, 0x90, 0xc0, 0xc1, 0xc4, 0xcf, 0xd9, 0xdc, 0xdd, 0xdf, 0xff), fc.nat(255)) }), { minLength: 1, maxLength: 6 }),
  cut: fc.option(fc.nat(2000), { nil: undefined }),
}).map(({ message, edits, cut }) => {
  const payload = Buffer.from(message[2] ?? Buffer.alloc(0));
  for (const { at, byte } of edits) payload[at % payload.length] = byte;
  return [message[0] ?? Buffer.alloc(0), message[1] ?? Buffer.alloc(0), cut === undefined ? payload : payload.subarray(0, cut)];
});

function wellFormed(result: MessageResult): boolean {
  if (!result.ok) return result.detail.length > 0 && result.detail.length < 500;
  return result.batch.events.every((event) => {
    switch (event.kind) {
      case 'stored': return event.hashes.length % 2 === 0 && event.blockSize >= 0;
      case 'removed': case 'unknown': return event.hashes.length % 2 === 0;
      case 'bad': return event.reason.length > 0;
      case 'cleared': break;
    }
    return true;
  });
}

describe('the decoder never throws', () => {
  it('on arbitrary frames', () => {
    fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 5 }), (message) => {
      expect(wellFormed(decodeMessage(message))).toBe(true);
    }));
  });

  it('on arbitrary payloads', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (payload) => {
      expect(wellFormed(decodeMessage([Buffer.alloc(0), Buffer.alloc(8), payload]))).toBe(true);
    }), { numRuns: 1000 });
  });

  it('on golden messages with bytes overwritten and cut off', () => {
    fc.assert(fc.property(mutated, (message) => {
      expect(wellFormed(decodeMessage(message))).toBe(true);
    }), { numRuns: 3000 });
  });

  it('on arbitrary decoded values', () => {
    const value = fc.letrec((tie) => ({
      node: fc.oneof({ maxDepth: 4 }, fc.constant(null), fc.boolean(), fc.integer(), fc.double(), fc.bigInt(), fc.string(), fc.uint8Array({ maxLength: 70 }),
        fc.constantFrom('BlockStored', 'BlockRemoved', 'AllBlocksCleared'), fc.array(tie('node'), { maxLength: 13 }),
        fc.dictionary(fc.constantFrom('type', 'block_hashes', 'token_ids', 'block_size', 'medium', 'extra_keys', 'x'), tie('node'))),
    })).node;
    fc.assert(fc.property(value, (raw) => {
      expect(['stored', 'removed', 'cleared', 'unknown', 'bad']).toContain(decodeEvent(raw).event.kind);
    }), { numRuns: 1000 });
  });

  it('nor does the replay parser, and what it takes for a batch has a sequence and a payload', () => {
    fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 12 }), { maxLength: 6 }), (reply) => {
      const parsed = parseReply(reply);
      const isSound = parsed.kind !== 'message' || (parsed.message.frames[1].length === 8 && parsed.message.frames[2].length > 0);
      expect(isSound).toBe(true);
    }));
  });
});

describe('the guard', () => {
  it('passes every golden payload, and no cut-off part of one', () => {
    for (const [, , payload = Buffer.alloc(0)] of vectors.map((golden) => frames(golden.frames_hex))) {
      expect(checkMsgpack(payload, LIMITS)).toBeUndefined();
      const step = Math.max(1, Math.floor(payload.length / 50));
      for (let length = 0; length < payload.length; length += step) expect(checkMsgpack(payload.subarray(0, length), LIMITS)).toBe('truncated');
    }
  });

  it('agrees with the decoder on what is one whole value', () => {
    fc.assert(fc.property(fc.oneof(fc.uint8Array({ minLength: 1, maxLength: 40 }), mutated.map((message) => message[2] ?? Buffer.alloc(0))), (bytes) => {
      const refusal = checkMsgpack(bytes, LIMITS);
      let isDecodable = true;
      try {
        decode(bytes, { useBigInt64: true, mapKeyConverter: String, maxArrayLength: 10_000, maxMapLength: 10_000 });
      } catch {
        isDecodable = false;
      }
      // What the decoder takes, the guard takes (but for depth); the decoder also refuses odd extensions and keys.
      expect(!isDecodable || refusal === undefined || refusal === 'nested deeper than 16').toBe(true);
    }), { numRuns: 3000 });
  });
});

it('keeps nothing of the frame', () => {
  const message = frames(vectors.find((golden) => golden.name.endsWith('2f41c894e/stored-extra-keys'))?.frames_hex ?? []);
  const result = decodeMessage(message);
  if (!result.ok) throw new Error(result.detail);
  const before = JSON.stringify(result.batch.events, (_key, part: unknown) => (typeof part === 'bigint' ? String(part) : part));
  message[2]?.fill(0);
  expect(JSON.stringify(result.batch.events, (_key, part: unknown) => (typeof part === 'bigint' ? String(part) : part))).toBe(before);
  expect(decodePayload(message[2] ?? Buffer.alloc(0)).ok).toBe(false);
});

/**
 * Block hashes, exactly. An engine names a block by an unsigned 64-bit integer (vLLM), a signed one (vLLM before
 * 2025-09, SGLang) or a digest in bytes; the low 8 bytes of the digest, big-endian, equal the integer
 * (vllm/v1/core/kv_cache_utils.py). So every hash has a 64-bit key, kept as two 32-bit words: no JS number can hold
 * it, and a BigInt per block would cost the garbage collector too much.
 */
import type { BlockHashHex } from '#shared/kv.ts';
import { NO_WORDS, runOf, type WordRun } from './word-run.ts';

/** Two words per hash, high then low, of the 64-bit key. */
export interface BlockHashes extends WordRun {
  /** Lower-case hex of the whole digest, for hashes that came as bytes. Absent when none did. */
  readonly digests: readonly (string | undefined)[] | undefined;
  /** A negative integer was among them, so the engine's integers are signed. */
  readonly isSigned: boolean;
}

/** Longest digest accepted; SHA-512 has 64 bytes, vLLM's have 16 or 32. */
const MAX_DIGEST_BYTES = 64;
const scratch = new DataView(new ArrayBuffer(8));

export const NO_HASHES: BlockHashes = { ...NO_WORDS, digests: undefined, isSigned: false };

export function hashCount(hashes: BlockHashes): number {
  return hashes.length >>> 1;
}

/** The high word of a hash. */
export function highWord({ words, start }: BlockHashes, index: number): number {
  return words[start + index * 2] ?? 0;
}

/** The low word of a hash. */
export function lowWord({ words, start }: BlockHashes, index: number): number {
  return words[start + index * 2 + 1] ?? 0;
}

/** The hash as it crosses borders: 16 hex digits of the integer form, the whole digest of the bytes form. */
export function hashHex(hashes: BlockHashes, index: number): BlockHashHex {
  return hashes.digests?.[index] ?? keyHex(highWord(hashes, index), lowWord(hashes, index));
}

/** 16 lower-case hex digits of a 64-bit key. */
export function keyHex(high: number, low: number): BlockHashHex {
  return high.toString(16).padStart(8, '0') + low.toString(16).padStart(8, '0');
}

/** The integer as the engine publishes it (signed when it publishes signed ones), or the low 64 bits of a digest. */
export function hashDecimal(hashes: BlockHashes, index: number): string {
  const key = (BigInt(highWord(hashes, index)) << 32n) | BigInt(lowWord(hashes, index));
  return (hashes.isSigned ? BigInt.asIntN(64, key) : key).toString();
}

/** Reads decoded msgpack values as hashes. Answers a reason in words when one of them is no hash. */
export function readHashes(values: readonly unknown[]): BlockHashes | string {
  const words = new Uint32Array(values.length * 2);
  let digests: (string | undefined)[] | undefined;
  let isSigned = false;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (typeof value === 'bigint') {
      // Writing wraps to 64 bits, so a signed integer becomes its two's complement.
      scratch.setBigUint64(0, value);
      if (value < 0n) isSigned = true;
    } else if (typeof value === 'number' && Number.isSafeInteger(value)) {
      scratch.setUint32(0, Math.floor(value / 0x1_0000_0000));
      scratch.setUint32(4, value);
      if (value < 0) isSigned = true;
    } else if (value instanceof Uint8Array && value.length > 0 && value.length <= MAX_DIGEST_BYTES) {
      scratch.setBigUint64(0, 0n);
      for (let tail = 1; tail <= 8 && tail <= value.length; tail += 1) scratch.setUint8(8 - tail, value[value.length - tail] ?? 0);
      digests ??= [];
      digests[index] = Buffer.from(value.buffer, value.byteOffset, value.length).toString('hex');
    } else {
      return `block hash ${index} is ${describe(value)}, not an integer or a digest`;
    }
    words[index * 2] = scratch.getUint32(0);
    words[index * 2 + 1] = scratch.getUint32(4);
  }
  return { ...runOf(words), digests, isSigned };
}

/** Whether a parent says that its block begins at token 0: simulators send the integer 0 for nil (llm-d-inference-sim, positional events). */
export function isNoParent(parent: BlockHashes): boolean {
  return parent.digests === undefined && lowWord(parent, 0) === 0 && highWord(parent, 0) === 0;
}

/** The kind of a decoded value, for messages. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return 'nil';
  if (Array.isArray(value)) return 'an array';
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  return typeof value === 'object' ? 'a map' : `a ${typeof value}`;
}

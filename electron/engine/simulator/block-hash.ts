/**
 * Chained block hashes in vLLM's shape: SHA-256 over parent digest, token ids and extra keys. The digest's low 8 bytes,
 * big-endian, are the integer form (protocol facts: vllm/v1/core/kv_cache_utils.py). The values are not those of a vLLM
 * with a pinned seed: nothing may depend on computing them elsewhere.
 */
import { createHash } from 'node:crypto';

/** An element of extra_keys: LoRA name, `[media identifier, offset]`, or cache salt. */
export type ExtraKey = string | readonly [string, number];

export interface BlockHash {
  /** 32 bytes. */
  readonly digest: Buffer;
  /** Hex of the low 8 bytes: identity inside a cache. */
  readonly key: string;
}

function toBlockHash(digest: Buffer): BlockHash {
  return { digest, key: digest.toString('hex', 24) };
}

/** The parent of root blocks (NONE_HASH), from a seed that is new for each life of an engine. */
export function rootHash(seed: string): BlockHash {
  return toBlockHash(createHash('sha256').update(seed).digest());
}

export interface HashInput {
  readonly parent: BlockHash;
  readonly tokens: readonly number[];
  /** First token of the block inside `tokens`. */
  readonly offset: number;
  readonly blockSize: number;
  readonly extraKeys: readonly ExtraKey[] | undefined;
}

/** Hash of one full block. */
export function hashBlock({ parent, tokens, offset, blockSize, extraKeys }: HashInput): BlockHash {
  const input = Buffer.allocUnsafe(32 + blockSize * 4);
  parent.digest.copy(input);
  for (let index = 0; index < blockSize; index += 1) input.writeUInt32LE(tokens[offset + index] ?? 0, 32 + index * 4);
  const hash = createHash('sha256').update(input);
  if (extraKeys !== undefined) hash.update(JSON.stringify(extraKeys));
  return toBlockHash(hash.digest());
}

/** The integer form that engines publish by default. */
export function hashToInt(hash: BlockHash): bigint {
  return hash.digest.readBigUInt64BE(24);
}

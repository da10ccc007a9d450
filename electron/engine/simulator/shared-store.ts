/**
 * A KV store that several simulated instances read and write, for the `plain` protocol: the prefill leg leaves its blocks
 * there and the decode leg finds them by content. Keys come from a chain with a constant seed, because each instance's own
 * hashes are private to it.
 */
import { hashBlock, rootHash, type BlockHash } from './block-hash.ts';

const STORE_SEED = 'pdscope-shared-store';

export interface SharedStore {
  /** Remembers all full blocks of `tokens`. */
  put(tokens: readonly number[], blockSize: number): void;
  /** Tokens of the longest known prefix, a multiple of the block size. */
  prefixTokens(tokens: readonly number[], blockSize: number): number;
}

function chain(tokens: readonly number[], blockSize: number): BlockHash[] {
  const hashes: BlockHash[] = [];
  let parent = rootHash(STORE_SEED);
  for (let offset = 0; offset + blockSize <= tokens.length; offset += blockSize) {
    parent = hashBlock({ parent, tokens, offset, blockSize, extraKeys: undefined });
    hashes.push(parent);
  }
  return hashes;
}

/** A store of at most `capacity` blocks; the least recently written leave first. */
export function createSharedStore(capacity = 100_000): SharedStore {
  const keys = new Set<string>();
  return {
    put(tokens, blockSize) {
      for (const { key } of chain(tokens, blockSize)) {
        keys.delete(key);
        keys.add(key);
      }
      for (const key of keys) {
        if (keys.size <= capacity) break;
        keys.delete(key);
      }
    },
    prefixTokens(tokens, blockSize) {
      let count = 0;
      for (const { key } of chain(tokens, blockSize)) {
        if (!keys.has(key)) break;
        count += blockSize;
      }
      return count;
    },
  };
}

/**
 * Token ids of blocks in a few large typed arrays, one pool per block size: no object per block, nothing for
 * the garbage collector to walk, and freed room is used again. Refuses beyond its byte budget instead of growing.
 */
interface SizePool {
  readonly blockSize: number;
  readonly blocksPerSegment: number;
  readonly segments: Uint32Array[];
  /** References given back. */
  readonly free: number[];
  /** References ever given out. */
  used: number;
}

/** Tokens per segment, about; 256 KB. */
const SEGMENT_TOKENS = 65_536;

/** Says that a block's tokens are not kept. */
export const NO_TOKENS = 0;

export class TokenPool {
  readonly #pools = new Map<number, SizePool>();
  readonly #budgetBytes: number;
  #bytes = 0;
  /** The pool used last: engines of one model have one or two block sizes. */
  #recent: SizePool | undefined;

  constructor(budgetBytes: number) {
    this.#budgetBytes = budgetBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Copies `blockSize` tokens from `offset` on. Answers a reference, or NO_TOKENS when the budget is spent. */
  put(tokens: Uint32Array, offset: number, blockSize: number): number {
    const pool = this.#poolOf(blockSize) ?? this.#addPool(blockSize);
    const reference = pool.free.pop() ?? this.#extend(pool);
    if (reference === NO_TOKENS) return NO_TOKENS;
    const { segment, start } = locate(pool, reference);
    for (let index = 0; index < blockSize; index += 1) segment[start + index] = tokens[offset + index] ?? 0;
    return reference;
  }

  /** Whether `put` would find room. */
  hasRoom(blockSize: number): boolean {
    const pool = this.#poolOf(blockSize);
    if (pool !== undefined && (pool.free.length > 0 || pool.used < pool.segments.length * pool.blocksPerSegment)) return true;
    return this.#bytes + Math.max(1, Math.floor(SEGMENT_TOKENS / blockSize)) * blockSize * 4 <= this.#budgetBytes;
  }

  get(reference: number, blockSize: number): number[] | undefined {
    const pool = this.#poolOf(blockSize);
    if (pool === undefined || reference === NO_TOKENS) return undefined;
    const { segment, start } = locate(pool, reference);
    return Array.from(segment.subarray(start, start + blockSize));
  }

  /** How many tokens kept under a reference equal those from `offset` on, counted from the first. */
  commonPrefix(reference: number, blockSize: number, other: { readonly tokens: Uint32Array; readonly offset: number }): number {
    const pool = this.#poolOf(blockSize);
    if (pool === undefined || reference === NO_TOKENS) return 0;
    const { tokens, offset } = other;
    const index = reference - 1;
    const segment = pool.segments[Math.floor(index / pool.blocksPerSegment)];
    if (segment === undefined) return 0;
    const start = (index % pool.blocksPerSegment) * blockSize;
    let same = 0;
    while (same < blockSize && segment[start + same] === tokens[offset + same]) same += 1;
    return same;
  }

  /** Where, from `from` on, a token stands among those kept under a reference; -1 when nowhere. */
  positionOf(reference: number, blockSize: number, { token, from }: { readonly token: number; readonly from: number }): number {
    const pool = this.#poolOf(blockSize);
    if (pool === undefined || reference === NO_TOKENS) return -1;
    const { segment, start } = locate(pool, reference);
    for (let at = from; at < blockSize; at += 1) if (segment[start + at] === token) return at;
    return -1;
  }

  /** How many tokens from `at` on equal those of `other` from its offset on. */
  commonRun(reference: number, blockSize: number, { at, tokens, offset }: { readonly at: number; readonly tokens: Uint32Array; readonly offset: number }): number {
    const pool = this.#poolOf(blockSize);
    if (pool === undefined || reference === NO_TOKENS) return 0;
    const { segment, start } = locate(pool, reference);
    let same = 0;
    while (at + same < blockSize && offset + same < tokens.length && segment[start + at + same] === tokens[offset + same]) same += 1;
    return same;
  }

  free(reference: number, blockSize: number): void {
    if (reference !== NO_TOKENS) this.#poolOf(blockSize)?.free.push(reference);
  }

  #poolOf(blockSize: number): SizePool | undefined {
    if (this.#recent?.blockSize === blockSize) return this.#recent;
    const pool = this.#pools.get(blockSize);
    if (pool !== undefined) this.#recent = pool;
    return pool;
  }

  #addPool(blockSize: number): SizePool {
    const pool: SizePool = { blockSize, blocksPerSegment: Math.max(1, Math.floor(SEGMENT_TOKENS / blockSize)), segments: [], free: [], used: 0 };
    this.#pools.set(blockSize, pool);
    this.#recent = pool;
    return pool;
  }

  #extend(pool: SizePool): number {
    if (pool.used === pool.segments.length * pool.blocksPerSegment) {
      const bytes = pool.blocksPerSegment * pool.blockSize * 4;
      if (this.#bytes + bytes > this.#budgetBytes) return NO_TOKENS;
      pool.segments.push(new Uint32Array(pool.blocksPerSegment * pool.blockSize));
      this.#bytes += bytes;
    }
    pool.used += 1;
    return pool.used;
  }
}

function locate(pool: SizePool, reference: number): { readonly segment: Uint32Array; readonly start: number } {
  const index = reference - 1;
  const segment = pool.segments[Math.floor(index / pool.blocksPerSegment)];
  if (segment === undefined) throw new Error(`token reference ${reference} was never given out`);
  return { segment, start: (index % pool.blocksPerSegment) * pool.blockSize };
}

/**
 * Paged KV cache of one data-parallel rank: reference-counted blocks, prefix lookup by chained hash, eviction of the least
 * recently used unreferenced block. As in vLLM, equal blocks are not merged (one hash may live in several physical blocks)
 * and a freed block keeps its hash until its memory is needed. Every change that vLLM publishes goes to `emit`.
 */
import type { BlockHash, ExtraKey } from './block-hash.ts';
import type { KvEvent } from './kv-event.ts';

export interface Block {
  readonly id: number;
  refs: number;
  hash: BlockHash | undefined;
  /** Holds other KV than its hash says, after a load that copied the wrong blocks. */
  isGarbage: boolean;
  previous: Block | undefined;
  next: Block | undefined;
}

export interface KvCacheOptions {
  /** Physical blocks. */
  readonly capacity: number;
  /** Tokens per block. */
  readonly blockSize: number;
  readonly emit: (event: KvEvent) => void;
}

export interface StoreInput {
  readonly blocks: readonly Block[];
  readonly hashes: readonly BlockHash[];
  readonly parent: BlockHash | undefined;
  readonly tokens: readonly number[];
  readonly extraKeys: readonly (readonly ExtraKey[] | undefined)[];
  readonly lora: { readonly id: number; readonly name: string } | undefined;
}

export class KvCache {
  readonly blockSize: number;
  readonly capacity: number;
  readonly #emit: (event: KvEvent) => void;
  readonly #byHash = new Map<string, Block[]>();
  /** Sentinel of a ring: `next` is the next to evict, `previous` the most recently freed. */
  readonly #free: Block;
  #freeCount = 0;
  #resident = 0;

  constructor(options: KvCacheOptions) {
    this.blockSize = options.blockSize;
    this.capacity = options.capacity;
    this.#emit = options.emit;
    this.#free = { id: 0, refs: 0, hash: undefined, isGarbage: false, previous: undefined, next: undefined };
    this.#free.previous = this.#free;
    this.#free.next = this.#free;
    // Block 0 is vLLM's null block and never handed out.
    for (let id = 1; id <= options.capacity; id += 1) {
      this.#append({ id, refs: 0, hash: undefined, isGarbage: false, previous: undefined, next: undefined });
    }
  }

  get freeBlocks(): number {
    return this.#freeCount;
  }

  /** Blocks that hold a hash, referenced or not. */
  get residentBlocks(): number {
    return this.#resident;
  }

  /** 0..1, as `vllm:kv_cache_usage_perc`. */
  get usage(): number {
    return 1 - this.#freeCount / this.capacity;
  }

  /** Blocks that hold the longest known prefix of `hashes`, at most `limit`. They are not acquired. */
  match(hashes: readonly BlockHash[], limit: number): Block[] {
    const found: Block[] = [];
    for (const hash of hashes) {
      const block = found.length < limit ? this.#byHash.get(hash.key)?.[0] : undefined;
      if (block === undefined) break;
      found.push(block);
    }
    return found;
  }

  /** Acquires `matched` and `fresh` new blocks behind them; undefined, with nothing changed, when too few are free. */
  allocate(matched: readonly Block[], fresh: number): Block[] | undefined {
    let idle = 0;
    for (const block of matched) if (block.refs === 0) idle += 1;
    if (this.#freeCount - idle < fresh) return undefined;
    for (const block of matched) {
      if (block.refs === 0) this.#unlink(block);
      block.refs += 1;
    }
    const blocks = [...matched];
    for (let index = 0; index < fresh; index += 1) blocks.push(this.#take());
    return blocks;
  }

  /** Gives full blocks their hashes and publishes one BlockStored for all of them. */
  store(input: StoreInput): void {
    if (input.hashes.length === 0) return;
    this.#assign(input);
    this.announce(input);
  }

  /** Publishes a BlockStored for blocks that are already there (`kv_cache_report_mode: full`); not a further copy. */
  announce(input: Omit<StoreInput, 'blocks'>): void {
    this.#emit({
      kind: 'stored',
      hashes: input.hashes,
      parent: input.parent,
      tokens: input.tokens,
      blockSize: this.blockSize,
      lora: input.lora,
      extraKeys: input.extraKeys,
    });
  }

  /** Drops one reference of each. The last block is freed first, so that a prefix outlives its continuation. */
  release(blocks: readonly Block[]): void {
    for (let index = blocks.length - 1; index >= 0; index -= 1) {
      const block = blocks[index];
      if (block === undefined) continue;
      if (block.refs <= 0) throw new Error(`KvCache.release: block ${block.id} is not held`);
      block.refs -= 1;
      if (block.refs === 0) this.#append(block);
    }
  }

  /** Forgets all hashes, as `/reset_prefix_cache`; false, with nothing changed, while any block is in use. */
  reset(): boolean {
    if (this.#freeCount !== this.capacity) return false;
    for (const blocks of this.#byHash.values()) for (const block of blocks) block.hash = undefined;
    this.#byHash.clear();
    this.#resident = 0;
    this.#emit({ kind: 'cleared' });
    return true;
  }

  #assign(input: StoreInput): void {
    for (const [index, hash] of input.hashes.entries()) {
      const block = input.blocks[index];
      if (block === undefined) throw new Error('KvCache.store: fewer blocks than hashes');
      block.hash = hash;
      this.#resident += 1;
      const twins = this.#byHash.get(hash.key);
      if (twins === undefined) this.#byHash.set(hash.key, [block]);
      else twins.push(block);
    }
  }

  #take(): Block {
    const block = this.#free.next;
    if (block === undefined || block === this.#free) throw new Error('KvCache: no free block after the check');
    this.#unlink(block);
    block.refs = 1;
    block.isGarbage = false;
    const { hash } = block;
    if (hash !== undefined) {
      block.hash = undefined;
      this.#resident -= 1;
      const twins = this.#byHash.get(hash.key) ?? [];
      const rest = twins.filter((twin) => twin !== block);
      if (rest.length === 0) this.#byHash.delete(hash.key);
      else this.#byHash.set(hash.key, rest);
      this.#emit({ kind: 'removed', hash });
    }
    return block;
  }

  #append(block: Block): void {
    const last = this.#free.previous ?? this.#free;
    block.previous = last;
    block.next = this.#free;
    last.next = block;
    this.#free.previous = block;
    this.#freeCount += 1;
  }

  #unlink(block: Block): void {
    if (block.previous !== undefined) block.previous.next = block.next;
    if (block.next !== undefined) block.next.previous = block.previous;
    block.previous = undefined;
    block.next = undefined;
    this.#freeCount -= 1;
  }
}

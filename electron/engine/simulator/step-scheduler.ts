/**
 * Which sequences work in the next step, and on how many tokens: running ones first, then the waiting queue in order, within
 * a token budget; blocks are allocated here, and the youngest running sequence is preempted when none is left. The shape of
 * vllm/v1/core/sched/scheduler.py without its options.
 */
import { hashBlock, type BlockHash, type ExtraKey } from './block-hash.ts';
import type { KvCache, StoreInput } from './kv-cache.ts';
import type { Sequence } from './sequence.ts';

export interface StepItem {
  readonly sequence: Sequence;
  readonly tokens: number;
}

export interface SchedulerOptions {
  readonly cache: KvCache;
  readonly root: BlockHash;
  readonly maxNumSeqs: number;
  readonly maxBatchedTokens: number;
  /** The sequence has its blocks and waits for another instance's KV. */
  readonly onLoad: (sequence: Sequence) => void;
  /** First admission; `localHitTokens` is set. */
  readonly onAdmitted: (sequence: Sequence) => void;
  readonly onPreempted: (sequence: Sequence) => void;
}

export class StepScheduler {
  readonly waiting: Sequence[] = [];
  readonly loading = new Set<Sequence>();
  readonly running: Sequence[] = [];
  readonly #options: SchedulerOptions;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  add(sequence: Sequence): void {
    this.#extendHashes(sequence);
    this.waiting.push(sequence);
  }

  /** Puts a sequence back at the head of the queue. */
  requeue(sequence: Sequence): void {
    sequence.state = 'waiting';
    this.waiting.unshift(sequence);
  }

  /** Takes a sequence out of wherever it is; its blocks are not touched. */
  remove(sequence: Sequence): void {
    this.loading.delete(sequence);
    for (const list of [this.waiting, this.running]) {
      const index = list.indexOf(sequence);
      if (index >= 0) list.splice(index, 1);
    }
  }

  plan(): StepItem[] {
    const items: StepItem[] = [];
    let budget = this.#options.maxBatchedTokens;
    let index = 0;
    for (let sequence = this.running[index]; sequence !== undefined && budget > 0; sequence = this.running[index]) {
      const tokens = Math.min(sequence.tokens.length - sequence.computed, budget);
      if (!this.#grow(sequence, sequence.computed + tokens)) continue;
      index += 1;
      budget -= tokens;
      this.#store(sequence, sequence.computed + tokens);
      items.push({ sequence, tokens });
    }
    while (budget > 0 && this.running.length < this.#options.maxNumSeqs) {
      const sequence = this.waiting[0];
      if (sequence === undefined || !this.#hasBlocks(sequence)) break;
      this.waiting.shift();
      if (!sequence.isRemoteDone) {
        sequence.state = 'loading';
        this.loading.add(sequence);
        this.#options.onLoad(sequence);
        continue;
      }
      const tokens = Math.min(sequence.tokens.length - sequence.computed, budget);
      budget -= tokens;
      sequence.state = 'running';
      this.running.push(sequence);
      this.#store(sequence, sequence.computed + tokens);
      items.push({ sequence, tokens });
    }
    return items;
  }

  /** Publishes the blocks of the first `tokens` tokens that are full and new. */
  storePulled(sequence: Sequence, tokens: number): void {
    this.#store(sequence, tokens);
  }

  releaseBlocks(sequence: Sequence): void {
    this.#options.cache.release(sequence.blocks);
    sequence.blocks = [];
    sequence.storedBlocks = 0;
    sequence.computed = 0;
    sequence.isGarbage = false;
  }

  #hasBlocks(sequence: Sequence): boolean {
    if (sequence.blocks.length > 0) return true;
    const { cache, onAdmitted } = this.#options;
    // The last token is always computed, so it can never come from the cache.
    const limit = Math.floor((sequence.tokens.length - 1) / cache.blockSize);
    const matched = cache.match(sequence.hashes, limit);
    const blocks = cache.allocate(matched, Math.ceil(sequence.tokens.length / cache.blockSize) - matched.length);
    if (blocks === undefined) return false;
    sequence.blocks = blocks;
    sequence.storedBlocks = matched.length;
    sequence.computed = matched.length * cache.blockSize;
    if (matched.some((block) => block.isGarbage)) sequence.isGarbage = true;
    if (sequence.scheduledMs === undefined) {
      sequence.localHitTokens = sequence.computed;
      if (sequence.spec.isFullReport && matched.length > 0) cache.announce(this.#range(sequence, 0, matched.length));
      onAdmitted(sequence);
    }
    return true;
  }

  /** False when the sequence itself had to make room. */
  #grow(sequence: Sequence, tokens: number): boolean {
    const { cache, onPreempted } = this.#options;
    while (sequence.blocks.length * cache.blockSize < tokens) {
      const added = cache.allocate([], 1);
      if (added !== undefined) {
        sequence.blocks.push(...added);
        continue;
      }
      const victim = this.running.pop() ?? sequence;
      this.releaseBlocks(victim);
      this.requeue(victim);
      onPreempted(victim);
      if (victim === sequence) return false;
    }
    return true;
  }

  #store(sequence: Sequence, tokens: number): void {
    const { cache } = this.#options;
    const full = Math.floor(tokens / cache.blockSize);
    const from = sequence.storedBlocks;
    if (full <= from) return;
    this.#extendHashes(sequence);
    const range = this.#range(sequence, from, full);
    // Computed on garbage is garbage.
    if (sequence.isGarbage) for (const block of range.blocks) block.isGarbage = true;
    cache.store(range);
    sequence.storedBlocks = full;
  }

  #range(sequence: Sequence, from: number, to: number): StoreInput {
    const { blockSize } = this.#options.cache;
    return {
      blocks: sequence.blocks.slice(from, to),
      hashes: sequence.hashes.slice(from, to),
      parent: from === 0 ? undefined : sequence.hashes[from - 1],
      tokens: sequence.tokens.slice(from * blockSize, to * blockSize),
      extraKeys: sequence.extraKeys.slice(from, to),
      lora: sequence.spec.lora,
    };
  }

  #extendHashes(sequence: Sequence): void {
    const { cache, root } = this.#options;
    const { tokens, hashes } = sequence;
    for (let offset = hashes.length * cache.blockSize; offset + cache.blockSize <= tokens.length; offset += cache.blockSize) {
      const extraKeys = extraKeysAt(sequence, offset, cache.blockSize);
      const parent = hashes[hashes.length - 1] ?? root;
      hashes.push(hashBlock({ parent, tokens, offset, blockSize: cache.blockSize, extraKeys }));
      sequence.extraKeys.push(extraKeys);
    }
  }
}

/** LoRA name, then media touching the block (offset relative to it, may be negative), then the salt on the root block. */
function extraKeysAt({ spec }: Sequence, offset: number, blockSize: number): ExtraKey[] | undefined {
  const keys: ExtraKey[] = [];
  if (spec.lora !== undefined) keys.push(spec.lora.name);
  for (const item of spec.media) {
    if (item.start < offset + blockSize && item.start + item.length > offset) keys.push([item.hash, item.start - offset]);
  }
  if (offset === 0 && spec.cacheSalt !== undefined) keys.push(spec.cacheSalt);
  return keys.length > 0 ? keys : undefined;
}

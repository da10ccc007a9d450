import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { hashBlock, rootHash, type BlockHash } from '#engine/simulator/block-hash.ts';
import { KvCache, type Block } from '#engine/simulator/kv-cache.ts';
import type { KvEvent } from '#engine/simulator/kv-event.ts';

const BLOCK_SIZE = 2;

function chain(values: readonly number[]): BlockHash[] {
  let parent = rootHash('test');
  return values.map((value) => {
    parent = hashBlock({ parent, tokens: [value, value], offset: 0, blockSize: BLOCK_SIZE, extraKeys: undefined });
    return parent;
  });
}

function createCache(capacity: number): { cache: KvCache; events: KvEvent[] } {
  const events: KvEvent[] = [];
  return { cache: new KvCache({ capacity, blockSize: BLOCK_SIZE, emit: (event) => void events.push(event) }), events };
}

function store(cache: KvCache, blocks: readonly Block[], hashes: readonly BlockHash[]): void {
  cache.store({ blocks, hashes, parent: undefined, tokens: [], extraKeys: hashes.map(() => undefined), lora: undefined });
}

function take(cache: KvCache, count: number, matched: readonly Block[] = []): Block[] {
  const blocks = cache.allocate(matched, count);
  if (blocks === undefined) throw new Error('expected blocks');
  return blocks;
}

describe('paged KV cache', () => {
  it('finds a freed prefix again and takes it out of the free list', () => {
    const { cache } = createCache(4);
    const hashes = chain([1, 2]);
    const blocks = take(cache, 2);
    store(cache, blocks, hashes);
    cache.release(blocks);
    expect(cache.freeBlocks).toBe(4);
    const matched = cache.match(hashes, 9);
    expect(matched).toEqual(blocks);
    take(cache, 0, matched);
    expect(cache.freeBlocks).toBe(2);
    expect(cache.usage).toBe(0.5);
  });

  it('evicts the end of the least recently freed chain first, one hash per event', () => {
    const { cache, events } = createCache(3);
    const [first, second] = chain([1, 2]) as [BlockHash, BlockHash];
    const blocks = take(cache, 2);
    store(cache, blocks, [first, second]);
    cache.release(blocks);
    take(cache, 2);
    expect(events.slice(1)).toEqual([{ kind: 'removed', hash: second }]);
    take(cache, 1);
    expect(events.slice(1)).toEqual([{ kind: 'removed', hash: second }, { kind: 'removed', hash: first }]);
    expect(cache.residentBlocks).toBe(0);
  });

  it('changes nothing when too few blocks are free, counting matched idle blocks as taken', () => {
    const { cache } = createCache(3);
    const hashes = chain([1, 2]);
    const blocks = take(cache, 2);
    store(cache, blocks, hashes);
    cache.release(blocks);
    expect(cache.allocate(cache.match(hashes, 2), 2)).toBeUndefined();
    expect(cache.freeBlocks).toBe(3);
    expect(cache.residentBlocks).toBe(2);
  });

  it('keeps equal blocks apart: a second copy survives the first one', () => {
    const { cache } = createCache(2);
    const [hash] = chain([1]) as [BlockHash];
    const [one, two] = take(cache, 2) as [Block, Block];
    store(cache, [one], [hash]);
    store(cache, [two], [hash]);
    expect(cache.residentBlocks).toBe(2);
    cache.release([one]);
    take(cache, 1);
    expect(cache.match([hash], 1)).toEqual([two]);
  });

  it('is reset only while nothing is in use', () => {
    const { cache, events } = createCache(2);
    const blocks = take(cache, 1);
    store(cache, blocks, chain([1]));
    expect(cache.reset()).toBe(false);
    cache.release(blocks);
    expect(cache.reset()).toBe(true);
    expect(events.at(-1)).toEqual({ kind: 'cleared' });
    expect(cache.residentBlocks).toBe(0);
  });

  it('refuses to free a block twice', () => {
    const { cache } = createCache(1);
    const blocks = take(cache, 1);
    cache.release(blocks);
    expect(() => cache.release(blocks)).toThrow('not held');
  });

  it('never loses a block, and its events always add up to what is resident', () => {
    const operation = fc.record({ kind: fc.constantFrom('request', 'finish'), values: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 4 }) });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
        const { cache, events } = createCache(7);
        const held: Block[][] = [];
        for (const { kind, values } of operations) {
          if (kind === 'finish') {
            const blocks = held.shift();
            if (blocks !== undefined) cache.release(blocks);
            continue;
          }
          const hashes = chain(values);
          const matched = cache.match(hashes, hashes.length);
          const blocks = cache.allocate(matched, hashes.length - matched.length);
          if (blocks === undefined) continue;
          store(cache, blocks.slice(matched.length), hashes.slice(matched.length));
          held.push(blocks);
        }
        const copies = new Map<string, number>();
        for (const event of events) {
          const hashes = event.kind === 'stored' ? event.hashes : event.kind === 'removed' ? [event.hash] : [];
          for (const { key } of hashes) copies.set(key, (copies.get(key) ?? 0) + (event.kind === 'stored' ? 1 : -1));
        }
        expect([...copies.values()].reduce((sum, count) => sum + count, 0)).toBe(cache.residentBlocks);
        expect([...copies.values()].every((count) => count >= 0)).toBe(true);
        const used = new Set(held.flat()).size;
        expect(cache.freeBlocks).toBe(7 - used);
      }),
    );
  });
});

import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { BlockPool, FrameSlab, framesAt, type Block } from '#engine/kv-events/frame-slab.ts';

const bytesOf = (frames: readonly Uint8Array[]): number => frames.reduce((sum, frame) => sum + frame.length, 0);

function put(slab: FrameSlab, frames: readonly Uint8Array[]): { readonly block: Block; readonly start: number } {
  const copy = slab.add(frames, bytesOf(frames));
  if (copy === undefined) throw new Error('the message was not copied');
  return copy;
}

describe('FrameSlab', () => {
  it('gives back what was put in, however many messages came after it, and keeps nothing of the caller’s memory', () => {
    const frame = fc.uint8Array({ maxLength: 5000 });
    fc.assert(fc.property(fc.array(fc.array(frame, { maxLength: 8 }), { maxLength: 60 }), (messages) => {
      const slab = new FrameSlab(new BlockPool());
      const kept = messages.flatMap((frames) => {
        const own = frames.map((one) => one.slice());
        const copy = slab.add(own, bytesOf(own));
        for (const one of own) one.fill(0xee);
        return copy === undefined ? [] : [{ frames, ...copy }];
      });
      for (const { frames, block, start } of kept) expect(framesAt(block, start).map((one) => Uint8Array.from(one))).toEqual(frames);
    }));
  });

  it('keeps what was not let go, as a queue lets go of messages in their order, in as few blocks as its longest length needs', () => {
    // True: a message comes; false: the oldest one was handled.
    fc.assert(fc.property(fc.array(fc.boolean(), { maxLength: 400 }), fc.integer({ min: 1, max: 16_000 }), (steps, size) => {
      const slab = new FrameSlab(new BlockPool());
      const blocks = new Set<Block>();
      const waiting: { readonly number: number; readonly block: Block; readonly start: number }[] = [];
      let longest = 0;
      for (const [number, isNew] of steps.entries()) {
        const frame = new Uint8Array(size).fill(number);
        const oldest = isNew ? undefined : waiting.shift();
        if (isNew) {
          const copy = put(slab, [frame]);
          waiting.push({ number, ...copy });
          blocks.add(copy.block);
        }
        longest = Math.max(longest, waiting.length);
        for (const { number: told, block, start } of oldest === undefined ? waiting.slice(0, 1) : [oldest]) {
          expect(Buffer.compare(framesAt(block, start)[0] ?? frame, new Uint8Array(size).fill(told))).toBe(0);
        }
        if (oldest !== undefined) slab.release(oldest.block);
      }
      const perBlock = Math.floor((64 * 1024) / (size + 5));
      expect(blocks.size).toBeLessThanOrEqual(Math.ceil(longest / perBlock) + 2);
    }));
  });

  it('fills one block again and again for a queue that is emptied each time, and gives full ones to others', () => {
    const pool = new BlockPool();
    const [slab, other] = [new FrameSlab(pool), new FrameSlab(pool)];
    const add = (to: FrameSlab): Block => put(to, [new Uint8Array(16_000)]).block;
    const first = add(slab);
    for (let time = 0; time < 20; time += 1) {
      slab.release(first);
      expect(add(slab)).toBe(first);
    }
    const others = Array.from({ length: 7 }, () => add(slab));
    expect(new Set([first, ...others]).size).toBe(2);
    for (let time = 0; time < 4; time += 1) slab.release(first);
    expect(add(other)).toBe(first);
  });

  it('leaves large messages and those of many frames alone', () => {
    const slab = new FrameSlab(new BlockPool());
    expect(slab.add([new Uint8Array(20_000)], 20_000)).toBeUndefined();
    expect(slab.add(Array.from({ length: 9 }, () => new Uint8Array(1)), 9)).toBeUndefined();
    const { block, start } = put(slab, []);
    expect(framesAt(block, start)).toEqual([]);
  });

  it('begins a new block rather than writing over one', () => {
    const slab = new FrameSlab(new BlockPool());
    const copies = Array.from({ length: 5 }, () => put(slab, [new Uint8Array(16_000)]));
    expect(new Set(copies.map(({ block }) => block)).size).toBe(2);
    expect(copies.map(({ start }) => start)).toEqual([0, 16_005, 32_010, 48_015, 0]);
  });
});

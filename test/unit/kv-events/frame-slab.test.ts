import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { FrameSlab, framesAt } from '#engine/kv-events/frame-slab.ts';

const bytesOf = (frames: readonly Uint8Array[]): number => frames.reduce((sum, frame) => sum + frame.length, 0);

describe('FrameSlab', () => {
  it('gives back what was put in, however many messages came after it, and keeps nothing of the caller’s memory', () => {
    const frame = fc.uint8Array({ maxLength: 5000 });
    fc.assert(fc.property(fc.array(fc.array(frame, { maxLength: 8 }), { maxLength: 60 }), (messages) => {
      const slab = new FrameSlab();
      const kept = messages.flatMap((frames) => {
        const own = frames.map((one) => one.slice());
        const start = slab.add(own, bytesOf(own));
        for (const one of own) one.fill(0xee);
        return start === undefined ? [] : [{ frames, block: slab.block, start }];
      });
      for (const { frames, block, start } of kept) expect(framesAt(block, start).map((one) => Uint8Array.from(one))).toEqual(frames);
    }));
  });

  it('leaves large messages and those of many frames alone', () => {
    const slab = new FrameSlab();
    expect(slab.add([new Uint8Array(20_000)], 20_000)).toBeUndefined();
    expect(slab.add(Array.from({ length: 9 }, () => new Uint8Array(1)), 9)).toBeUndefined();
    expect(slab.add([], 0)).toBe(0);
    expect(framesAt(slab.block, 0)).toEqual([]);
  });

  it('begins a new block rather than writing over one', () => {
    const slab = new FrameSlab();
    const starts = Array.from({ length: 5 }, () => ({ start: slab.add([new Uint8Array(16_000)], 16_000), block: slab.block }));
    expect(new Set(starts.map(({ block }) => block)).size).toBe(2);
    expect(starts.map(({ start }) => start)).toEqual([0, 16_005, 32_010, 48_015, 0]);
  });
});

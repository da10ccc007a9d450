import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { CHUNK_WORDS, WordArena } from '#engine/kv-events/word-arena.ts';

interface Run {
  readonly reference: number;
  readonly first: number;
  readonly length: number;
}

function put(arena: WordArena, first: number, length: number): Run {
  const reference = arena.open(length);
  // A run in the middle of an array.
  arena.push({ words: Uint32Array.from({ length: length + 5 }, (_, index) => first + index - 3), start: 3, length }, length);
  return { reference, first, length };
}

describe('WordArena', () => {
  it('gives back what was put in, whatever was released in between', () => {
    // Lengths near a chunk make runs meet its border within a few steps.
    const length = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: CHUNK_WORDS }));
    const step = fc.oneof(length.map((words) => ({ words })), fc.nat(30).map((release) => ({ release })));
    fc.assert(fc.property(fc.array(step, { minLength: 20, maxLength: 80 }), (steps) => {
      const arena = new WordArena();
      const used: Run[] = [];
      let first = 1;
      for (const next of steps) {
        if ('words' in next) {
          used.push(put(arena, first, next.words));
          first += next.words;
        } else {
          const [gone] = used.splice(next.release % Math.max(1, used.length), 1);
          if (gone !== undefined) arena.release(gone.reference);
        }
      }
      for (const run of used) {
        const words = arena.read(run.reference, run.length);
        expect([words.length, words[0], words.at(-1)]).toEqual([run.length, run.first, run.first + run.length - 1]);
      }
    }), { numRuns: 60 });
  });

  it('fills freed chunks again: a ring of records needs the chunks its records take, and one', () => {
    const arena = new WordArena();
    const ring: Run[] = [];
    const perChunk = Math.floor(CHUNK_WORDS / 50);
    for (let n = 0; n < 20 * perChunk; n += 1) {
      ring.push(put(arena, n, 50));
      if (ring.length > 2 * perChunk) arena.release(ring.shift()?.reference ?? 0);
    }
    expect(arena.bytes).toBe(3 * 4 * CHUNK_WORDS);
    expect(ring.map((run) => arena.read(run.reference, 1)[0])).toEqual(ring.map((run) => run.first));
  });

  it('frees no chunk that still holds a run', () => {
    const arena = new WordArena();
    const gone = put(arena, 1, 10);
    const held = put(arena, 100, 10);
    put(arena, 200, CHUNK_WORDS);
    arena.release(gone.reference);
    put(arena, 300, CHUNK_WORDS);
    put(arena, 400, CHUNK_WORDS);
    expect(Array.from(arena.read(held.reference, 2))).toEqual([100, 101]);
  });

  it('fills its only chunk again when nothing in it is used', () => {
    const arena = new WordArena();
    for (let n = 0; n < 5; n += 1) arena.release(put(arena, n, CHUNK_WORDS - 1).reference);
    expect(arena.bytes).toBe(4 * CHUNK_WORDS);
  });

  it('holds nothing after clear', () => {
    const arena = new WordArena();
    put(arena, 1, 10);
    arena.clear();
    expect(arena.bytes).toBe(0);
    expect(Array.from(arena.read(put(arena, 7, 2).reference, 2))).toEqual([7, 8]);
  });
});

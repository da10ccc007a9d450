import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { Fifo } from '#engine/telemetry/fifo.ts';

describe('Fifo', () => {
  it('behaves like an array of which only the ends are used', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(3000), fc.nat(3000)), { maxLength: 12 }), (rounds) => {
        const fifo = new Fifo<number>();
        const model: number[] = [];
        const got: (number | undefined)[] = [];
        const expected: number[] = [];
        let next = 0;
        for (const [push, take] of rounds) {
          for (let count = 0; count < push; count += 1) {
            fifo.push(next);
            model.push(next++);
          }
          expected.push(...model.splice(0, take));
          for (let count = 0; count < take && fifo.length > 0; count += 1) got.push(fifo.shift());
          expect(fifo.length).toBe(model.length);
        }
        expect(got).toEqual(expected);
      }),
      { numRuns: 30 },
    );
  });

  it('has nothing when empty', () => {
    const fifo = new Fifo<string>();
    expect(fifo.shift()).toBeUndefined();
    fifo.push('a');
    expect([fifo.shift(), fifo.shift(), fifo.length]).toEqual(['a', undefined, 0]);
  });
});

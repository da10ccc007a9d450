import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { countNewer, findByOrder, lowerBound } from '../../../renderer/src/table/ordered-rows.ts';

const identity = (n: number): number => n;

describe('ordered rows', () => {
  it('agrees with a plain scan', () => {
    const sorted = fc.uniqueArray(fc.integer({ min: 0, max: 200 })).map((numbers) => numbers.toSorted((a, b) => a - b));
    fc.assert(
      fc.property(sorted, fc.integer({ min: -5, max: 205 }), (rows, order) => {
        const scanned = rows.findIndex((row) => row >= order);
        expect(lowerBound(rows, order, identity)).toBe(scanned === -1 ? rows.length : scanned);
        expect(findByOrder(rows, order, identity)).toBe(rows.find((row) => row === order));
        expect(countNewer(rows, order, identity)).toBe(rows.filter((row) => row > order).length);
      }),
    );
  });
});

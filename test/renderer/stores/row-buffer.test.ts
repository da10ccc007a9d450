import { array, assert, integer, property, record } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { RowBuffer } from '../../../renderer/src/stores/row-buffer.ts';

interface Row {
  readonly n: number;
  readonly value: number;
}

describe('RowBuffer', () => {
  it('keeps the newest rows by number, replaces known ones and never exceeds its capacity', () => {
    assert(
      property(
        integer({ min: 1, max: 20 }),
        array(array(record({ n: integer({ min: 1, max: 60 }), value: integer() }), { maxLength: 12 }), { maxLength: 40 }),
        (capacity, batches) => {
          const buffer = new RowBuffer<Row>(capacity);
          let model: Row[] = [];
          for (const batch of batches) {
            buffer.upsert(batch);
            const known = new Map(model.map((row) => [row.n, row]));
            for (const row of batch) {
              const isTooOld = !known.has(row.n) && known.size >= capacity && row.n < Math.min(...known.keys());
              if (!isTooOld) known.set(row.n, row);
            }
            model = [...known.values()].sort((a, b) => a.n - b.n).slice(-capacity);
            expect(buffer.toArray()).toEqual(model);
            expect(buffer.size).toBe(model.length);
          }
        },
      ),
    );
  });

  it('counts new rows, not replacements', () => {
    const buffer = new RowBuffer<Row>(3);
    expect(buffer.upsert([{ n: 1, value: 0 }, { n: 2, value: 0 }])).toBe(2);
    expect(buffer.upsert([{ n: 2, value: 1 }, { n: 3, value: 0 }])).toBe(1);
    expect(buffer.toArray().map((row) => row.value)).toEqual([0, 1, 0]);
  });

  it('starts empty again after clear', () => {
    const buffer = new RowBuffer<Row>(2);
    buffer.upsert([{ n: 5, value: 0 }]);
    buffer.clear();
    buffer.upsert([{ n: 2, value: 7 }]);
    expect(buffer.toArray()).toEqual([{ n: 2, value: 7 }]);
  });
});

it('forgets named rows and keeps the order of the rest', () => {
  const buffer = new RowBuffer<{ n: number }>(4);
  buffer.upsert([1, 2, 3, 4, 5, 6].map((n) => ({ n })));
  buffer.remove([4, 1, 99]);
  expect(buffer.toArray().map((row) => row.n)).toEqual([3, 5, 6]);
  buffer.upsert([{ n: 7 }, { n: 4 }]);
  expect(buffer.toArray().map((row) => row.n)).toEqual([4, 5, 6, 7]);
});

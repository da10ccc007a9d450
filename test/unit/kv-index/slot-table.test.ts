import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { SlotTable } from '#engine/kv-index/slot-table.ts';

const CAPACITY = 120;
const STRIDE = 3;
const CHAIN = 1;
/** The table has 16 lines of 15 entries: the low four bits choose the line, those above the slot's seven bits are the tag. */
const mixArb = fc.oneof(
  // One key for many slots.
  fc.constantFrom(0, 0x1234_5678, -1),
  // One line, tags of their own: more of them than a line has room for.
  fc.nat(40).map((tag) => (tag << 7) | 15),
  fc.integer(),
);
const stepArb = fc.record({ slot: fc.integer({ min: 1, max: CAPACITY }), mix: mixArb });

function found(table: SlotTable, mix: number): number[] {
  const slots: number[] = [];
  for (let slot = table.first(mix); slot !== 0; slot = table.next()) slots.push(slot);
  return slots;
}

function setUp(): { readonly table: SlotTable; readonly words: Uint32Array } {
  const words = new Uint32Array((CAPACITY + 1) * STRIDE);
  return { table: new SlotTable(CAPACITY, { words, stride: STRIDE, chain: CHAIN }), words };
}

describe('SlotTable', () => {
  it('finds each slot by its mix for as long as it is there, and none that is not', () => {
    fc.assert(fc.property(fc.array(stepArb, { minLength: 100, maxLength: 400 }), (steps) => {
      const { table, words } = setUp();
      const mixes = new Map<number, number>();
      for (const { slot, mix } of steps) {
        table.expect(mix);
        if (slot === 1) table.fetch();
        const before = mixes.get(slot);
        if (before === undefined) {
          table.add(mix, slot);
          mixes.set(slot, mix);
        } else {
          table.remove(before, slot);
          mixes.delete(slot);
        }
        // What a table keeps in a free slot is its own affair.
        words[slot * STRIDE] = 7;
      }
      for (const mix of new Set(steps.map((step) => step.mix))) {
        const slots = found(table, mix);
        expect(slots.every((slot) => mixes.has(slot))).toBe(true);
        expect(slots.filter((slot) => mixes.get(slot) === mix).sort((a, b) => a - b)).toEqual(
          Array.from(mixes).filter(([, other]) => other === mix).map(([slot]) => slot).sort((a, b) => a - b),
        );
        expect(new Set(slots).size).toBe(slots.length);
      }
      // Nothing else of a slot was written to.
      for (let slot = 0; slot <= CAPACITY; slot += 1) expect([0, 7]).toContain(words[slot * STRIDE]);
    }));
  });

  it('finds what a full line sent on, and stops looking further once that is gone', () => {
    const { table } = setUp();
    const mixOf = (slot: number): number => (slot << 7) | 3;
    for (let slot = 1; slot <= 40; slot += 1) table.add(mixOf(slot), slot);
    for (let slot = 1; slot <= 40; slot += 1) expect(found(table, mixOf(slot))).toEqual([slot]);
    for (let slot = 1; slot <= 40; slot += 1) table.remove(mixOf(slot), slot);
    for (let slot = 1; slot <= 40; slot += 1) expect(found(table, mixOf(slot))).toEqual([]);
  });

  it('ends a search though every line has sent slots on', () => {
    const capacity = 20;
    const table = new SlotTable(capacity, { words: new Uint32Array((capacity + 1) * STRIDE), stride: STRIDE, chain: CHAIN });
    // Two lines, of which the lowest bit chooses.
    const mixOf = (slot: number, line: number): number => (slot << 5) | line;
    for (let slot = 1; slot <= 16; slot += 1) table.add(mixOf(slot, 0), slot);
    for (let slot = 2; slot <= 15; slot += 1) table.remove(mixOf(slot, 0), slot);
    for (const slot of [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17]) table.add(mixOf(slot, 1), slot);
    expect([found(table, mixOf(30, 0)), found(table, mixOf(30, 1))]).toEqual([[], []]);
    expect([found(table, mixOf(16, 0)), found(table, mixOf(17, 1)), found(table, mixOf(1, 0))]).toEqual([[16], [17], [1]]);
  });

  it('refuses to take out what is not in it', () => {
    const { table } = setUp();
    table.add(5, 1);
    expect(() => table.remove(5, 2)).toThrow('slot 2 is not in the table');
  });
});

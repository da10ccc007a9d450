import { describe, expect, it } from 'vitest';
import { assignSlots, NO_SLOTS } from '../../../renderer/src/table/row-slots.ts';

describe('assignSlots', () => {
  it('keeps the place of a row that stays and gives a place that was left to a new one', () => {
    const first = assignSlots(NO_SLOTS, ['9', '8', '7']);
    expect([...first]).toEqual([['9', 0], ['8', 1], ['7', 2]]);
    const second = assignSlots(first, ['10', '9', '8']);
    expect(second.get('9')).toBe(0);
    expect(second.get('8')).toBe(1);
    expect(second.get('10')).toBe(2);
  });

  it('uses the same places again when every row is another', () => {
    const first = assignSlots(NO_SLOTS, ['3', '2', '1']);
    const second = assignSlots(first, ['6', '5', '4']);
    expect(new Set(second.values())).toEqual(new Set([0, 1, 2]));
  });

  it('never gives two rows one place', () => {
    const first = assignSlots(NO_SLOTS, ['a', 'b', 'c', 'd']);
    const second = assignSlots(first, ['d', 'x', 'b', 'y', 'z']);
    expect(new Set(second.values()).size).toBe(5);
    expect(second.get('d')).toBe(3);
    expect(second.get('b')).toBe(1);
  });
});

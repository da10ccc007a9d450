import { describe, expect, it } from 'vitest';
import { moveOfKey, moveSelection } from '../../../renderer/src/table/selection.ts';

const list = { count: 100, selected: 50, firstVisible: 40, pageRows: 10 };

describe('moveSelection', () => {
  it('steps, pages and jumps', () => {
    expect(moveSelection('next', list)).toBe(51);
    expect(moveSelection('previous', list)).toBe(49);
    expect(moveSelection('page-down', list)).toBe(59);
    expect(moveSelection('page-up', list)).toBe(41);
    expect(moveSelection('first', list)).toBe(0);
    expect(moveSelection('last', list)).toBe(99);
  });

  it('stops at the ends', () => {
    expect(moveSelection('previous', { ...list, selected: 0 })).toBe(0);
    expect(moveSelection('next', { ...list, selected: 99 })).toBe(99);
    expect(moveSelection('page-down', { ...list, selected: 95 })).toBe(99);
  });

  it('starts with the first row on screen when nothing is selected, also past the end', () => {
    const { selected: _, ...unselected } = list;
    expect(moveSelection('next', { ...unselected, selected: undefined })).toBe(40);
    expect(moveSelection('previous', { ...unselected, selected: undefined, firstVisible: 140 })).toBe(99);
  });

  it('selects nothing in an empty list', () => {
    expect(moveSelection('first', { ...list, count: 0, selected: undefined })).toBeUndefined();
  });
});

describe('moveOfKey', () => {
  const key = (name: string, ctrlKey = false): string | undefined => moveOfKey({ key: name, ctrlKey, metaKey: false, altKey: false });
  it('knows the table keys, and leaves letters and modified keys to others', () => {
    expect(['ArrowDown', 'ArrowUp', 'Home', 'End', 'PageDown', 'PageUp'].map((name) => key(name))).toEqual(['next', 'previous', 'first', 'last', 'page-down', 'page-up']);
    expect([key('j'), key('ArrowDown', true), key('toString')]).toEqual([undefined, undefined, undefined]);
  });
});

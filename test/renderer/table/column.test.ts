import { describe, expect, it } from 'vitest';
import { fitColumns, gridTemplate, type Column } from '../../../renderer/src/table/column.ts';

const column = (id: string, width: number, priority?: number, grow?: number): Column<string> => ({
  id, header: id, width, cell: () => id, ...(priority !== undefined && { priority }), ...(grow !== undefined && { grow }),
});
const columns = [column('a', 100), column('b', 100, 3), column('c', 100, 2), column('d', 100, 3), column('e', 100, 1, 1)];
const ids = (width: number): string => fitColumns(columns, width).map(({ id }) => id).join('');

describe('fitColumns', () => {
  it('drops the least important first, from the right, and keeps priority 1 whatever the width', () => {
    // Five columns of 100 and four gaps of 12.
    expect(ids(548)).toBe('abcde');
    expect(ids(547)).toBe('abce');
    expect(ids(435)).toBe('ace');
    expect(ids(323)).toBe('ae');
    expect(ids(0)).toBe('ae');
  });
});

describe('gridTemplate', () => {
  it('lets growing columns share the rest', () => {
    expect(gridTemplate([column('a', 80), column('b', 120, 1, 2)])).toBe('80px minmax(120px, 2fr)');
  });
});

import { act, useRef, useState, type ReactElement } from 'react';
import { describe, expect, it } from 'vitest';
import type { Column } from '../../../renderer/src/table/column.ts';
import { DataTable, type DataTableHandle } from '../../../renderer/src/table/data-table.tsx';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';
import { withLayout } from './layout.ts';

interface Row {
  readonly n: number;
  readonly text: string;
}

const range = (from: number, to: number): readonly Row[] => Array.from({ length: to - from + 1 }, (_, index) => ({ n: from + index, text: `row ${from + index}` }));
const columns: readonly Column<Row>[] = [{ id: 'text', header: 'text', width: 100, cell: (row) => row.text }];
const getId = (row: Row): string => `id${row.n}`;
const getOrder = (row: Row): number => row.n;

/** Controls of the mounted table, for tests to drive. */
interface Control {
  setRows: (rows: readonly Row[]) => void;
  setResetKey: (key: string) => void;
  setSelected: (id: string) => void;
  selected: string;
  handle: DataTableHandle | null;
}

async function show(rows: readonly Row[], extra: { readonly pinned?: readonly Row[] } = {}): Promise<{ readonly page: Mounted; readonly control: Control }> {
  const control: Control = { setRows: () => undefined, setResetKey: () => undefined, setSelected: () => undefined, selected: '', handle: null };
  function Harness(): ReactElement {
    const [current, setRows] = useState(rows);
    const [resetKey, setResetKey] = useState('');
    const [selected, setSelected] = useState('');
    const handle = useRef<DataTableHandle>(null);
    Object.assign(control, { setRows, setResetKey, setSelected, selected });
    return (
      <DataTable
        ref={(value) => {
          handle.current = value;
          control.handle = value;
        }}
        label="rows" rows={current} columns={columns} getId={getId} getOrder={getOrder} selectedId={selected} onSelect={setSelected} resetKey={resetKey}
        empty={<p>nothing here</p>} {...extra}
      />
    );
  }
  return { page: await mount(<Harness />, new FakeTransport()), control };
}

/** Texts of the rows in the order in which they are drawn. */
function drawn(page: Mounted): readonly string[] {
  return [...page.root.querySelectorAll<HTMLElement>('[data-floating]')]
    .sort((a, b) => Number(a.getAttribute('aria-rowindex')) - Number(b.getAttribute('aria-rowindex')))
    .map((element) => element.textContent ?? '');
}
const pill = (page: Mounted): string | undefined => [...page.root.querySelectorAll('button')].find((button) => button.textContent?.endsWith('new'))?.textContent ?? undefined;
const point = (page: Mounted, id: string): Promise<void> =>
  act(async () => {
    page.root.querySelector(`[data-row-id="${id}"]`)?.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true, button: 0 }));
  });
const scroll = (page: Mounted, top: number): Promise<void> =>
  act(async () => {
    const grid = page.root.querySelector<HTMLElement>('[role="grid"]');
    if (grid === null) throw new Error('no grid');
    grid.scrollTop = top;
    grid.dispatchEvent(new Event('scroll', { bubbles: true }));
  });

describe('DataTable', () => {
  withLayout(800, 280);

  it('draws the newest on top, and only what is on screen of fifty thousand rows', async () => {
    const { page } = await show(range(1, 50_000));
    await using _ = page;
    expect(drawn(page)[0]).toBe('row 50000');
    expect(drawn(page).length).toBeLessThan(60);
    expect(page.root.querySelector('[role="grid"]')?.getAttribute('aria-rowcount')).toBe('50001');
    expect(page.root.querySelector('[data-row-id="id50000"]')?.getAttribute('aria-rowindex')).toBe('2');
  });

  it('follows while at the top with nothing selected', async () => {
    const { page, control } = await show(range(1, 100));
    await using _ = page;
    await act(async () => control.setRows(range(1, 103)));
    expect(drawn(page)[0]).toBe('row 103');
    expect(pill(page)).toBeUndefined();
  });

  it('holds still once a row is selected, counts what arrives, and resumes from the pill', async () => {
    const { page, control } = await show(range(1, 100));
    await using _ = page;
    await point(page, 'id98');
    expect(control.selected).toBe('id98');
    await act(async () => control.setRows(range(1, 107)));
    expect(drawn(page).slice(0, 3)).toEqual(['row 100', 'row 99', 'row 98']);
    expect(page.root.querySelector('[aria-selected="true"]')?.textContent).toBe('row 98');
    expect(pill(page)).toBe('↑ 7 new');
    await page.click('button', '↑ 7 new');
    expect(drawn(page)[0]).toBe('row 107');
    expect(control.selected).toBe('id98');
  });

  it('keeps what is being read when the engine evicts it, and says so', async () => {
    const { page, control } = await show(range(1, 100));
    await using _ = page;
    await point(page, 'id99');
    await act(async () => control.setRows(range(500, 600)));
    expect(drawn(page).slice(0, 2)).toEqual(['row 100', 'row 99']);
    expect(page.root.querySelector('[data-row-id="id99"]')?.hasAttribute('data-gone')).toBe(true);
    expect(pill(page)).toBe('↑ 101+ new');
  });

  it('shows the newest state of a row in a held list', async () => {
    const { page, control } = await show(range(1, 10));
    await using _ = page;
    await point(page, 'id9');
    await act(async () => control.setRows([...range(1, 8), { n: 9, text: 'row 9, finished' }, ...range(10, 12)]));
    expect(drawn(page)).toContain('row 9, finished');
  });

  it('holds when scrolled away and follows again when scrolled back', async () => {
    const { page, control } = await show(range(1, 100));
    await using _ = page;
    await scroll(page, 280);
    await act(async () => control.setRows(range(1, 105)));
    expect(pill(page)).toBe('↑ 5 new');
    await scroll(page, 0);
    expect(pill(page)).toBeUndefined();
    expect(drawn(page)[0]).toBe('row 105');
  });

  it('follows again when the selection is given up at the top, and with another filter', async () => {
    const { page, control } = await show(range(1, 100));
    await using _ = page;
    await point(page, 'id100');
    await act(async () => control.setRows(range(1, 101)));
    expect(pill(page)).toBe('↑ 1 new');
    await act(async () => control.setSelected(''));
    expect(pill(page)).toBeUndefined();
    await point(page, 'id101');
    await act(async () => control.setRows(range(1, 102)));
    expect(pill(page)).toBe('↑ 1 new');
    await act(async () => control.setResetKey('state:ok'));
    expect(drawn(page)[0]).toBe('row 102');
  });

  it('is empty after a clear, even while held', async () => {
    const { page, control } = await show(range(1, 100));
    await using _ = page;
    await point(page, 'id100');
    await act(async () => control.setRows([]));
    expect(page.text()).toContain('nothing here');
    await act(async () => control.setRows(range(200, 201)));
    expect(drawn(page)).toEqual(['row 201', 'row 200']);
  });

  it('moves the selection by keyboard, from the grid and from the bare page', async () => {
    const { page, control } = await show(range(1, 100));
    await using _ = page;
    const grid = page.root.querySelector<HTMLElement>('[role="grid"]');
    const press = (target: EventTarget | null | undefined, key: string): Promise<void> =>
      act(async () => {
        target?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
      });
    await press(grid, 'ArrowDown');
    expect(control.selected).toBe('id100');
    await press(grid, 'ArrowDown');
    expect(control.selected).toBe('id99');
    await press(document.body, 'ArrowUp');
    expect(control.selected).toBe('id100');
    await press(grid, 'End');
    expect(control.selected).toBe('id1');
    await press(grid, 'Home');
    expect(control.selected).toBe('id100');
    await act(async () => control.handle?.move('next'));
    expect(control.selected).toBe('id99');
    expect(grid?.getAttribute('aria-activedescendant')).toBe(page.root.querySelector('[data-row-id="id99"]')?.id);
  });

  it('keeps pinned rows above the list', async () => {
    const { page } = await show(range(50, 60), { pinned: range(3, 3) });
    await using _ = page;
    const rows = [...page.root.querySelectorAll('[data-row-id]')].map((row) => row.textContent);
    expect(rows.slice(0, 2)).toEqual(['row 3', 'row 60']);
    expect(page.root.querySelector('[role="grid"]')?.getAttribute('aria-rowcount')).toBe('13');
  });
});

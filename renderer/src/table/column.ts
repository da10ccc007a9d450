/** Columns of a streaming table and how they share the width there is. */
import type { ReactNode } from 'react';

export interface Column<Row> {
  readonly id: string;
  readonly header: string;
  /** Longer explanation of the header, with unit and definition; shown on hover. */
  readonly title?: string;
  /** Least width, px. */
  readonly width: number;
  /** Share of the width that is left over. Default 0 = stays at `width`. */
  readonly grow?: number;
  /** `end` for numbers. Default `start`. */
  readonly align?: 'start' | 'end';
  /** 1 is always shown; of the others the highest number goes first when the table is narrow. Default 1. */
  readonly priority?: number;
  /** Monospace, for ids, hashes and times. Default false. */
  readonly isMono?: boolean;
  /** Called for rows on screen only. */
  readonly cell: (row: Row) => ReactNode;
}

/** A row whose cells from one column on are replaced by words across the table. */
export interface RowNote {
  /** Column from which the note spans to the end; falls back to the first column when that one is hidden. */
  readonly fromColumn: string;
  readonly content: ReactNode;
  readonly tone: 'warning' | 'error' | 'quiet';
}

/** Space between cells, px; the same number is in the stylesheet. */
export const COLUMN_GAP_PX = 12;

/** The columns that fit into `availablePx`, in their order; priority 1 stays whatever the width. */
export function fitColumns<Row>(columns: readonly Column<Row>[], availablePx: number): readonly Column<Row>[] {
  let shown = columns;
  while (neededPx(shown) > availablePx) {
    const last = Math.max(1, ...shown.map((column) => column.priority ?? 1));
    if (last === 1) return shown;
    // The rightmost of the least important: what is left of it matters more in every view.
    const victim = shown.findLastIndex((column) => (column.priority ?? 1) === last);
    shown = shown.filter((_, index) => index !== victim);
  }
  return shown;
}

function neededPx<Row>(columns: readonly Column<Row>[]): number {
  return columns.reduce((sum, column) => sum + column.width, 0) + Math.max(0, columns.length - 1) * COLUMN_GAP_PX;
}

/** `grid-template-columns` for these columns. */
export function gridTemplate<Row>(columns: readonly Column<Row>[]): string {
  return columns
    .map(({ width, grow = 0 }) => (grow > 0 ? `minmax(${width}px, ${grow}fr)` : `${width}px`))
    .join(' ');
}

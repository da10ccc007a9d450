import { memo, type CSSProperties, type ReactElement } from 'react';
import type { Column, RowNote } from './column.ts';
import classes from './table.module.css';

export interface TableRowProps<Row> {
  readonly row: Row;
  readonly rowId: string;
  readonly domId: string;
  /** 1-based place in the whole grid, the header being 1. */
  readonly rowIndex: number;
  /** Pixels from the top of the body; absent for rows in the flow (pinned). */
  readonly top?: number;
  readonly columns: readonly Column<Row>[];
  readonly template: string;
  readonly note: ((row: Row) => RowNote | undefined) | undefined;
  readonly isSelected: boolean;
  readonly isHighlighted: boolean;
  readonly isPinned: boolean;
  readonly isGone: boolean;
}

function TableRowInner<Row>(props: TableRowProps<Row>): ReactElement {
  const { row, rowId, domId, rowIndex, top, columns, template, note, isSelected, isHighlighted, isPinned, isGone } = props;
  const words = note?.(row);
  const noteFrom = words === undefined ? columns.length : Math.max(0, columns.findIndex((column) => column.id === words.fromColumn));
  const style: CSSProperties = { gridTemplateColumns: template, ...(top !== undefined && { transform: `translateY(${top}px)` }) };
  return (
    <div
      role="row"
      id={domId}
      aria-rowindex={rowIndex}
      aria-selected={isSelected}
      className={classes.row}
      style={style}
      data-row-id={rowId}
      data-floating={top !== undefined || undefined}
      data-highlighted={isHighlighted || undefined}
      data-pinned={isPinned || undefined}
      data-gone={isGone || undefined}
      data-tone={words?.tone}
      title={isGone ? 'Evicted by the engine, or no longer matching the filter: shown from this page’s memory' : undefined}
    >
      {columns.slice(0, noteFrom).map((column, index) => (
        <span key={column.id} role="gridcell" aria-colindex={index + 1} className={classes.cell} data-align={column.align} data-mono={column.isMono || undefined}>
          {column.cell(row)}
        </span>
      ))}
      {words !== undefined && (
        <span role="gridcell" aria-colindex={noteFrom + 1} aria-colspan={columns.length - noteFrom} className={classes.note} style={{ gridColumnStart: noteFrom + 1 }}>
          {words.content}
        </span>
      )}
    </div>
  );
}

/** One row; renders again only when the row or its looks changed. */
export const TableRow = memo(TableRowInner) as typeof TableRowInner;

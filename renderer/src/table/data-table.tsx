/**
 * A grid for rows that stream in: virtual, newest on top, driven by keyboard and mouse.
 *
 * Invariants: only rows on screen are formatted; the selection is an id, so it stays on its row while others come and
 * go; selecting or scrolling away holds the list (see follow.ts); pinned rows stay above the rest whatever the engine
 * evicts. The table knows nothing of requests or KV events, of filters or of the URL.
 */
import { useVirtualizer } from '@tanstack/react-virtual';
import {
  useCallback, useEffect, useId, useImperativeHandle, useMemo, useRef,
  type PointerEvent, type ReactElement, type ReactNode, type Ref,
} from 'react';
import { formatInteger } from '../ui/format.ts';
import { fitColumns, gridTemplate, type Column, type RowNote } from './column.ts';
import { useFollow } from './follow.ts';
import type { GetOrder } from './ordered-rows.ts';
import { assignSlots, NO_SLOTS } from './row-slots.ts';
import { moveOfKey, moveSelection, type Move } from './selection.ts';
import { TableRow } from './table-row.tsx';
import { useElementWidth } from './use-element-width.ts';
import classes from './table.module.css';

/** Height of a row and of the header, px; the same as `--pd-row`. */
export const ROW_HEIGHT_PX = 28;
/** Left and right padding of a row, px. */
const ROW_PADDING_PX = 36;
/** Scrolled less than this is still "at the top". */
const AT_TOP_PX = 4;

export interface DataTableHandle {
  readonly focus: () => void;
  readonly move: (move: Move) => void;
  /** Back to the newest rows. */
  readonly resume: () => void;
}

export interface DataTableProps<Row> {
  readonly label: string;
  /** Oldest first, sorted by `getOrder`. */
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly getId: (row: Row) => string;
  readonly getOrder: GetOrder<Row>;
  /** Id of the selected row; '' = none. */
  readonly selectedId: string;
  /** Told when the person selects; '' = selection given up. */
  readonly onSelect: (id: string) => void;
  /** Enter or a double click on a row. */
  readonly onOpen?: (id: string) => void;
  /** Coloured without hiding the others. */
  readonly isHighlighted?: (row: Row) => boolean;
  readonly note?: (row: Row) => RowNote | undefined;
  /** Rows kept at the top, newest first. */
  readonly pinned?: readonly Row[];
  /** Changing it (the filter that the rows answer) shows the new list from its top. */
  readonly resetKey: string;
  /** Other rows were asked for and are on their way. Default false. */
  readonly isBusy?: boolean;
  /** Shown in place of rows when there are none. */
  readonly empty: ReactNode;
  readonly ref?: Ref<DataTableHandle>;
}

/** The grid. Columns, `getId` and `getOrder` must keep their identity between renders. */
export function DataTable<Row>(props: DataTableProps<Row>): ReactElement {
  const { label, rows, columns, getId, getOrder, selectedId, onSelect, onOpen, isHighlighted, note, pinned = [], resetKey, isBusy = false, empty, ref } = props;
  const idPrefix = useId();
  const scrollerRef = useRef<HTMLDivElement>(null);
  const width = useElementWidth(scrollerRef);
  const shown = useMemo(() => fitColumns(columns, width - ROW_PADDING_PX), [columns, width]);
  const template = useMemo(() => gridTemplate(shown), [shown]);
  const follow = useFollow(rows, getOrder, resetKey);
  const { count, at, hold, resume } = follow;
  const stickyPx = ROW_HEIGHT_PX * (1 + pinned.length);

  // oxlint-disable-next-line react/incompatible-library -- the compiler is not in use; nothing memoises what this returns
  const virtualizer = useVirtualizer({
    count,
    getScrollElement: () => scrollerRef.current,
    estimateSize: () => ROW_HEIGHT_PX,
    overscan: 6,
    scrollMargin: stickyPx,
    scrollPaddingStart: stickyPx,
    useFlushSync: false,
  });

  // A block body: scrollTo answers a promise in newer browsers, and React takes what an effect returns for its clean-up.
  // Answers nothing: newer browsers return a promise from scrollTo, which an effect must not pass on.
  const scrollToTop = useCallback((): void => {
    scrollerRef.current?.scrollTo({ top: 0 });
  }, []);
  useEffect(scrollToTop, [resetKey, scrollToTop]);

  const resumeAtTop = useCallback(() => {
    resume();
    scrollToTop();
  }, [resume, scrollToTop]);

  const select = useCallback(
    (id: string) => {
      if (id !== '') hold();
      onSelect(id);
    },
    [hold, onSelect],
  );

  // Giving up the selection at the top is the way back to following.
  useEffect(() => {
    if (selectedId === '' && (scrollerRef.current?.scrollTop ?? 0) <= AT_TOP_PX) resume();
  }, [selectedId, resume]);

  const lastTop = useRef(0);
  const onScroll = (): void => {
    const top = scrollerRef.current?.scrollTop ?? 0;
    // Only the person's own way back to the top resumes: a list that got shorter also ends there.
    if (top > AT_TOP_PX) hold();
    else if (lastTop.current > AT_TOP_PX && selectedId === '') resume();
    lastTop.current = top;
  };

  const move = useCallback(
    (how: Move) => {
      const selectedIndex = selectedId === '' ? undefined : indexOfId(count, at, (row) => getId(row) === selectedId);
      const scroller = scrollerRef.current;
      const bodyPx = (scroller?.clientHeight ?? 0) - stickyPx;
      const next = moveSelection(how, {
        count,
        selected: selectedIndex,
        firstVisible: Math.ceil((scroller?.scrollTop ?? 0) / ROW_HEIGHT_PX),
        pageRows: Math.max(1, Math.floor(bodyPx / ROW_HEIGHT_PX)),
      });
      const row = next === undefined ? undefined : at(next);
      if (next === undefined || row === undefined) return;
      select(getId(row));
      virtualizer.scrollToIndex(next);
    },
    [at, count, getId, select, selectedId, stickyPx, virtualizer],
  );

  const focus = useCallback(() => scrollerRef.current?.focus({ preventScroll: true }), []);
  useImperativeHandle(ref, () => ({ focus, move, resume: resumeAtTop }), [focus, move, resumeAtTop]);

  const items = virtualizer.getVirtualItems();
  const slots = useRef(NO_SLOTS);
  slots.current = assignSlots(slots.current, items.flatMap((item) => {
    const row = at(item.index);
    return row === undefined ? [] : [getId(row)];
  }));
  const domId = (id: string, isPinned: boolean): string => `${idPrefix}${isPinned ? 'pin' : 'row'}-${id}`;
  const isSelected = (row: Row | undefined): boolean => row !== undefined && getId(row) === selectedId;
  const isSelectedPinned = pinned.some(isSelected);
  const isSelectedOnScreen = isSelectedPinned || items.some((item) => isSelected(at(item.index)));

  const onPointerDown = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    const id = rowIdOf(event.target);
    if (id !== undefined) select(id);
    // A button in a row stays that row's until it is let go: elements are used again for other rows.
    else if (event.target instanceof Element && event.target.closest('[data-row-id]') !== null) hold();
  };
  const onKey = useCallback(
    (event: Pick<globalThis.KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'preventDefault'>) => {
      const how = moveOfKey(event);
      if (how !== undefined) move(how);
      else if (event.key === 'Enter' && selectedId !== '') onOpen?.(selectedId);
      else return;
      event.preventDefault();
    },
    [move, onOpen, selectedId],
  );
  // With the focus nowhere, arrows mean the list: it is what fills the page.
  useEffect(() => {
    const onDocumentKey = (event: globalThis.KeyboardEvent): void => {
      if (event.target === document.body && !event.defaultPrevented) onKey(event);
    };
    document.addEventListener('keydown', onDocumentKey);
    return () => document.removeEventListener('keydown', onDocumentKey);
  }, [onKey]);

  const renderRow = (row: Row, place: { readonly rowIndex: number; readonly top?: number; readonly isGone: boolean; readonly isPinned: boolean }): ReactElement => {
    const id = getId(row);
    return (
      <TableRow
        key={place.isPinned ? `pin-${id}` : slots.current.get(id)}
        row={row}
        rowId={id}
        domId={domId(id, place.isPinned)}
        columns={shown}
        template={template}
        note={note}
        isSelected={id === selectedId}
        isHighlighted={isHighlighted?.(row) ?? false}
        {...place}
      />
    );
  };

  return (
    <div className={classes.frame}>
      <div
        ref={scrollerRef}
        className={classes.scroller}
        role="grid"
        aria-label={label}
        aria-rowcount={count + pinned.length + 1}
        aria-colcount={shown.length}
        aria-readonly="true"
        aria-busy={isBusy}
        {...(isSelectedOnScreen && { 'aria-activedescendant': domId(selectedId, isSelectedPinned) })}
        tabIndex={0}
        onScroll={onScroll}
        onPointerDown={onPointerDown}
        onDoubleClick={(event) => {
          const id = rowIdOf(event.target);
          if (id !== undefined) onOpen?.(id);
        }}
        onKeyDown={(event) => event.target === event.currentTarget && onKey(event)}
      >
        <div role="rowgroup" className={classes.sticky}>
          <div role="row" aria-rowindex={1} className={classes.header} style={{ gridTemplateColumns: template }}>
            {shown.map((column, index) => (
              <span key={column.id} role="columnheader" aria-colindex={index + 1} className={classes.headerCell} data-align={column.align} title={column.title}>
                {column.header}
              </span>
            ))}
          </div>
          {pinned.map((row, index) => renderRow(row, { rowIndex: index + 2, isGone: false, isPinned: true }))}
        </div>
        {count > 0 && (
          <div role="rowgroup" className={classes.body} style={{ height: virtualizer.getTotalSize() }}>
            {items.map((item) => {
              const row = at(item.index);
              return row === undefined
                ? undefined
                : renderRow(row, {
                    rowIndex: item.index + pinned.length + 2,
                    top: item.start - stickyPx,
                    isGone: follow.isGone(item.index),
                    isPinned: false,
                  });
            })}
          </div>
        )}
      </div>
      {count === 0 && <div className={classes.empty}>{empty}</div>}
      {follow.arrived > 0 && (
        <button type="button" className={classes.pill} onClick={resumeAtTop} title="Show the newest rows and follow them">
          ↑ {formatInteger(follow.arrived)}
          {follow.isArrivedCut ? '+' : ''} new
        </button>
      )}
    </div>
  );
}

function indexOfId<Row>(count: number, at: (index: number) => Row | undefined, isIt: (row: Row) => boolean): number | undefined {
  for (let index = 0; index < count; index += 1) {
    const row = at(index);
    if (row !== undefined && isIt(row)) return index;
  }
  return undefined;
}

function rowIdOf(target: EventTarget): string | undefined {
  if (!(target instanceof Element) || target.closest('button, a') !== null) return undefined;
  return target.closest<HTMLElement>('[data-row-id]')?.dataset['rowId'];
}

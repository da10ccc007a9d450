/**
 * A view over a list that streams in: header with filter, counters, clear and pause; the table; what belongs to the
 * selection below it; and the keys of all that. Filter, highlight and selection live in the URL; pausing belongs to the
 * view, because it decides which rows there are.
 */
import { useCallback, useEffect, useImperativeHandle, useRef, type ReactElement, type ReactNode, type Ref } from 'react';
import { FilterBar, type FilterBarHandle, type FilterBarProps } from '../filter/filter-bar.tsx';
import { useHighlight } from '../filter/use-highlight.ts';
import { SplitView } from '../shell/split-view.tsx';
import { ViewHeader } from '../shell/view-header.tsx';
import type { RowsView } from '../stores/row-store.ts';
import { setUrlState, useUrlState } from '../url/use-url-state.ts';
import { ClearButton, type ClearButtonProps } from './clear-button.tsx';
import { CountersLine } from './counters-line.tsx';
import { DataTable, type DataTableHandle, type DataTableProps } from './data-table.tsx';
import { EmptyRows } from './empty-rows.tsx';
import classes from './live-list.module.css';
import { PauseButton } from './pause-button.tsx';
import { useLiveCommands } from './use-live-commands.ts';
import { useTableCommands } from './table-commands.ts';

type FromTable = 'label' | 'columns' | 'getId' | 'getOrder' | 'note' | 'pinned';
type FromFilter = 'fields' | 'builtIn' | 'placeholder' | 'everything';

export interface LiveListProps<Row> extends Pick<DataTableProps<Row>, FromTable>, Pick<FilterBarProps<Row>, FromFilter> {
  /** Names what the browser remembers, e.g. `requests`. */
  readonly id: string;
  readonly title: string;
  /** What the rows are, singular: `request`. */
  readonly noun: string;
  readonly view: RowsView<Row>;
  readonly isPaused: boolean;
  readonly onPause: (isPaused: boolean) => void;
  readonly onSelect: (id: string) => void;
  readonly clear: ClearButtonProps['operation'];
  /** Before the buttons to clear and to pause. */
  readonly actions?: ReactNode;
  /** Between the header and the table. */
  readonly above?: ReactNode;
  /** Shown in place of rows when nothing has happened yet. */
  readonly nothing: ReactNode;
  readonly detail: ReactNode;
  readonly focusDetail: () => void;
  /** Share of the list until the person moves the border, per cent. */
  readonly listPercent: number;
  readonly ref?: Ref<DataTableHandle>;
}

const onFilter = (filter: string): void => setUrlState({ filter });
const onHighlight = (highlight: string): void => setUrlState({ highlight });

/** Columns, `getId`, `getOrder`, `fields` and the callbacks must keep their identity between renders. */
export function LiveList<Row>(props: LiveListProps<Row>): ReactElement {
  const { id, title, noun, view, isPaused, onPause, onSelect, clear, actions, above, nothing, detail, focusDetail, listPercent, ref } = props;
  const { label, columns, getId, getOrder, note, pinned, fields, builtIn, placeholder, everything } = props;
  const [url] = useUrlState();
  const table = useRef<DataTableHandle>(null);
  const filterBar = useRef<FilterBarHandle>(null);
  const isHighlighted = useHighlight(url.highlight, fields);
  const { rows } = view;
  const latestRows = useRef(rows);
  useEffect(() => {
    latestRows.current = rows;
  }, [rows]);
  // Header and filter keep their props while rows stream in, and so need not render with them.
  const getRows = useCallback(() => latestRows.current, []);
  const focusList = useCallback(() => table.current?.focus(), []);
  const togglePause = useCallback(() => onPause(!isPaused), [onPause, isPaused]);
  useImperativeHandle(ref, () => ({ focus: () => table.current?.focus(), move: (how) => table.current?.move(how), resume: () => table.current?.resume() }), []);
  useTableCommands(title, {
    move: (how) => {
      table.current?.move(how);
      focusList();
    },
    focusFilter: () => filterBar.current?.focus(),
    focusList,
    focusDetail,
    escape: () => onSelect(''),
  });
  useLiveCommands(title, { togglePause, followNewest: () => table.current?.resume() });
  return (
    <>
      <ViewHeader
        title={title}
        actions={
          <>
            {actions}
            <ClearButton operation={clear} />
            <PauseButton isPaused={isPaused} paused={view.paused} onToggle={togglePause} />
          </>
        }
      >
        <FilterBar
          ref={filterBar}
          id={id}
          fields={fields}
          getRows={getRows}
          filter={url.filter}
          onFilter={onFilter}
          highlight={url.highlight}
          onHighlight={onHighlight}
          builtIn={builtIn}
          placeholder={placeholder}
          everything={everything}
          onDone={focusList}
          aside={<CountersLine shown={rows.length} counters={view.counters} omitted={view.omitted} skippedSnapshots={view.skippedSnapshots} resyncs={view.resyncs} />}
        />
      </ViewHeader>
      <SplitView
        id={id}
        listPercent={listPercent}
        list={
          <>
            {above}
            <div className={classes.list}>
              <DataTable
                ref={table}
                label={label}
                rows={rows}
                columns={columns}
                getId={getId}
                getOrder={getOrder}
                selectedId={url.selection}
                onSelect={onSelect}
                onOpen={focusDetail}
                {...(isHighlighted !== undefined && { isHighlighted })}
                {...(note !== undefined && { note })}
                {...(pinned !== undefined && { pinned })}
                resetKey={view.filter ?? ''}
                isBusy={isWaiting(view, url.filter)}
                empty={<EmptyRows view={view} filter={url.filter} noun={noun} nothing={nothing} onClearFilter={() => onFilter('')} onResume={() => onPause(false)} />}
              />
            </div>
          </>
        }
        detail={detail}
      />
    </>
  );
}

/** Whether the rows are still those of another filter, or of none, while the engine is asked for these. */
function isWaiting({ filter, status }: RowsView<unknown>, wanted: string): boolean {
  return filter !== wanted && status !== 'disconnected' && status !== 'rejected';
}

/**
 * The Requests view: live list, filter, detail. Filter, highlight, selection and tab live in the URL; pause, pins and the
 * phase scale belong to the page.
 */
import { useCallback, useEffect, useMemo, useRef, useState, type ReactElement } from 'react';
import { compileFilter } from '#shared/filter/compile.ts';
import { REQUEST_FILTER_FIELDS } from '#shared/filter/request-fields.ts';
import type { RequestRow } from '#shared/request.ts';
import { FilterBar, type FilterBarHandle } from '../../filter/filter-bar.tsx';
import { SplitView } from '../../shell/split-view.tsx';
import { ViewHeader } from '../../shell/view-header.tsx';
import { useRows } from '../../stores/use-rows.ts';
import { ClearButton } from '../../table/clear-button.tsx';
import { CountersLine } from '../../table/counters-line.tsx';
import { DataTable, type DataTableHandle } from '../../table/data-table.tsx';
import { EmptyRows } from '../../table/empty-rows.tsx';
import { PauseButton } from '../../table/pause-button.tsx';
import { useTableCommands } from '../../table/table-commands.ts';
import { useUrlState } from '../../url/use-url-state.ts';
import { RequestDetailPane } from './detail/request-detail-pane.tsx';
import { ExportMenu } from './export-menu.tsx';
import { NoRequests } from './no-requests.tsx';
import { nextScale, suitableScale } from './phase-scale.ts';
import { usePins } from './pins.ts';
import { requestColumns } from './request-columns.tsx';
import { RequestsSummary } from './requests-summary.tsx';
import { useRequestDetail } from './use-request-detail.ts';
import { useRequestCommands } from './use-request-commands.ts';

/** The engine's default ring: a page that holds as much can show all of it. */
const ROW_LIMIT = 10_000;
const READY_MADE = ['status:5xx', 'state:error,aborted', 'ttft>1s', 'retries>0', 'findings>0', 'finding:error', 'cached<10% prompt>1k', 'state:running'];

const getId = (row: RequestRow): string => row.id;
const getOrder = (row: RequestRow): number => row.n;

export function RequestsView(): ReactElement {
  const [url, setUrl] = useUrlState();
  const [isPaused, setPaused] = useState(false);
  const view = useRows('requests', { filter: url.filter, limit: ROW_LIMIT, isPaused });
  const { rows } = view;
  const pinState = usePins();
  const { pins, refresh, remember } = pinState;
  const table = useRef<DataTableHandle>(null);
  const filterBar = useRef<FilterBarHandle>(null);
  const detailRef = useRef<HTMLElement>(null);

  const selectedRow = useMemo(() => (url.selection === '' ? undefined : rows.findLast((row) => row.id === url.selection)), [rows, url.selection]);
  const selectedPin = pins.find((pin) => pin.row.id === url.selection);
  const loaded = useRequestDetail(url.selection, selectedRow);
  const detail = loaded.detail ?? selectedPin?.detail;
  const comparedTo = pins.findLast((pin) => pin.row.id !== url.selection);

  useEffect(() => refresh(rows), [refresh, rows]);
  useEffect(() => {
    if (loaded.detail !== undefined) remember(loaded.detail);
  }, [remember, loaded.detail]);

  const columns = useRequestColumns(rows);
  const isHighlighted = useMemo(() => {
    const compiled = compileFilter(url.highlight, REQUEST_FILTER_FIELDS);
    return compiled.ok && url.highlight !== '' ? compiled.matches : undefined;
  }, [url.highlight]);
  const pinnedRows = useMemo(() => pins.map((pin) => pin.row).toReversed(), [pins]);

  const select = useCallback((selection: string) => setUrl({ selection }), [setUrl]);
  const focusDetail = useCallback(() => detailRef.current?.focus(), []);
  const togglePin = (): void => {
    const row = selectedRow ?? detail?.row ?? selectedPin?.row;
    if (row !== undefined) pinState.toggle(row, detail);
  };
  useTableCommands('Requests', {
    move: (how) => {
      table.current?.move(how);
      table.current?.focus();
    },
    focusFilter: () => filterBar.current?.focus(),
    focusList: () => table.current?.focus(),
    focusDetail,
    escape: () => select(''),
  });
  useRequestCommands({ togglePause: () => setPaused((before) => !before), togglePin, followNewest: () => table.current?.resume() });

  const list = (
    <DataTable
      ref={table}
      label="Requests, newest first"
      rows={rows}
      columns={columns}
      getId={getId}
      getOrder={getOrder}
      selectedId={url.selection}
      onSelect={select}
      onOpen={focusDetail}
      {...(isHighlighted !== undefined && { isHighlighted })}
      pinned={pinnedRows}
      resetKey={url.filter}
      empty={
        <EmptyRows view={view} filter={url.filter} noun="request" nothing={<NoRequests />} onClearFilter={() => setUrl({ filter: '' })} onResume={() => setPaused(false)} />
      }
    />
  );
  const pane =
    url.selection === '' ? (
      <RequestsSummary rows={rows} />
    ) : (
      <RequestDetailPane
        ref={detailRef}
        id={url.selection}
        detail={detail}
        error={loaded.error}
        rows={rows}
        comparedTo={comparedTo}
        isPinned={selectedPin !== undefined}
        onPin={togglePin}
        onClose={() => select('')}
        tab={url.tab}
        onTab={(tab) => setUrl({ tab })}
      />
    );

  return (
    <>
      <ViewHeader
        title="Requests"
        actions={
          <>
            <ExportMenu rows={rows} />
            <ClearButton operation="requests.clear" />
            <PauseButton isPaused={isPaused} paused={view.paused} onToggle={() => setPaused((before) => !before)} />
          </>
        }
      >
        <FilterBar
          ref={filterBar}
          id="requests"
          fields={REQUEST_FILTER_FIELDS}
          rows={rows}
          filter={url.filter}
          onFilter={(filter) => setUrl({ filter })}
          highlight={url.highlight}
          onHighlight={(highlight) => setUrl({ highlight })}
          builtIn={READY_MADE}
          placeholder="status:5xx ttft>500 instance:D1 …   ( / )"
          everything="all requests, newest first"
          onDone={() => table.current?.focus()}
          aside={<CountersLine shown={rows.length} counters={view.counters} omitted={view.omitted} skippedSnapshots={view.skippedSnapshots} resyncs={view.resyncs} />}
        />
      </ViewHeader>
      <SplitView id="requests" list={list} detail={pane} listPercent={52} />
    </>
  );
}

/** Columns on the shared scale; they change only when the scale does. */
function useRequestColumns(rows: readonly RequestRow[]): ReturnType<typeof requestColumns> {
  const [scale, setScale] = useState<number | undefined>();
  const wanted = nextScale(scale, useMemo(() => suitableScale(rows), [rows]));
  if (wanted !== scale && rows.length > 0) setScale(wanted);
  return useMemo(() => requestColumns(wanted), [wanted]);
}

/**
 * The Requests view: live list, filter, detail. Filter, highlight, selection, tab, folds and pins live in the URL; pause and
 * the phase scale belong to the page.
 */
import { useCallback, useEffect, useMemo, useRef, useState, type ReactElement } from 'react';
import { REQUEST_FILTER_FIELDS } from '#shared/filter/request-fields.ts';
import type { RequestRow } from '#shared/request.ts';
import { useRows } from '../../stores/use-rows.ts';
import { LiveList } from '../../table/live-list.tsx';
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
  const { pins, toggle, unpin, refresh, remember } = usePins();
  const detailRef = useRef<HTMLElement>(null);

  const selectedRow = useMemo(() => (url.selection === '' ? undefined : rows.findLast((row) => row.id === url.selection)), [rows, url.selection]);
  const selectedPin = pins.find((pin) => pin.id === url.selection);
  const loaded = useRequestDetail(url.selection, selectedRow);
  const detail = loaded.detail ?? selectedPin?.detail;
  const comparedTo = pins.findLast((pin) => pin.id !== url.selection);

  useEffect(() => refresh(rows), [refresh, rows]);
  useEffect(() => {
    if (loaded.detail !== undefined) remember(loaded.detail);
  }, [remember, loaded.detail]);

  const columns = useRequestColumns(rows);
  const pinnedRows = useMemo(() => pins.flatMap((pin) => pin.row ?? []).toReversed(), [pins]);

  const select = useCallback((selection: string) => setUrl({ selection }), [setUrl]);
  const focusDetail = useCallback(() => detailRef.current?.focus(), []);
  const togglePin = (): void => {
    const row = selectedRow ?? detail?.row ?? selectedPin?.row;
    if (row !== undefined) toggle(row, detail);
    else if (selectedPin !== undefined) unpin(selectedPin.id);
  };
  useRequestCommands({ togglePin });

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
        onUnpin={unpin}
        onClose={() => select('')}
        tab={url.tab}
        onTab={(tab) => setUrl({ tab })}
      />
    );

  return (
    <LiveList
      id="requests"
      title="Requests"
      noun="request"
      label="Requests, newest first"
      view={view}
      columns={columns}
      getId={getId}
      getOrder={getOrder}
      pinned={pinnedRows}
      isPaused={isPaused}
      onPause={setPaused}
      onSelect={select}
      fields={REQUEST_FILTER_FIELDS}
      builtIn={READY_MADE}
      placeholder="status:5xx ttft>500 instance:D1 …   ( / )"
      everything="all requests, newest first"
      clear="requests.clear"
      actions={<ExportMenu rows={rows} />}
      nothing={<NoRequests />}
      detail={pane}
      focusDetail={focusDetail}
      listPercent={52}
    />
  );
}

/** Columns on the shared scale; they change only when the scale does. */
function useRequestColumns(rows: readonly RequestRow[]): ReturnType<typeof requestColumns> {
  const [scale, setScale] = useState<number | undefined>();
  const wanted = nextScale(scale, useMemo(() => suitableScale(rows), [rows]));
  if (wanted !== scale && rows.length > 0) setScale(wanted);
  return useMemo(() => requestColumns(wanted), [wanted]);
}

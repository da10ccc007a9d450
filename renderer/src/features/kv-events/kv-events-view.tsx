/**
 * The KV events view: stream health, the live list, the selected event, and the resident blocks. At 20,000 events a
 * second the engine sends the newest few hundred of each frame and counts the rest; the list formats what is on screen.
 */
import { Tabs } from '@mantine/core';
import { useCallback, useMemo, useRef, useState, type ReactElement } from 'react';
import { compileFilter } from '#shared/filter/compile.ts';
import { KV_FILTER_FIELDS } from '#shared/filter/kv-fields.ts';
import type { KvRow } from '#shared/kv.ts';
import type { Role } from '#shared/vocabulary.ts';
import { FilterBar, type FilterBarHandle } from '../../filter/filter-bar.tsx';
import { SplitView } from '../../shell/split-view.tsx';
import { ViewHeader } from '../../shell/view-header.tsx';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useRows } from '../../stores/use-rows.ts';
import { ClearButton } from '../../table/clear-button.tsx';
import { CountersLine } from '../../table/counters-line.tsx';
import { DataTable, type DataTableHandle } from '../../table/data-table.tsx';
import { EmptyRows } from '../../table/empty-rows.tsx';
import { findByOrder } from '../../table/ordered-rows.ts';
import { PauseButton } from '../../table/pause-button.tsx';
import { useTableCommands } from '../../table/table-commands.ts';
import { useUrlState } from '../../url/use-url-state.ts';
import { BlockTab } from './block-tab.tsx';
import { EventDetail } from './event-detail.tsx';
import { FramesTab } from './frames-tab.tsx';
import { kvColumns, kvNote } from './kv-columns.tsx';
import { NoEvents } from './no-events.tsx';
import { ResidentPane } from './resident-pane.tsx';
import { StreamStrip } from './stream-strip.tsx';
import type { ResidentQuery } from './use-resident-blocks.ts';
import { useKvCommands } from './use-kv-commands.ts';
import classes from './kv-events.module.css';

/** A fifth of the engine's default ring: what a person scrolls through; the filter looks at all of it. */
const ROW_LIMIT = 10_000;
const READY_MADE = ['type:gap,lost,restart,error', 'type:removed', 'type:stored medium:cpu', 'blocks>8', 'lora:*'];

const PANE_TABS = ['event', 'block', 'frames', 'resident'] as const;

const getId = (row: KvRow): string => String(row.n);
const getOrder = (row: KvRow): number => row.n;

export function KvEventsView(): ReactElement {
  const [url, setUrl] = useUrlState();
  const [isPaused, setPaused] = useState(false);
  const [resident, setResident] = useState<ResidentQuery>({ stream: '', medium: '', hash: '' });
  const view = useRows('kv', { filter: url.filter, limit: ROW_LIMIT, isPaused });
  const { rows } = view;
  const table = useRef<DataTableHandle>(null);
  const filterBar = useRef<FilterBarHandle>(null);
  const detail = useRef<HTMLElement>(null);

  const columns = useKvColumns();
  const selected = useRememberedRow(rows, url.selection);
  const isHighlighted = useMemo(() => {
    const compiled = compileFilter(url.highlight, KV_FILTER_FIELDS);
    return compiled.ok && url.highlight !== '' ? compiled.matches : undefined;
  }, [url.highlight]);

  const select = useCallback((selection: string) => setUrl(selection !== '' && url.tab === 'resident' ? { selection, tab: '' } : { selection }), [setUrl, url.tab]);
  const filterBy = useCallback((filter: string) => setUrl({ filter }), [setUrl]);
  const focusDetail = useCallback(() => detail.current?.focus(), []);
  const togglePause = (): void => setPaused((before) => !before);
  useTableCommands('KV events', {
    move: (how) => {
      table.current?.move(how);
      table.current?.focus();
    },
    focusFilter: () => filterBar.current?.focus(),
    focusList: () => table.current?.focus(),
    focusDetail,
    escape: () => select(''),
  });
  useKvCommands({ togglePause, followNewest: () => table.current?.resume() });

  const list = (
    <>
      <StreamStrip onPick={(stream) => filterBy(`stream:${stream}`)} />
      <div className={classes.list}>
        <DataTable
          ref={table}
          label="KV-cache events, newest first"
          rows={rows}
          columns={columns}
          getId={getId}
          getOrder={getOrder}
          selectedId={url.selection}
          onSelect={select}
          onOpen={focusDetail}
          {...(isHighlighted !== undefined && { isHighlighted })}
          note={kvNote}
          resetKey={url.filter}
          empty={<EmptyRows view={view} filter={url.filter} noun="event" nothing={<NoEvents />} onClearFilter={() => filterBy('')} onResume={() => setPaused(false)} />}
        />
      </div>
    </>
  );

  const tab = url.selection === '' ? 'resident' : (PANE_TABS.find((one) => one === url.tab) ?? 'event');
  const pane = (
    <section ref={detail} className={classes.pane} aria-label="Event and resident blocks" tabIndex={-1}>
      <Tabs value={tab} onChange={(next) => setUrl({ tab: next === null || next === 'event' ? '' : next })} keepMounted={false} variant="pills" className={classes.tabs ?? ''}>
        <Tabs.List className={classes.tabList ?? ''}>
          <Tabs.Tab value="event" disabled={url.selection === ''} className={classes.tab ?? ''}>Event</Tabs.Tab>
          <Tabs.Tab value="block" disabled={url.selection === ''} className={classes.tab ?? ''}>Block</Tabs.Tab>
          <Tabs.Tab value="frames" disabled={url.selection === ''} className={classes.tab ?? ''}>Raw frames</Tabs.Tab>
          <Tabs.Tab value="resident" className={classes.tab ?? ''}>Resident blocks</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="event" className={classes.panel ?? ''} tabIndex={0}>
          {selected === undefined ? (
            <NotListed selection={url.selection} />
          ) : (
            <EventDetail
              row={selected.row}
              isGone={selected.isGone}
              onFilter={filterBy}
              onBlock={() => setUrl({ tab: 'block' })}
              onResident={(hash) => {
                setResident({ stream: '', medium: '', hash });
                setUrl({ tab: 'resident' });
              }}
            />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="block" className={classes.panel ?? ''} tabIndex={0}>
          {selected === undefined ? <NotListed selection={url.selection} /> : <BlockTab key={selected.row.n} row={selected.row} />}
        </Tabs.Panel>
        <Tabs.Panel value="frames" className={classes.panel ?? ''} tabIndex={0}>
          {/^\d+$/u.test(url.selection) && <FramesTab n={Number(url.selection)} />}
        </Tabs.Panel>
        <Tabs.Panel value="resident" className={classes.panel ?? ''} tabIndex={0}>
          <ResidentPane query={resident} onQuery={setResident} />
        </Tabs.Panel>
      </Tabs>
    </section>
  );

  return (
    <>
      <ViewHeader
        title="KV events"
        actions={
          <>
            <ClearButton operation="kv.clear" />
            <PauseButton isPaused={isPaused} paused={view.paused} onToggle={togglePause} />
          </>
        }
      >
        <FilterBar
          ref={filterBar}
          id="kv-events"
          fields={KV_FILTER_FIELDS}
          rows={rows}
          filter={url.filter}
          onFilter={filterBy}
          highlight={url.highlight}
          onHighlight={(highlight) => setUrl({ highlight })}
          builtIn={READY_MADE}
          placeholder="type:stored instance:P0 hash:9f3a …   ( / )"
          everything="all events, newest first"
          onDone={() => table.current?.focus()}
          aside={<CountersLine shown={rows.length} counters={view.counters} omitted={view.omitted} skippedSnapshots={view.skippedSnapshots} resyncs={view.resyncs} />}
        />
      </ViewHeader>
      <SplitView id="kv-events" list={list} detail={pane} listPercent={66} />
    </>
  );
}

function NotListed({ selection }: { readonly selection: string }): ReactElement {
  return <p className={classes.missing}>Event {selection} is not in the list: filtered out, or no longer kept.</p>;
}

/** Columns that know the roles; they change only when the fleet does. */
function useKvColumns(): ReturnType<typeof kvColumns> {
  const roles = useEngineSelector((engine) => engine?.instances.map((instance) => `${instance.id} ${instance.role}`).join('\n') ?? '');
  return useMemo(() => {
    const byId = new Map(roles.split('\n').map((line) => line.split(' ') as [string, Role]));
    return kvColumns((instance) => byId.get(instance));
  }, [roles]);
}

/** The selected row, also after the list has lost it. */
function useRememberedRow(rows: readonly KvRow[], selection: string): { readonly row: KvRow; readonly isGone: boolean } | undefined {
  const [remembered, setRemembered] = useState<KvRow | undefined>();
  const order = Number(selection);
  const found = selection !== '' && Number.isSafeInteger(order) ? findByOrder(rows, order, getOrder) : undefined;
  if (found !== undefined && found.n !== remembered?.n) setRemembered(found);
  const row = found ?? (remembered?.n === order ? remembered : undefined);
  return row === undefined ? undefined : { row, isGone: found === undefined };
}

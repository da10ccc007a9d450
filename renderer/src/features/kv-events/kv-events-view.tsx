/**
 * The KV events view: stream health, the live list, the selected event, and the resident blocks. At 20,000 events a
 * second the engine sends the newest few hundred of each frame and counts the rest; the list formats what is on screen.
 */
import { useCallback, useMemo, useRef, useState, type ReactElement } from 'react';
import { KV_FILTER_FIELDS } from '#shared/filter/kv-fields.ts';
import type { KvRow } from '#shared/kv.ts';
import type { Role } from '#shared/vocabulary.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useRows } from '../../stores/use-rows.ts';
import { LiveList } from '../../table/live-list.tsx';
import { findByOrder } from '../../table/ordered-rows.ts';
import { useUrlState } from '../../url/use-url-state.ts';
import { EventPane } from './event-pane.tsx';
import { kvColumns, kvNote } from './kv-columns.tsx';
import { NoEvents } from './no-events.tsx';
import { StreamStrip } from './stream-strip.tsx';

/** A fifth of the engine's default ring: what a person scrolls through; the filter looks at all of it. */
const ROW_LIMIT = 10_000;
const READY_MADE = ['type:gap,lost,restart,error', 'type:removed', 'type:stored medium:cpu', 'blocks>8', 'lora:*'];

const getId = (row: KvRow): string => String(row.n);
const getOrder = (row: KvRow): number => row.n;

export function KvEventsView(): ReactElement {
  const [url, setUrl] = useUrlState();
  const [isPaused, setPaused] = useState(false);
  const view = useRows('kv', { filter: url.filter, limit: ROW_LIMIT, isPaused });
  const detail = useRef<HTMLElement>(null);
  const columns = useKvColumns();
  const selected = useRememberedRow(view.rows, url.selection);
  const select = useCallback((selection: string) => setUrl(url.tab === 'resident' ? (selection === '' ? { selection } : { selection, tab: '', scope: '', metric: '', pick: '' }) : { selection, pick: '' }), [setUrl, url.tab]);
  // Kept as they are while rows stream in: neither depends on the list.
  const strip = useMemo(() => <StreamStrip onPick={(stream) => setUrl({ filter: `stream:${stream}` })} />, [setUrl]);
  const pane = useMemo(() => <EventPane ref={detail} selection={url.selection} tab={url.tab} selected={selected} />, [url.selection, url.tab, selected]);
  return (
    <LiveList
      id="kv-events"
      title="KV events"
      noun="event"
      label="KV-cache events, newest first"
      view={view}
      columns={columns}
      getId={getId}
      getOrder={getOrder}
      note={kvNote}
      isPaused={isPaused}
      onPause={setPaused}
      onSelect={select}
      fields={KV_FILTER_FIELDS}
      builtIn={READY_MADE}
      placeholder="type:stored instance:P0 hash:9f3a …   ( / )"
      everything="all events, newest first"
      clear="kv.clear"
      above={strip}
      nothing={<NoEvents />}
      detail={pane}
      focusDetail={() => detail.current?.focus()}
      listPercent={66}
    />
  );
}

/** Columns that know roles and epochs; they change only when the fleet does, or an engine starts anew. */
function useKvColumns(): ReturnType<typeof kvColumns> {
  const roles = useEngineSelector((engine) => engine?.instances.map((instance) => `${instance.id} ${instance.role}`).join('\n') ?? '');
  const epochs = useEngineSelector((engine) => engine?.streams.map((stream) => `${stream.id} ${stream.epochs}`).join('\n') ?? '');
  return useMemo(() => {
    const roleById = new Map(roles.split('\n').map((line) => line.split(' ') as [string, Role]));
    const epochById = new Map(epochs.split('\n').map((line) => line.split(' ') as [string, string]));
    return kvColumns({
      roleOf: (instance) => roleById.get(instance),
      epochOf: (stream) => {
        const epoch = epochById.get(stream);
        return epoch === undefined ? undefined : Number(epoch);
      },
    });
  }, [roles, epochs]);
}

/** The selected row, also after the list has lost it. */
function useRememberedRow(rows: readonly KvRow[], selection: string): { readonly row: KvRow; readonly isGone: boolean } | undefined {
  const [remembered, setRemembered] = useState<KvRow | undefined>();
  const order = Number(selection);
  const found = selection !== '' && Number.isSafeInteger(order) ? findByOrder(rows, order, getOrder) : undefined;
  if (found !== undefined && found.n !== remembered?.n) setRemembered(found);
  const row = found ?? (remembered?.n === order ? remembered : undefined);
  const isGone = found === undefined;
  return useMemo(() => (row === undefined ? undefined : { row, isGone }), [row, isGone]);
}

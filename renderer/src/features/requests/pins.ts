/**
 * Pinned requests. Which ones they are is part of the link to the page (`pick`, oldest first); the page holds a copy of each,
 * the newest row and detail seen of it, so that they survive clearing, eviction and a change of view.
 */
import { useCallback, useEffect, useMemo } from 'react';
import { create } from 'zustand';
import { errorMessage } from '#shared/errors.ts';
import { RecordIdSchema } from '#shared/ids.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';
import { useConnection, useTransport } from '../../transport/transport-context.tsx';
import { readUrlList, toggleInUrlList, writeUrlList } from '../../url/url-list.ts';
import { useUrlState } from '../../url/use-url-state.ts';

/** More would leave no room for the list. */
const MOST_PINS = 6;

/** What is known of a pinned request: a link names it before the page has it. */
export interface Pin {
  readonly id: string;
  readonly row?: RequestRow;
  readonly detail?: RequestDetail;
  /** Why the engine did not give it. */
  readonly error?: string;
}

interface Copies {
  readonly byId: ReadonlyMap<string, Pin>;
  readonly keep: (pin: Pin) => void;
  /** Takes over newer rows of pinned requests that were running. */
  readonly refresh: (rows: readonly RequestRow[]) => void;
  /** Takes over the detail of a request, if it is pinned. */
  readonly remember: (detail: RequestDetail) => void;
  /** Forgets what is no longer pinned. */
  readonly retain: (ids: readonly string[]) => void;
}

export const usePinCopies = create<Copies>((set) => {
  const put = (pins: Iterable<Pin>): void => set(({ byId }) => ({ byId: new Map([...byId, ...Array.from(pins, (pin) => [pin.id, pin] as const)]) }));
  return {
    byId: new Map(),
    keep: (pin) => put([pin]),
    refresh: (rows) =>
      set((state) => {
        const running = new Map<string, Pin>();
        for (const pin of state.byId.values()) if (pin.row?.state === 'running') running.set(pin.id, pin);
        if (running.size === 0) return state;
        const newer = new Map(state.byId);
        for (const row of rows) {
          const pin = running.get(row.id);
          if (pin !== undefined && pin.row !== row) newer.set(row.id, { ...pin, row });
        }
        return { byId: newer };
      }),
    remember: (detail) =>
      set((state) => {
        const pin = state.byId.get(detail.row.id);
        return pin === undefined || pin.detail === detail ? state : { byId: new Map(state.byId).set(pin.id, { id: pin.id, row: detail.row, detail }) };
      }),
    retain: (ids) => set((state) => (Array.from(state.byId.keys()).every((id) => ids.includes(id)) ? state : { byId: new Map([...state.byId].filter(([id]) => ids.includes(id))) })),
  };
});

export interface Pins {
  /** Oldest first. */
  readonly pins: readonly Pin[];
  /** Pins, or unpins what is pinned. The oldest pin gives way when there are too many. */
  readonly toggle: (row: RequestRow, detail: RequestDetail | undefined) => void;
  readonly unpin: (id: string) => void;
  readonly refresh: Copies['refresh'];
  readonly remember: Copies['remember'];
}

/** The pins of the link, and the engine's records of those that this page has not seen. */
export function usePins(): Pins {
  const [{ pick }, setUrl] = useUrlState();
  const { byId, keep, refresh, remember, retain } = usePinCopies();
  const ids = useMemo(() => readUrlList(pick).slice(-MOST_PINS), [pick]);
  const pins = useMemo(() => ids.map((id): Pin => byId.get(id) ?? { id }), [ids, byId]);
  useEffect(() => retain(ids), [retain, ids]);
  useAsking(ids, keep);
  const toggle = useCallback((row: RequestRow, detail: RequestDetail | undefined): void => {
    keep({ id: row.id, row, ...(detail !== undefined && { detail }) });
    setUrl({ pick: writeUrlList(readUrlList(toggleInUrlList(pick, row.id)).slice(-MOST_PINS)) });
  }, [keep, pick, setUrl]);
  const unpin = useCallback((id: string) => setUrl({ pick: toggleInUrlList(pick, id, false) }), [pick, setUrl]);
  return { pins, toggle, unpin, refresh, remember };
}

/** Asks for the pinned requests that the page has no detail of: when a link names them, and again when the connection is back. */
function useAsking(ids: readonly string[], keep: Copies['keep']): void {
  const transport = useTransport();
  const isOpen = useConnection().phase === 'open';
  useEffect(() => {
    if (!isOpen) return;
    for (const id of ids) {
      if (usePinCopies.getState().byId.get(id)?.detail !== undefined) continue;
      const parsed = RecordIdSchema.safeParse(id);
      if (!parsed.success) {
        keep({ id, error: 'this is not the id of a request' });
        continue;
      }
      transport.call('requests.get', { id: parsed.data }).then(
        (detail) => keep({ id, row: detail.row, detail }),
        (cause: unknown) => keep({ ...(usePinCopies.getState().byId.get(id) ?? { id }), error: errorMessage(cause) }),
      );
    }
  }, [transport, ids, keep, isOpen]);
}

/**
 * Pinned requests: copies held by this page, so that they survive clearing and eviction and a change of view. A pin
 * remembers the newest row and detail that were seen of it.
 */
import { create } from 'zustand';
import type { RecordId } from '#shared/ids.ts';
import type { RequestDetail, RequestRow } from '#shared/request.ts';

/** More would leave no room for the list. */
export const MOST_PINS = 6;

export interface Pin {
  readonly row: RequestRow;
  readonly detail?: RequestDetail;
}

interface PinState {
  /** Oldest pin first. */
  readonly pins: readonly Pin[];
  /** Pins, or unpins what is pinned. The oldest pin gives way when there are too many. */
  readonly toggle: (row: RequestRow, detail: RequestDetail | undefined) => void;
  /** Takes over newer rows of pinned requests. */
  readonly refresh: (rows: readonly RequestRow[]) => void;
  readonly remember: (detail: RequestDetail) => void;
}

export const usePins = create<PinState>((set) => ({
  pins: [],
  toggle: (row, detail) => {
    set(({ pins }) => ({
      pins: pins.some((pin) => pin.row.id === row.id)
        ? pins.filter((pin) => pin.row.id !== row.id)
        : [...pins, { row, ...(detail !== undefined && { detail }) }].slice(-MOST_PINS),
    }));
  },
  refresh: (rows) => {
    set((state) => {
      const running = new Map(state.pins.filter((pin) => pin.row.state === 'running').map((pin) => [pin.row.id, pin.row]));
      if (running.size === 0) return state;
      const newer = new Map<RecordId, RequestRow>();
      for (const row of rows) if (running.has(row.id) && running.get(row.id) !== row) newer.set(row.id, row);
      return newer.size === 0 ? state : { pins: state.pins.map((pin) => ({ ...pin, row: newer.get(pin.row.id) ?? pin.row })) };
    });
  },
  remember: (detail) => {
    set((state) =>
      state.pins.some((pin) => pin.row.id === detail.row.id && pin.detail !== detail)
        ? { pins: state.pins.map((pin) => (pin.row.id === detail.row.id ? { row: detail.row, detail } : pin)) }
        : state,
    );
  },
}));

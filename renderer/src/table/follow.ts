/**
 * Following the newest rows, or holding still.
 *
 * The newest row is at the top. While the person is at the top and has nothing selected, the table follows. Scrolling
 * down or selecting a row holds: the list of rows is then fixed, so nothing moves under the cursor, nothing that is being
 * read vanishes when the engine's ring moves on, and what arrives is only counted. Rows that are still in the ring go on
 * showing their newest state (a running request finishes in place).
 */
import { useCallback, useMemo, useState } from 'react';
import { countNewer, findByOrder, type GetOrder } from './ordered-rows.ts';

export interface Follow<Row> {
  readonly isFollowing: boolean;
  /** Rows of the list, newest first. */
  readonly count: number;
  /** The row at a place of the list, in its newest state. */
  readonly at: (index: number) => Row | undefined;
  /** True when the row at this place left the live rows and is only remembered here. */
  readonly isGone: (index: number) => boolean;
  /** Rows that arrived since the list was held. */
  readonly arrived: number;
  /** True when more arrived than the page holds: `arrived` is then a lower bound. */
  readonly isArrivedCut: boolean;
  readonly hold: () => void;
  readonly resume: () => void;
}

interface Held<Row> {
  readonly rows: readonly Row[];
  readonly resetKey: string;
}

/**
 * @param rows Live rows, oldest first, sorted by `getOrder`.
 * @param resetKey Changing it (another filter) goes back to following.
 */
export function useFollow<Row>(rows: readonly Row[], getOrder: GetOrder<Row>, resetKey: string): Follow<Row> {
  const [state, setHeld] = useState<Held<Row> | undefined>();
  // A cleared list is shown as cleared: holding on to it would deny what the person just did.
  const held = state !== undefined && state.resetKey === resetKey && rows.length > 0 ? state.rows : undefined;

  const hold = useCallback(() => {
    setHeld((before) => (before?.resetKey === resetKey ? before : { rows, resetKey }));
  }, [rows, resetKey]);
  const resume = useCallback(() => setHeld(undefined), []);
  if (state !== undefined && held === undefined) setHeld(undefined);

  return useMemo(() => {
    const list = held ?? rows;
    const newest = held?.at(-1);
    const oldestLive = rows[0];
    const arrived = newest === undefined ? 0 : countNewer(rows, getOrder(newest), getOrder);
    const at = (index: number): Row | undefined => list[list.length - 1 - index];
    const live = (row: Row): Row | undefined => findByOrder(rows, getOrder(row), getOrder);
    return {
      isFollowing: held === undefined,
      count: list.length,
      at: (index) => {
        const row = at(index);
        return row === undefined || held === undefined ? row : (live(row) ?? row);
      },
      isGone: (index) => {
        const row = at(index);
        return held !== undefined && row !== undefined && live(row) === undefined;
      },
      arrived,
      isArrivedCut: newest !== undefined && oldestLive !== undefined && arrived === rows.length && getOrder(oldestLive) > getOrder(newest) + 1,
      hold,
      resume,
    };
  }, [held, rows, getOrder, hold, resume]);
}

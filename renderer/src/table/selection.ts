/** Moving the selection through a list by keyboard; pure, so that every edge is tested without a page. */

export type Move = 'next' | 'previous' | 'first' | 'last' | 'page-down' | 'page-up';

export interface MoveContext {
  /** Rows in the list. */
  readonly count: number;
  /** Place of the selected row; undefined without a selection or when it is not in the list. */
  readonly selected: number | undefined;
  /** First place on screen: where a first `next` or `previous` lands. */
  readonly firstVisible: number;
  /** Rows that fit on screen. */
  readonly pageRows: number;
}

/** The place to select next; undefined in an empty list. Ends stop, they do not wrap. */
export function moveSelection(move: Move, context: MoveContext): number | undefined {
  const { count, selected, firstVisible, pageRows } = context;
  if (count === 0) return undefined;
  const clamp = (index: number): number => Math.min(Math.max(index, 0), count - 1);
  if (move === 'first') return 0;
  if (move === 'last') return count - 1;
  if (selected === undefined) return clamp(firstVisible);
  const step = { next: 1, previous: -1, 'page-down': Math.max(1, pageRows - 1), 'page-up': -Math.max(1, pageRows - 1) }[move];
  return clamp(selected + step);
}

const KEY_MOVES: Readonly<Record<string, Move>> = {
  ArrowDown: 'next',
  ArrowUp: 'previous',
  Home: 'first',
  End: 'last',
  PageDown: 'page-down',
  PageUp: 'page-up',
};

/** The move a key of the focused table stands for (j and k are commands of the page); undefined for other keys and with a modifier held. */
export function moveOfKey(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey'>): Move | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  return Object.hasOwn(KEY_MOVES, event.key) ? KEY_MOVES[event.key] : undefined;
}

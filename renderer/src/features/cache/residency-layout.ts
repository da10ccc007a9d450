/** Where each cell of the residency map is. All lengths in px. */
import type { ResidencyRow } from '#shared/cache.ts';
import type { KvStreamView } from '#shared/kv.ts';

/** Side of a cell and the distance from one to the next. */
export const CELL_PX = 7;
export const PITCH_PX = 8;
/** Lines of cells that a row takes at most: more would push the next one off the screen. */
const MOST_LINES = 16;
/** Room around a row's lines. */
const ROW_PADDING_PX = 12;
/** The engine's own limits on the cells of a row. */
const LEAST_CELLS = 16;
const MOST_CELLS = 8192;

export interface MapLayout {
  readonly columns: number;
  readonly lines: number;
  /** Cells per row to ask the engine for. */
  readonly cells: number;
}

/** As many lines per row as fit, at least one. Width is rounded down to 8 cells, so that a moving border asks rarely. */
export function mapLayout({ widthPx, heightPx, rows }: { readonly widthPx: number; readonly heightPx: number; readonly rows: number }): MapLayout {
  const columns = Math.max(8, Math.floor(widthPx / PITCH_PX / 8) * 8);
  const linesThatFit = Math.floor((heightPx / Math.max(1, rows) - ROW_PADDING_PX) / PITCH_PX);
  const lines = Math.min(MOST_LINES, Math.max(2, linesThatFit));
  return { columns, lines, cells: Math.min(MOST_CELLS, Math.max(LEAST_CELLS, columns * lines)) };
}

/** Whether a stream ever said a word about its blocks: without one its 0 is a guess. */
export function isHeard(streams: readonly Pick<KvStreamView, 'id' | 'batches'>[], row: Pick<ResidencyRow, 'stream' | 'blocks'>): boolean {
  return row.blocks > 0 || (streams.find(({ id }) => id === row.stream)?.batches ?? 1) > 0;
}

/** Lines that `count` cells take. */
export function linesOf(count: number, columns: number): number {
  return Math.max(1, Math.ceil(count / columns));
}

export function cellOrigin(index: number, columns: number): { readonly x: number; readonly y: number } {
  return { x: (index % columns) * PITCH_PX, y: Math.floor(index / columns) * PITCH_PX };
}

/** The cell under a point; undefined outside of all. The gap right of and below a cell belongs to it: a hand is not that steady. */
export function cellAt(x: number, y: number, { columns, count }: { readonly columns: number; readonly count: number }): number | undefined {
  const column = Math.floor(x / PITCH_PX);
  const line = Math.floor(y / PITCH_PX);
  if (column < 0 || column >= columns || line < 0) return undefined;
  const index = line * columns + column;
  return index < count ? index : undefined;
}

/**
 * Cells that the medium's whole capacity takes at this row's scale. Undefined when the engine did not say, or when they
 * are more than `most`: free cells cut short would make a half-empty cache look full.
 */
export function capacityCells(row: { readonly capacityBlocks?: number; readonly blocksPerCell: number }, most: number): number | undefined {
  if (row.capacityBlocks === undefined) return undefined;
  const cells = Math.ceil(row.capacityBlocks / Math.max(1, row.blocksPerCell));
  return cells > most ? undefined : cells;
}

import type { ResidencyRow } from '#shared/cache.ts';
import { ABSENT, formatDuration, formatInteger } from '../../ui/format.ts';

/** `P0/0`, `P0/0 CPU`: the GPU goes without saying. */
export function rowName({ instanceName, stream, medium }: Pick<ResidencyRow, 'instanceName' | 'stream' | 'medium'>): string {
  return `${instanceName}/${stream.slice(stream.lastIndexOf('/') + 1)}${medium === 'GPU' ? '' : ` ${medium}`}`;
}

/** In the place of cells and counts of a stream that was never heard. */
export const UNHEARD = 'none known: no batch of its events was received';

/** What addresses name a row by. */
export function rowKey({ stream, medium }: Pick<ResidencyRow, 'stream' | 'medium'>): string {
  return medium === 'GPU' ? stream : `${stream} ${medium}`;
}

/** Blocks of a cell, 1-based and in order of storing: `181–185`, or `7` when a cell is one block. */
export function cellBlocks(row: Pick<ResidencyRow, 'blocks' | 'blocksPerCell'>, cell: number): string {
  const first = cell * row.blocksPerCell + 1;
  const last = Math.min(row.blocks, first + row.blocksPerCell - 1);
  return first >= last ? formatInteger(first) : `${formatInteger(first)}–${formatInteger(last)}`;
}

/** Times stored again; a mean over a bin is rarely whole. */
export function meanWords(value: number | undefined): string {
  if (value === undefined) return ABSENT;
  return Number.isInteger(value) ? formatInteger(value) : value.toFixed(1);
}

/** One cell in a sentence. */
export function cellWords(row: ResidencyRow, cell: number): string {
  const isBin = row.blocksPerCell > 1;
  const age = row.ageS[cell];
  const holders = row.holders[cell];
  const parts = [
    `${rowName(row)} ${isBin ? 'blocks' : 'block'} ${cellBlocks(row, cell)} of ${formatInteger(row.blocks)}`,
    age === undefined ? undefined : `stored ${formatDuration(age * 1000)} ago${isBin ? ' (mean)' : ''}`,
    `reused ${meanWords(row.reuse[cell])}×${isBin ? ' (mean)' : ''}`,
    holders === undefined ? undefined : `held by ${holders === 1 ? 'this stream only' : `${formatInteger(holders)} streams`}${isBin ? ' (largest)' : ''}`,
  ];
  return parts.filter((part) => part !== undefined).join(' · ');
}

/** The residency map without a canvas: blocks per step of the scale, and every cell of one stream, by keyboard. */
import { NativeSelect } from '@mantine/core';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useRef, type ReactElement } from 'react';
import type { ResidencyRow } from '#shared/cache.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { ABSENT, formatDuration, formatInteger } from '../../ui/format.ts';
import table from '../../ui/plain-table.module.css';
import { InstanceName } from '../../ui/role-mark.tsx';
import { cellBlocks, meanWords, rowKey, rowName, UNHEARD } from './cell-words.ts';
import { isHeard } from './residency-layout.ts';
import { countSteps, type Scale } from './residency-scale.ts';
import { LinkButton } from '../../ui/link-button.tsx';
import classes from './cache.module.css';

const ROW_PX = 24;

export interface ResidencyTableProps {
  readonly rows: readonly ResidencyRow[];
  readonly scale: Scale;
  /** Row whose cells are listed, by its key; the first for anything unknown. */
  readonly chosen: string;
  readonly onChoose: (row: string) => void;
  readonly onPick: (row: ResidencyRow, cell: number) => void;
}

export function ResidencyTable({ rows, scale, chosen, onChoose, onPick }: ResidencyTableProps): ReactElement {
  const toTrust = useTrustOf();
  const streams = useEngineSelector((engine) => engine?.streams) ?? [];
  const row = rows.find((one) => rowKey(one) === chosen) ?? rows[0];
  return (
    <div className={classes.tableBox}>
      <table className={table.table}>
        <caption>Cells by {scale.title}</caption>
        <thead>
          <tr>
            <th scope="col">stream</th><th scope="col" data-align="end" title="Resident, placed or not">blocks</th><th scope="col" data-align="end" title="num_gpu_blocks, as the engine reports it; of other media no engine does">capacity</th><th scope="col" data-align="end" title="Capacity that no event announced: free, or in use by running requests and not yet whole">free</th><th scope="col" data-align="end" title="Resident, tokens not known">unplaced</th><th scope="col" data-align="end">blocks per cell</th>
            {scale.steps.map(({ label }) => <th key={label} scope="col" data-align="end">{label}</th>)}
            <th scope="col">confidence</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((one) => {
            const isKnown = isHeard(streams, one);
            const known = (value: number): string => (isKnown ? formatInteger(value) : ABSENT);
            return (
              <tr key={rowKey(one)}>
                <th scope="row"><InstanceName role={one.role} name={rowName(one)} /></th>
                <td data-align="end" title={isKnown ? undefined : UNHEARD}>{known(one.blocks)}</td>
                <td data-align="end">{one.capacityBlocks === undefined ? ABSENT : formatInteger(one.capacityBlocks)}</td>
                <td data-align="end">{one.capacityBlocks === undefined ? ABSENT : known(Math.max(0, one.capacityBlocks - one.blocks))}</td>
                <td data-align="end">{known(one.unplaced)}</td>
                <td data-align="end">{known(one.blocksPerCell)}</td>
                {countSteps(scale, one).map((count, index) => <td key={scale.steps[index]?.label} data-align="end">{known(count)}</td>)}
                <td><TrustMark trust={toTrust(one.confidence)} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <NativeSelect
        className={classes.narrowSelect ?? ''}
        label="Cells of"
        value={row === undefined ? '' : rowKey(row)}
        onChange={(event) => onChoose(event.currentTarget.value)}
        data={rows.map((one) => ({ value: rowKey(one), label: rowName(one) }))}
      />
      {row !== undefined && <CellList row={row} onPick={(cell) => onPick(row, cell)} />}
    </div>
  );
}

/** Every cell of a stream as a line with a button. */
function CellList({ row, onPick }: { readonly row: ResidencyRow; readonly onPick: (cell: number) => void }): ReactElement {
  const scroller = useRef<HTMLDivElement>(null);
  // oxlint-disable-next-line react/incompatible-library -- the compiler is not in use; nothing memoises what this returns
  const virtualizer = useVirtualizer({ count: row.node.length, getScrollElement: () => scroller.current, estimateSize: () => ROW_PX, overscan: 10, useFlushSync: false });
  return (
    <div ref={scroller} className={classes.cells} role="region" tabIndex={0} aria-label={`Cells of ${rowName(row)}`}>
      <ol className={classes.cellList} style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => {
          const node = row.node[index];
          const age = row.ageS[index];
          return (
            <li key={index} className={classes.cellLine} style={{ transform: `translateY(${start}px)` }}>
              <span>{row.blocksPerCell > 1 ? 'blocks' : 'block'} {cellBlocks(row, index)}</span>
              <span>{age === undefined ? '—' : `stored ${formatDuration(age * 1000)} ago`}</span>
              <span>reused {meanWords(row.reuse[index])}×</span>
              <span>held by {meanWords(row.holders[index])}</span>
              {typeof node === 'number' ? <LinkButton onClick={() => onPick(index)}>open block</LinkButton> : <span className={classes.dim}>content not known</span>}
            </li>
          );
        })}
      </ol>
    </div>
  );
}

/** What is resident where: a canvas map of every stream's blocks, and the same as a table. */
import { Button, SegmentedControl } from '@mantine/core';
import { useRef, useState, type ReactElement } from 'react';
import type { ResidencyRow } from '#shared/cache.ts';
import { parseBlockRef, type BlockRef } from '../../blocks/block-ref.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useElementSize } from '../../table/use-element-size.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { formatCount } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import { cellWords, rowKey } from './cell-words.ts';
import { NoCache } from './no-cache.tsx';
import { capacityCells, mapLayout } from './residency-layout.ts';
import { ResidencyRowView } from './residency-row.tsx';
import { COLOURINGS, SCALES, colouringOf, type Scale } from './residency-scale.ts';
import { ResidencyTable } from './residency-table.tsx';
import classes from './cache.module.css';

const REFRESH_MS = 2000;
/** Width of what stands left and right of a row's cells. */
const SIDES_PX = 430;
/** Height of heads, legend and reading line above the map. */
const ABOVE_PX = 96;

export function ResidencySection({ onOpen }: { readonly onOpen: (ref: BlockRef) => void }): ReactElement {
  const [url, setUrl] = useUrlState();
  const box = useRef<HTMLDivElement>(null);
  const { width, height } = useElementSize(box);
  const rowCount = useEngineSelector((engine) => engine?.streams.reduce((sum, { resident }) => sum + 1 + resident.filter(({ medium, blocks }) => medium !== 'GPU' && blocks > 0).length, 0) ?? 1);
  const layout = mapLayout({ widthPx: width - SIDES_PX, heightPx: height - ABOVE_PX, rows: rowCount });
  const { value, error } = usePolledQuery('cache.residency', { cells: layout.cells }, REFRESH_MS);
  const isTable = url.form === 'table';
  const [pointed, setPointed] = useState<{ readonly key: string; readonly cell: number }>();
  const colouring = colouringOf(url.metric);
  const scale = SCALES[colouring];
  const block = parseBlockRef(url.selection);
  const picked = block !== undefined && 'node' in block ? block.node : undefined;

  const rows = value?.rows ?? [];
  const placed = rows.reduce((sum, row) => sum + row.blocks - row.unplaced, 0);
  const unplaced = rows.reduce((sum, row) => sum + row.unplaced, 0);
  const pointedRow = rows.find((row) => rowKey(row) === pointed?.key);
  const pick = (row: ResidencyRow, cell: number): void => {
    const node = row.node[cell];
    if (node !== undefined && node !== null) onOpen({ node });
  };
  return (
    <div ref={box} className={classes.fill}>
      {error !== undefined && <div className={classes.notice}><Message tone={value === undefined ? 'error' : 'warning'}>{value === undefined ? error.message : `Shown as last seen: ${error.message}`}</Message></div>}
      {value === undefined && error === undefined && <div className={classes.notice}>Asking the engine …</div>}
      {value !== undefined && placed === 0 && <NoCache unplaced={unplaced} />}
      {value !== undefined && placed > 0 && (
        <>
          <SectionHead title="Resident blocks by stream and medium">
            <SegmentedControl aria-label="Colour by" value={colouring} data={COLOURINGS.map((one) => ({ value: one, label: one }))} onChange={(next) => setUrl({ metric: next === 'age' ? '' : next })} />
            <Button onClick={() => setUrl({ form: isTable ? '' : 'table' })} aria-pressed={isTable}>{isTable ? 'map' : 'table'}</Button>
            <span className={classes.dim}>
              {formatCount(placed, 'block')} placed{unplaced > 0 && <span className={classes.warning} title="Resident, but their tokens are not known: late attach, placeholder or lost parent. They are counted, not drawn."> · ▲ {formatCount(unplaced, 'block')} unplaced</span>}
            </span>
          </SectionHead>
          <Legend scale={scale} hasFree={!isTable && rows.some((row) => (capacityCells(row, layout.cells) ?? 0) > row.node.length)} />
          {isTable ? <ResidencyTable rows={rows} scale={scale} chosen={url.scope} onChoose={(scope) => setUrl({ scope })} onPick={pick} /> : (
            <>
              <p className={classes.reading} aria-hidden="true">
                {pointedRow === undefined || pointed === undefined ? 'Point at a cell for its figures; click for its block. Oldest store first.' : cellWords(pointedRow, pointed.cell)}
              </p>
              <div className={classes.mapRows}>
                {rows.map((row) => (
                  <ResidencyRowView
                    key={rowKey(row)}
                    row={row}
                    layout={layout}
                    scale={scale}
                    picked={picked}
                    onPoint={(cell) => setPointed(cell === undefined ? undefined : { key: rowKey(row), cell })}
                    onPick={(cell) => pick(row, cell)}
                  />
                ))}
              </div>
            </>
          )}
        </>
      )}
    </div>
  );
}

function Legend({ scale, hasFree }: { readonly scale: Scale; readonly hasFree: boolean }): ReactElement {
  return (
    <ul className={classes.scale} aria-label={`Colours: ${scale.title}`}>
      <li className={classes.dim}>{scale.title}</li>
      {scale.steps.map(({ label, ramp }) => (
        <li key={label}>
          <span className={classes.scaleSwatch} style={{ background: `var(--pd-ramp-${ramp})` }} aria-hidden="true" />
          {label}
        </li>
      ))}
      {hasFree && <li title="Room for blocks that no event announced: free, or in use by running requests and not yet whole"><span className={classes.scaleSwatch} data-free aria-hidden="true" />free</li>}
    </ul>
  );
}

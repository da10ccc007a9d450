import type { ReactElement } from 'react';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { formatCount, formatInteger } from '../../ui/format.ts';
import { Meter } from '../../ui/meter.tsx';
import { InstanceName } from '../../ui/role-mark.tsx';
import { rowName } from './cell-words.ts';
import { ResidencyCanvas, type ResidencyCanvasProps } from './residency-canvas.tsx';
import { capacityCells } from './residency-layout.ts';
import classes from './cache.module.css';

/** A medium of a stream: its name, its cells, its counts. */
export function ResidencyRowView(props: ResidencyCanvasProps): ReactElement {
  const { row, layout } = props;
  const toTrust = useTrustOf();
  const freeCells = capacityCells(row, layout.cells);
  // A full prefix cache is the normal state: blocks stay until their room is needed. So it is no warning.
  const full = row.capacityBlocks === undefined || row.capacityBlocks === 0 ? undefined : row.blocks / row.capacityBlocks;
  return (
    <div className={classes.mapRow}>
      <div className={classes.mapName}>
        <InstanceName role={row.role} name={rowName(row)} />
        <span className={classes.dim} title="1 cell stands for so many blocks, in order of storing">1 cell = {formatCount(row.blocksPerCell, 'block')}</span>
        {row.capacityBlocks !== undefined && freeCells === undefined && <span className={classes.dim} title="So much of the cache is free that drawing it would leave no room for the blocks">free not drawn</span>}
      </div>
      {row.node.length === 0 ? <span className={classes.dim}>no placed block</span> : <ResidencyCanvas {...props} />}
      <div className={classes.mapFacts}>
        <span className={classes.mapFull}>
          <span>{formatInteger(row.blocks)}{row.capacityBlocks !== undefined && <span className={classes.dim}> of {formatInteger(row.capacityBlocks)}</span>}</span>
          {full !== undefined && <Meter share={full} label={`Resident blocks of ${rowName(row)}, of the capacity`} warnAt={Infinity} />}
        </span>
        <span className={classes.mapTrust}>
          {row.unplaced > 0 && <span className={classes.warning} title="Resident, tokens not known">▲ {formatInteger(row.unplaced)} unplaced</span>}
          <TrustMark trust={toTrust(row.confidence)} isLong />
        </span>
      </div>
    </div>
  );
}

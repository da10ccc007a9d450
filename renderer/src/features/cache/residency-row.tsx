import type { ReactElement } from 'react';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { ABSENT, formatCount, formatInteger } from '../../ui/format.ts';
import { Meter } from '../../ui/meter.tsx';
import { InstanceName } from '../../ui/role-mark.tsx';
import { rowName, UNHEARD } from './cell-words.ts';
import { ResidencyCanvas, type ResidencyCanvasProps } from './residency-canvas.tsx';
import { capacityCells, isHeard } from './residency-layout.ts';
import classes from './cache.module.css';

/** A medium of a stream: its name, its cells, its counts. */
export function ResidencyRowView(props: ResidencyCanvasProps): ReactElement {
  const { row, layout } = props;
  const toTrust = useTrustOf();
  const freeCells = capacityCells(row, layout.cells);
  // A full prefix cache is the normal state: blocks stay until their room is needed. So it is no warning.
  const streams = useEngineSelector((engine) => engine?.streams) ?? [];
  const isKnown = isHeard(streams, row);
  const full = !isKnown || row.capacityBlocks === undefined || row.capacityBlocks === 0 ? undefined : row.blocks / row.capacityBlocks;
  return (
    <div className={classes.mapRow}>
      <div className={classes.mapName}>
        <InstanceName role={row.role} name={rowName(row)} />
        {isKnown && <span className={classes.dim} title="1 cell stands for so many blocks, in order of storing">1 cell = {formatCount(row.blocksPerCell, 'block')}</span>}
        {isKnown && row.capacityBlocks !== undefined && freeCells === undefined && <span className={classes.dim} title="So much of the cache is free that drawing it would leave no room for the blocks">free not drawn</span>}
      </div>
      {row.node.length === 0 ? <span className={classes.dim}>{isKnown ? 'no placed block' : UNHEARD}</span> : <ResidencyCanvas {...props} />}
      <div className={classes.mapFacts}>
        <span className={classes.mapFull}>
          <span>{isKnown ? formatInteger(row.blocks) : ABSENT}{row.capacityBlocks !== undefined && <span className={classes.dim}> of {formatInteger(row.capacityBlocks)}</span>}</span>
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

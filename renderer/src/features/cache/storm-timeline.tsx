import { useRef, type ReactElement } from 'react';
import type { EvictionStorm } from '#shared/cache.ts';
import { useElementSize } from '../../table/use-element-size.ts';
import { formatClock, formatInteger } from '../../ui/format.ts';
import { stormBars } from './storm-bars.ts';
import classes from './cache.module.css';

const LANE_PX = 20;
const NAME_PX = 90;

/** When the storms were, a lane per stream. The table has the same figures. */
export function StormTimeline({ storms, fromUnixMs, toUnixMs }: { readonly storms: readonly EvictionStorm[]; readonly fromUnixMs: number; readonly toUnixMs: number }): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const { width } = useElementSize(box);
  const { lanes, bars } = stormBars(storms, { fromUnixMs, toUnixMs, widthPx: Math.max(0, width - NAME_PX - 36) });
  const height = lanes.length * LANE_PX + 18;
  return (
    <div ref={box} className={classes.timeline}>
      <svg width={Math.max(0, width - 36)} height={height} role="img" aria-label={`${storms.length} storms from ${formatClock(fromUnixMs)} to ${formatClock(toUnixMs)}`}>
        {lanes.map((lane, index) => (
          <g key={lane.stream} transform={`translate(0 ${index * LANE_PX})`}>
            <text x={0} y={14} className={classes.axis}>{lane.name}</text>
            <line x1={NAME_PX} x2={Math.max(NAME_PX, width - 36)} y1={LANE_PX - 1} y2={LANE_PX - 1} className={classes.axisLine} />
          </g>
        ))}
        {bars.map((bar) => (
          <rect key={`${bar.storm.stream} ${bar.storm.fromUnixMs}`} x={NAME_PX + bar.x} y={bar.lane * LANE_PX + 3} width={bar.width} height={LANE_PX - 7} className={classes.stormBar}>
            <title>{`${formatInteger(bar.storm.blocks)} blocks, ${formatClock(bar.storm.fromUnixMs)} to ${formatClock(bar.storm.toUnixMs)}`}</title>
          </rect>
        ))}
        <text x={NAME_PX} y={height - 3} className={classes.axis}>{formatClock(fromUnixMs).slice(0, 8)}</text>
        <text x={Math.max(NAME_PX, width - 36)} y={height - 3} textAnchor="end" className={classes.axis}>{formatClock(toUnixMs).slice(0, 8)}</text>
      </svg>
    </div>
  );
}

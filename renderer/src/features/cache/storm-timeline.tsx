import { useRef, type ReactElement } from 'react';
import type { EvictionStorm } from '#shared/cache.ts';
import type { Role } from '#shared/vocabulary.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { useElementSize } from '../../table/use-element-size.ts';
import { ROLE_COLOR } from '../../theme/palette.ts';
import { formatClock, formatInteger } from '../../ui/format.ts';
import { stormBars, type StormLane } from './storm-bars.ts';
import { stormedInstances } from './storm-summary.ts';
import classes from './cache.module.css';

const LANE_PX = 20;
const NAME_PX = 90;
const MARK_PX = 8;

export interface StormTimelineProps {
  readonly storms: readonly EvictionStorm[];
  readonly fromUnixMs: number;
  readonly toUnixMs: number;
  /** Needed again within. */
  readonly withinS: number;
}

/** When the storms were, a lane per stream, in the order of the table by instance. The table of storms has the same figures. */
export function StormTimeline({ storms, fromUnixMs, toUnixMs, withinS }: StormTimelineProps): ReactElement {
  const fleet = useEngineSelector((engine) => engine?.instances) ?? [];
  const instances = stormedInstances(storms, fleet, withinS).map(({ instance }) => instance);
  const box = useRef<HTMLElement>(null);
  const { width } = useElementSize(box);
  const { lanes, bars } = stormBars(storms, { fromUnixMs, toUnixMs, widthPx: Math.max(0, width - NAME_PX - 36), instances });
  const height = lanes.length * LANE_PX + 18;
  return (
    <figure ref={box} className={classes.timeline}>
      <figcaption className={classes.dim}>Storms by stream: a bar from the first block stored again to the last</figcaption>
      <svg width={Math.max(0, width - 36)} height={height} role="img" aria-label={`${storms.length} storms from ${formatClock(fromUnixMs)} to ${formatClock(toUnixMs)}`}>
        {lanes.map((lane, index) => (
          <g key={lane.stream} transform={`translate(0 ${index * LANE_PX})`}>
            <LaneName lane={lane} role={fleet.find(({ id }) => id === lane.instance)?.role} />
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
    </figure>
  );
}

/** Square in the hue of the role, and name, as elsewhere; an instance that left the fleet has no role to show. */
function LaneName({ lane, role }: { readonly lane: StormLane; readonly role: Role | undefined }): ReactElement {
  return (
    <>
      {role !== undefined && <rect x={0} y={6} width={MARK_PX} height={MARK_PX} rx={2} fill={ROLE_COLOR[role]} data-role={role}><title>{role}</title></rect>}
      <text x={MARK_PX + 7} y={14} className={classes.axis}>{lane.name}</text>
    </>
  );
}

import { useMemo, useRef, type ReactElement } from 'react';
import type { RequestDetail } from '#shared/request.ts';
import { useElementWidth } from '../../../table/use-element-width.ts';
import { formatMs } from '../../../ui/format.ts';
import { RoleMark } from '../../../ui/role-mark.tsx';
import { useFold } from '../../../url/use-fold.ts';
import { BarShape } from './bar-shape.tsx';
import { gapStats } from './token-gaps.ts';
import { axisTicks, layoutWaterfall, placeLabels, type Lane } from './waterfall-layout.ts';
import classes from './detail.module.css';

const LANE_PX = 26;
/** One thin bar of a lane that several legs share, with the gap below it; less when there are very many. */
const THIN_PX = 4;
const MOST_GROUP_PX = 120;
const AXIS_PX = 20;
/** Pixels between two marks of the axis, at least. */
const MARK_EVERY_PX = 110;
/** Room for `▲ stall 1,234 ms`. */
const STALL_LABEL_PX = 112;
const MOST_STALLS_MARKED = 3;

export interface WaterfallProps {
  readonly detail: RequestDetail;
  /** Common end of the axis when two are compared, ms. */
  readonly domainMs?: number;
}

/** The request on a time axis. Exact intervals are solid, bounded ones hatched. */
export function Waterfall({ detail, domainMs }: WaterfallProps): ReactElement {
  const plotRef = useRef<HTMLDivElement>(null);
  const width = useElementWidth(plotRef);
  const [isEachShown, setEachShown] = useFold('each-leg');
  const layout = useMemo(() => layoutWaterfall(detail, domainMs, isEachShown), [detail, domainMs, isEachShown]);
  const tops = laneTops(layout.lanes);
  const gaps = useMemo(() => gapStats(detail.chunkTimesMs), [detail.chunkTimesMs]);
  const x = (ms: number): number => (ms / layout.domainMs) * Math.max(0, width - 8);
  const ticks = axisTicks(layout.domainMs, Math.max(2, Math.floor(width / MARK_EVERY_PX)));
  const tokensTop = tops.at(-1) ?? AXIS_PX;
  const height = tokensTop + LANE_PX + 14;
  const stalls = gaps?.stalls.slice(0, MOST_STALLS_MARKED) ?? [];
  const stallLabels = placeLabels(stalls.map((stall) => x((stall.startMs + stall.endMs) / 2)), STALL_LABEL_PX, width);
  const tokensSub = detail.chunkTimesMs.length === 0 ? 'none seen' : `${detail.row.chunks} chunks${gaps === undefined ? '' : `, gap p50 ${formatMs(gaps.p50)} ms`}`;

  return (
    <div className={classes.waterfall}>
      <div style={{ paddingTop: AXIS_PX }}>
        {layout.lanes.map((lane) => (
          <LaneName key={lane.id} lane={lane} heightPx={laneHeight(lane)} />
        ))}
        <div className={classes.laneName}>
          <span className={classes.laneTitle}>tokens</span>
          <span className={classes.laneSub} title={tokensSub}>{tokensSub}</span>
        </div>
        {layout.groupedLegs > 0 && (
          <button type="button" className={classes.moreLegs} aria-expanded={isEachShown} onClick={() => setEachShown(!isEachShown)}>
            {isEachShown ? `one lane for the ${layout.groupedLegs} encode legs` : `a lane for each of the ${layout.groupedLegs} encode legs`}
          </button>
        )}
      </div>
      <div ref={plotRef} className={classes.plot}>
        <svg width={width} height={height} role="img" aria-label={describe(layout.lanes)}>
          {ticks.map((tick) => (
            <g key={tick}>
              <line x1={x(tick)} x2={x(tick)} y1={AXIS_PX} y2={height - 14} className={classes.gridLine} />
              <text x={x(tick)} y={12} className={classes.axisText} textAnchor={anchorOf(x(tick), width)}>
                {tick === 0 ? '0 ms' : formatAxis(tick)}
              </text>
            </g>
          ))}
          {layout.lanes.map((lane, laneIndex) =>
            lane.bars.map((bar) => (
              <BarShape key={`${lane.id}${bar.look}${bar.startMs}`} bar={bar} x={x(bar.startMs)} width={x(bar.endMs) - x(bar.startMs)} y={(tops[laneIndex] ?? AXIS_PX) + 6} />
            )),
          )}
          {layout.lanes.map((lane, laneIndex) =>
            lane.group?.map((bar, index) => (
              // Legs of a group are in the order they were sent, which does not change.
              // oxlint-disable-next-line react/no-array-index-key
              <rect key={`${lane.id}${index}`} x={x(bar.startMs)} width={Math.max(1.5, x(bar.endMs) - x(bar.startMs))} y={(tops[laneIndex] ?? AXIS_PX) + 6 + index * thinPx(lane.group?.length ?? 1)} height={Math.max(1, thinPx(lane.group?.length ?? 1) - 1)} className={classes.thinBar} data-look={bar.look}>
                <title>{bar.title}</title>
              </rect>
            )),
          )}
          <path d={chunkPath(detail.chunkTimesMs, x, tokensTop + 6)} className={classes.chunkTicks}>
            <title>Arrival of each chunk{detail.chunkTimesDropped > 0 ? `; the first ${detail.chunkTimesDropped} are no longer kept` : ''}</title>
          </path>
          {stalls.map((stall, index) => (
            <g key={stall.chunk}>
              <title>{`stall ${formatMs(stall.gapMs)} ms`}</title>
              <rect x={x(stall.startMs)} width={Math.max(1, x(stall.endMs) - x(stall.startMs))} y={tokensTop + 21} height={2} className={classes.stallLine} />
              {stallLabels[index] !== undefined && (
                <text x={stallLabels[index]} y={tokensTop + 34} className={classes.stallText} textAnchor="middle">
                  ▲ stall {formatMs(stall.gapMs)} ms
                </text>
              )}
            </g>
          ))}
        </svg>
      </div>
    </div>
  );
}

/** Pixels that one leg of a group gets. */
function thinPx(legs: number): number {
  return Math.min(THIN_PX, MOST_GROUP_PX / legs);
}

function laneHeight(lane: Lane): number {
  return lane.group === undefined ? LANE_PX : Math.max(LANE_PX, 12 + lane.group.length * thinPx(lane.group.length));
}

/** Top of each lane, and of what comes after the last. */
function laneTops(lanes: readonly Lane[]): readonly number[] {
  const tops = [AXIS_PX];
  for (const lane of lanes) tops.push((tops.at(-1) ?? AXIS_PX) + laneHeight(lane));
  return tops;
}

function LaneName({ lane, heightPx }: { readonly lane: Lane; readonly heightPx: number }): ReactElement {
  return (
    <div className={classes.laneName} data-failed={lane.isFailed || undefined} data-group={lane.group !== undefined || undefined} style={{ height: heightPx }}>
      <span className={classes.laneTitle}>
        {lane.role !== undefined && <RoleMark role={lane.role} />}
        {lane.name}
      </span>
      <span className={classes.laneSub} title={lane.sub}>
        {lane.isFailed && '✕ '}
        {lane.sub}
      </span>
    </div>
  );
}

/** One path for all ticks: thousands of elements would make selecting a long stream slow. */
function chunkPath(timesMs: readonly number[], x: (ms: number) => number, top: number): string {
  let path = '';
  let lastX = Number.NEGATIVE_INFINITY;
  for (const time of timesMs) {
    const at = Math.round(x(time) * 2) / 2;
    if (at - lastX < 0.5) continue;
    path += `M${at} ${top}v13`;
    lastX = at;
  }
  return path;
}

/** The labels of the ends lean inwards, so that none is cut. */
function anchorOf(at: number, width: number): 'start' | 'middle' | 'end' {
  if (at < 4) return 'start';
  return at > width - 34 ? 'end' : 'middle';
}

function formatAxis(ms: number): string {
  return ms >= 10_000 ? `${(ms / 1000).toLocaleString('en-US')} s` : `${ms.toLocaleString('en-US')} ms`;
}

function describe(lanes: readonly Lane[]): string {
  return lanes.map((lane) => `${lane.name}: ${lane.group === undefined ? '' : `${lane.sub}; `}${lane.bars.map((bar) => bar.title).join('; ') || (lane.group === undefined ? 'nothing observed' : '')}`).join('. ');
}

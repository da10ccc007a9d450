import { useMemo, useRef, type ReactElement } from 'react';
import type { RequestDetail } from '#shared/request.ts';
import { useElementWidth } from '../../../table/use-element-width.ts';
import { Facts } from '../../../ui/facts.tsx';
import { formatBytes, formatInteger, formatMs } from '../../../ui/format.ts';
import { gapStats, type GapStats } from './token-gaps.ts';
import classes from './detail.module.css';

const PLOT_PX = 110;
/** Room for `p99 1,204 ms`. */
const PLOT_LEFT_PX = 76;

/** The gaps between chunks: plot, percentiles, the longest stalls. */
export function TokensTab({ detail }: { readonly detail: RequestDetail }): ReactElement {
  const { row, chunkTimesMs, chunkBytes, chunkTimesDropped } = detail;
  const stats = useMemo(() => gapStats(chunkTimesMs), [chunkTimesMs]);
  if (stats === undefined) {
    const why = row.isStream ? 'Fewer than two chunks were seen.' : 'The client did not ask for a stream, so there are no chunks to time.';
    return <div className={classes.tabBody}><p className={classes.dim}>{why}</p></div>;
  }
  const bytes = chunkBytes.reduce((sum, one) => sum + one, 0);
  return (
    <div className={classes.tabBody}>
      <Facts
        facts={[
          ['chunks', `${formatInteger(row.chunks)}${chunkTimesDropped > 0 ? `, times of the first ${formatInteger(chunkTimesDropped)} no longer kept` : ''}`],
          ['tokens reported', row.completionTokens === undefined ? 'not reported' : formatInteger(row.completionTokens)],
          ['gap p50 / p99 / max', `${formatMs(stats.p50)} / ${formatMs(stats.p99)} / ${formatMs(stats.max)} ms, n = ${formatInteger(stats.n)}`],
          ['TPOT', row.tpotMs === undefined ? undefined : `${formatMs(row.tpotMs)} ms per output token after the first`],
          ['bytes in these chunks', formatBytes(bytes)],
        ]}
      />
      <GapPlot timesMs={chunkTimesMs} stats={stats} />
      <StallTable stats={stats} firstChunk={chunkTimesDropped} />
    </div>
  );
}

function GapPlot({ timesMs, stats }: { readonly timesMs: readonly number[]; readonly stats: GapStats }): ReactElement {
  const ref = useRef<HTMLDivElement>(null);
  const width = useElementWidth(ref);
  const y = (gapMs: number): number => PLOT_PX - 4 - (gapMs / stats.max) * (PLOT_PX - 16);
  const step = Math.max(0, width - PLOT_LEFT_PX - 6) / Math.max(1, stats.n);
  let path = '';
  for (let index = 1; index < timesMs.length; index += 1) {
    const gap = (timesMs[index] ?? 0) - (timesMs[index - 1] ?? 0);
    path += `M${(PLOT_LEFT_PX + (index - 0.5) * step).toFixed(1)} ${PLOT_PX - 4}V${y(gap).toFixed(1)}`;
  }
  return (
    <div ref={ref} className={classes.plotBlock}>
      <svg width={width} height={PLOT_PX} role="img" aria-label={`Gap before each chunk, 0 to ${formatMs(stats.max)} ms, ${stats.n} gaps`}>
        <path d={path} className={classes.gapBars} strokeWidth={Math.max(0.5, Math.min(6, step * 0.7))} />
        {([['p99', stats.p99], ['p50', stats.p50]] as const).map(([name, value]) => (
          <g key={name}>
            <line x1={PLOT_LEFT_PX} x2={width} y1={y(value)} y2={y(value)} className={classes.percentileLine} />
            <text x={PLOT_LEFT_PX - 4} y={Math.min(y(value) + 4, PLOT_PX - 3)} textAnchor="end" className={classes.axisText}>{name} {formatMs(value)} ms</text>
          </g>
        ))}
      </svg>
      <span className={classes.dim}>gap before each chunk in ms, one bar per chunk in order</span>
    </div>
  );
}

function StallTable({ stats, firstChunk }: { readonly stats: GapStats; readonly firstChunk: number }): ReactElement {
  if (stats.stalls.length === 0) return <p className={classes.dim}>No stall: no gap was three times the median or more.</p>;
  return (
    <table className={classes.smallTable}>
      <caption>Stalls: gaps of at least three medians, longest first</caption>
      <thead>
        <tr>{['before chunk', 'at ms', 'gap ms', 'medians'].map((name) => <th key={name} scope="col" className={classes.numeric}>{name}</th>)}</tr>
      </thead>
      <tbody>
        {stats.stalls.map((stall) => (
          <tr key={stall.chunk}>
            <td className={classes.numeric}>{formatInteger(firstChunk + stall.chunk + 1)}</td>
            <td className={classes.numeric}>{formatMs(stall.startMs)}</td>
            <td className={classes.numeric}>{formatMs(stall.gapMs)}</td>
            <td className={classes.numeric}>{stats.p50 > 0 ? `${formatMs(stall.gapMs / stats.p50)}×` : '—'}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

import { memo, useCallback, type ReactElement } from 'react';
import { CartesianGrid, Line, LineChart, ResponsiveContainer, Tooltip, XAxis, YAxis, type DotItemDotProps, type TooltipContentProps } from 'recharts';
import { loneValues, type ChartRow } from './chart-rows.ts';
import { formatClock, formatCompact, formatInteger, formatMs } from './format.ts';
import classes from './time-chart.module.css';

export interface ChartLine {
  /** The key of its values in the rows, e.g. an instance id. */
  readonly key: string;
  readonly name: string;
  readonly color: string;
  readonly dash: string;
}

export interface TimeChartProps {
  readonly rows: readonly ChartRow[];
  readonly lines: readonly ChartLine[];
  readonly domain: readonly [fromUnixMs: number, toUnixMs: number];
  /** '' = a count. */
  readonly unit: string;
  readonly label: string;
  /** Top of the value axis; default: what the values need. */
  readonly top?: number;
  /** Without the time axis. Default false. */
  readonly isSmall?: boolean;
}

/** All charts with this id move one crosshair together. */
const CROSSHAIR = 'pdscope-time';
const TICK = { fill: 'var(--pd-text-dim)', fontSize: 11 };

/** Lines over time, 0-based, gaps left open. */
export const TimeChart = memo(function TimeChart({ rows, lines, domain, unit, label, top, isSmall = false }: TimeChartProps): ReactElement {
  const renderTooltip = useCallback((props: TooltipContentProps) => <ChartTooltip {...props} unit={unit} lines={lines} />, [unit, lines]);
  return (
    <ResponsiveContainer width="100%" height="100%" initialDimension={{ width: 800, height: isSmall ? 92 : 210 }}>
      <LineChart data={[...rows]} syncId={CROSSHAIR} margin={{ top: 6, right: 8, bottom: 0, left: 0 }} accessibilityLayer title={`${label} over time`}>
        <CartesianGrid stroke="var(--pd-line)" vertical={false} />
        <XAxis
          dataKey="atUnixMs"
          type="number"
          domain={[domain[0], domain[1]]}
          ticks={minuteTicks(domain)}
          tickFormatter={(unixMs: number) => formatClock(unixMs).slice(0, 5)}
          tick={TICK}
          axisLine={{ stroke: 'var(--pd-line-strong)' }}
          tickLine={false}
          height={isSmall ? 4 : 20}
          hide={isSmall}
          allowDataOverflow
        />
        <YAxis width={52} domain={[0, top ?? 'auto']} tick={TICK} axisLine={false} tickLine={false} tickFormatter={formatTick} tickCount={isSmall ? 3 : 5} allowDecimals={unit !== ''} unit="" />
        <Tooltip
          isAnimationActive={false}
          cursor={{ stroke: 'var(--pd-line-strong)' }}
          content={renderTooltip}
        />
        {lines.map((line) => (
          <Line
            key={line.key}
            dataKey={line.key}
            name={line.name}
            stroke={line.color}
            strokeDasharray={line.dash}
            strokeWidth={1.4}
            dot={dotsOf(loneValues(rows, line.key))}
            activeDot={{ r: 2.5 }}
            isAnimationActive={false}
            type="linear"
          />
        ))}
      </LineChart>
    </ResponsiveContainer>
  );
});

/** Dots at the values given and nowhere else; none at all where every value is part of a line. */
function dotsOf(places: ReadonlySet<number>): false | ((props: DotItemDotProps) => ReactElement) {
  if (places.size === 0) return false;
  return ({ cx, cy, index, stroke }) => (places.has(index) ? <circle key={index} cx={cx} cy={cy} r={2.5} fill={stroke} /> : <g key={index} />);
}

/** Exact up to five digits: on an axis, 1.1k beside 1.4k hides how far apart they are. */
function formatTick(value: number): string {
  if (!Number.isInteger(value) && value < 10) return value.toFixed(value < 1 ? 2 : 1);
  return value < 100_000 ? formatInteger(value) : formatCompact(value);
}

/** Whole minutes of the window, thinned to at most eight. */
function minuteTicks([from, to]: readonly [number, number]): number[] {
  const stepMs = to - from > 8 * 60_000 ? 120_000 : 60_000;
  const ticks: number[] = [];
  for (let tick = Math.ceil(from / stepMs) * stepMs; tick <= to; tick += stepMs) ticks.push(tick);
  return ticks;
}

function ChartTooltip({ active, payload, label, unit, lines }: TooltipContentProps & { readonly unit: string; readonly lines: readonly ChartLine[] }): ReactElement | undefined {
  if (!active || payload.length === 0 || typeof label !== 'number') return undefined;
  const valueOf = new Map(payload.map((item) => [String(item.dataKey), item.value]));
  return (
    <div className={classes.tooltip}>
      <div className={classes.tooltipTime}>{formatClock(label).slice(0, 8)}</div>
      <table>
        <tbody>
          {lines.map((line) => {
            const value = valueOf.get(line.key);
            return (
              typeof value === 'number' && (
                <tr key={line.key}>
                  <th scope="row">{line.name}</th>
                  <td>
                    {unit === '' ? formatCompact(value) : formatMs(value)} {unit}
                  </td>
                </tr>
              )
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

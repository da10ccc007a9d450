/** Per-instance latency over time. Loaded as its own chunk, because recharts is the heaviest thing on the page. */
import { Button, NativeSelect, SegmentedControl } from '@mantine/core';
import { useMemo, type ReactElement } from 'react';
import type { Series, SeriesMetric } from '#shared/operations.ts';
import type { Role } from '#shared/vocabulary.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { LINE_DASHES, ROLE_COLOR } from '../../theme/palette.ts';
import { usePolledQuery } from '../../transport/use-polled-query.ts';
import { formatInteger } from '../../ui/format.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { TimeChart, type ChartLine } from '../../ui/time-chart.tsx';
import { readUrlList, writeUrlList } from '../../url/url-list.ts';
import { useUrlState } from '../../url/use-url-state.ts';
import { LatencyTable } from './latency-table.tsx';
import classes from './overview.module.css';
import { busiest, chartRows, type Percentile } from './series-math.ts';

const METRICS = [
  { value: 'ttftMs', label: 'TTFT' },
  { value: 'prefillMs', label: 'prefill' },
  { value: 'itlMs', label: 'ITL' },
  { value: 'tpotMs', label: 'TPOT' },
  { value: 'e2elMs', label: 'E2EL' },
] as const satisfies readonly { readonly value: SeriesMetric; readonly label: string }[];
const PERCENTILES = ['p50', 'p95', 'p99'] as const satisfies readonly Percentile[];
const MAX_LINES = 8;

/** Metric, percentile and instances to choose; chart and in-flight chart share one crosshair; the table is behind them. */
export function LatencySection({ windowMin }: { readonly windowMin: 5 | 15 }): ReactElement {
  const [url, setUrl] = useUrlState();
  const metric = METRICS.find((one) => one.value === url.metric) ?? METRICS[0];
  const percentile = PERCENTILES.find((one) => one === url.percentile) ?? 'p95';
  const isTable = url.form === 'table';
  const roleText = useEngineSelector((engine) => engine?.instances.map((instance) => `${instance.id} ${instance.role}`).join('\n') ?? '');
  const windowS = windowMin * 60;
  const stepS = windowMin === 5 ? 2 : 5;
  const { value, error } = usePolledQuery('series.query', { metrics: [metric.value, 'inFlight'], windowS, stepS }, stepS * 1000);

  const view = useMemo(() => {
    if (value === undefined) return undefined;
    const candidates = value.series.filter((series) => series.metric === metric.value && series.points.length > 0);
    const chosen = new Set(readUrlList(url.scope));
    const shown = chosen.size === 0 ? busiest(candidates, MAX_LINES) : candidates.filter((series) => chosen.has(series.instance)).slice(0, MAX_LINES);
    const shownIds = new Set<string>(shown.map((series) => series.instance));
    const inFlight = value.series.filter((series) => series.metric === 'inFlight' && shownIds.has(series.instance));
    return {
      candidates,
      shown,
      lines: toLines(candidates, roleText),
      rows: chartRows(shown, value, percentile),
      inFlightRows: chartRows(inFlight, value, percentile),
      samples: shown.reduce((sum, series) => sum + (series.whole?.n ?? 0), 0),
      domain: [value.nowUnixMs - value.windowS * 1000, value.nowUnixMs] as const,
    };
  }, [value, metric.value, percentile, url.scope, roleText]);

  const shownIds = new Set<string>(view?.shown.map((series) => series.instance));
  const toggle = (instance: string): void => {
    const next = new Set(shownIds);
    if (!next.delete(instance)) next.add(instance);
    setUrl({ scope: writeUrlList(next) });
  };

  return (
    <section className={classes.latency} aria-label="Latency">
      <SectionHead title="Latency by instance">
        <div className={classes.controls}>
          <NativeSelect aria-label="Metric" value={metric.value} data={METRICS} onChange={(event) => setUrl({ metric: event.currentTarget.value })} />
          <SegmentedControl aria-label="Percentile" value={percentile} data={[...PERCENTILES]} onChange={(next) => setUrl({ percentile: next })} />
          <Button onClick={() => setUrl({ form: isTable ? '' : 'table' })} aria-pressed={isTable}>
            {isTable ? 'chart' : 'table'}
          </Button>
          <span className={classes.chartNote}>
            {metric.label} {isTable ? '' : `${percentile} `}in ms · last {windowMin} min{isTable ? '' : `, ${stepS} s steps`}
            {view !== undefined && ` · n = ${formatInteger(view.samples)}`}
          </span>
        </div>
      </SectionHead>
      {error !== undefined && <Message tone="error">{error.message}</Message>}
      {view !== undefined && (
        <Legend candidates={view.candidates} lines={view.lines} shownIds={shownIds} onToggle={toggle} isFull={shownIds.size >= MAX_LINES} />
      )}
      {view !== undefined && isTable && <LatencyTable series={view.candidates} label={metric.label} />}
      {view !== undefined && !isTable && view.candidates.length > 0 && (
        <>
          <div className={classes.chart}>
            <TimeChart rows={view.rows} lines={view.lines.filter((line) => shownIds.has(line.key))} domain={view.domain} unit="ms" label={`${metric.label} ${percentile}`} />
          </div>
          <div className={classes.chartCaption}>requests in flight at the same instances</div>
          <div className={classes.chartSmall}>
            <TimeChart rows={view.inFlightRows} lines={view.lines.filter((line) => shownIds.has(line.key))} domain={view.domain} unit="" label="in flight" isSmall />
          </div>
        </>
      )}
    </section>
  );
}

/** One hue per role; instances of a role differ in dash and in lightness. */
function toLines(series: readonly Series[], roleText: string): readonly ChartLine[] {
  const roles = new Map(roleText.split('\n').map((line) => line.split(' ') as [string, Role]));
  const seenOfRole = new Map<Role, number>();
  return series.map((one) => {
    const role = roles.get(one.instance) ?? 'both';
    const order = seenOfRole.get(role) ?? 0;
    seenOfRole.set(role, order + 1);
    const share = 100 - (order % 4) * 18;
    return {
      key: one.instance,
      name: one.instanceName,
      color: `color-mix(in oklab, ${ROLE_COLOR[role]} ${share}%, var(--pd-text))`,
      dash: LINE_DASHES[order % LINE_DASHES.length] ?? '',
    };
  });
}

interface LegendProps {
  readonly candidates: readonly Series[];
  readonly lines: readonly ChartLine[];
  readonly shownIds: ReadonlySet<string>;
  readonly isFull: boolean;
  readonly onToggle: (instance: string) => void;
}

function Legend({ candidates, lines, shownIds, isFull, onToggle }: LegendProps): ReactElement {
  if (candidates.length === 0) return <div className={classes.chartCaption}>no samples in the window</div>;
  return (
    <div className={classes.legend} role="group" aria-label="Instances in the chart">
      {lines.map((line) => {
        const isShown = shownIds.has(line.key);
        return (
          <button
            key={line.key}
            type="button"
            className={classes.legendItem}
            aria-pressed={isShown}
            disabled={!isShown && isFull}
            title={!isShown && isFull ? `At most ${MAX_LINES} lines; hide one first` : undefined}
            onClick={() => onToggle(line.key)}
          >
            <svg width={18} height={8} aria-hidden="true">
              <line x1={0} y1={4} x2={18} y2={4} stroke={isShown ? line.color : 'var(--pd-line-strong)'} strokeWidth={2} strokeDasharray={line.dash} />
            </svg>
            {line.name}
          </button>
        );
      })}
    </div>
  );
}

import { useEffect, useRef, useState, type ReactElement } from 'react';
import type { RequestRow } from '#shared/request.ts';
import { PHASE_COLOR, PHASE_LABEL } from '../../theme/palette.ts';
import { formatCount, formatInteger, formatMs } from '../../ui/format.ts';
import { SectionHead } from '../../ui/section-head.tsx';
import { summarize, type Percentiles, type RowsSummary } from './summary.ts';
import classes from './detail/detail.module.css';

const EVERY_MS = 1000;

/** Stands where the detail will be while nothing is selected: what the listed rows have in common. */
export function RequestsSummary({ rows }: { readonly rows: readonly RequestRow[] }): ReactElement {
  const summary = useSummary(rows);
  return (
    <section className={classes.pane} aria-label="Summary of the listed requests" tabIndex={-1}>
      <SectionHead title={`Listed requests · n = ${formatInteger(summary.requests)}`}>
        <span className={classes.dim}>
          {formatInteger(summary.byState.ok)} ok · {formatInteger(summary.byState.running)} running · {formatInteger(summary.byState.error)} errors ·{' '}
          {formatInteger(summary.byState.aborted)} aborted.{summary.requests > 0 && ' Select one to see it in full.'}
        </span>
      </SectionHead>
      {summary.requests > 0 && (
        <div className={classes.summary} role="group" aria-label="Percentiles and routes" tabIndex={0}>
          <PercentileTable summary={summary} />
          {summary.pairs.length > 0 && <PairTable summary={summary} />}
        </div>
      )}
    </section>
  );
}

/** The summary, renewed once a second: percentiles that flicker cannot be read. */
function useSummary(rows: readonly RequestRow[]): RowsSummary {
  const [summary, setSummary] = useState(() => summarize(rows));
  const latest = useRef(rows);
  useEffect(() => {
    latest.current = rows;
  });
  const isFirst = summary.requests === 0 && rows.length > 0;
  if (isFirst) setSummary(summarize(rows));
  useEffect(() => {
    let shown: readonly RequestRow[] | undefined;
    const timer = setInterval(() => {
      if (latest.current === shown) return;
      shown = latest.current;
      setSummary(summarize(shown));
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return summary;
}

function PercentileTable({ summary }: { readonly summary: RowsSummary }): ReactElement {
  return (
    <table className={classes.smallTable}>
      <caption>Milliseconds over the listed requests</caption>
      <thead>
        <tr><th scope="col">phase</th>{['n', 'p50', 'p95', 'p99'].map((name) => <th key={name} scope="col" className={classes.numeric}>{name}</th>)}</tr>
      </thead>
      <tbody>
        <Line label="TTFT" values={summary.ttft} />
        <Line label="ITL median" values={summary.itl} />
        <Line label="E2EL" values={summary.e2el} />
        {summary.phases.map(({ phase, ms, isExact }) => (
          <Line key={phase} label={`${PHASE_LABEL[phase]}${isExact ? '' : ' (≤)'}`} values={ms} color={PHASE_COLOR[phase]} isHatched={!isExact || phase === 'unattributed'} />
        ))}
      </tbody>
    </table>
  );
}

interface LineProps {
  readonly label: string;
  readonly values: Percentiles | undefined;
  readonly color?: string;
  readonly isHatched?: boolean;
}

function Line({ label, values, color, isHatched = false }: LineProps): ReactElement {
  return (
    <tr>
      <th scope="row">
        {color !== undefined && (
          <span className={isHatched ? `${classes.swatch} ${classes.swatchHatched}` : classes.swatch} style={{ '--swatch': color }} aria-hidden="true" />
        )}
        {label}
      </th>
      <td className={classes.numeric}>{formatInteger(values?.n ?? 0)}</td>
      {([values?.p50, values?.p95, values?.p99] as const).map((value, index) => (
        <td key={['p50', 'p95', 'p99'][index]} className={classes.numeric}>{value === undefined ? '—' : formatMs(value)}</td>
      ))}
    </tr>
  );
}

function PairTable({ summary }: { readonly summary: RowsSummary }): ReactElement {
  return (
    <table className={classes.smallTable}>
      <caption>Routes, most errors first, then the slowest first token</caption>
      <thead>
        <tr><th scope="col">route</th>{['requests', 'errors', 'TTFT p50 ms', 'p95 ms'].map((name) => <th key={name} scope="col" className={classes.numeric}>{name}</th>)}</tr>
      </thead>
      <tbody>
        {summary.pairs.map((pair) => (
          <tr key={pair.route}>
            <th scope="row">{pair.route}</th>
            <td className={classes.numeric}>{formatInteger(pair.requests)}</td>
            <td className={pair.errors === 0 ? classes.numeric : `${classes.numeric} ${classes.failed}`}>{pair.errors === 0 ? '0' : `✕ ${formatInteger(pair.errors)}`}</td>
            <td className={classes.numeric}>{pair.ttft === undefined ? '—' : formatMs(pair.ttft.p50)}</td>
            <td className={classes.numeric}>{pair.ttft === undefined ? '—' : formatMs(pair.ttft.p95)}</td>
          </tr>
        ))}
      </tbody>
      {summary.pairsOmitted > 0 && (
        <tfoot>
          <tr><td colSpan={5} className={classes.dim}>{formatCount(summary.pairsOmitted, 'more route')}, with fewer errors or faster</td></tr>
        </tfoot>
      )}
    </table>
  );
}

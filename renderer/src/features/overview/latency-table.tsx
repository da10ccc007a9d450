import type { ReactElement } from 'react';
import type { Series } from '#shared/operations.ts';
import { ABSENT, formatDuration, formatInteger, formatMs } from '../../ui/format.ts';
import classes from './overview.module.css';

/** The figures behind the chart: each instance's distribution over the whole window, merged from its histograms. */
export function LatencyTable({ series, label }: { readonly series: readonly Series[]; readonly label: string }): ReactElement {
  return (
    <div className={classes.tableScroll}>
      <table className={classes.table} aria-label={`${label} by instance`}>
        <thead>
          <tr>
            <th scope="col">instance</th>
            <th scope="col" className={classes.right}>n</th>
            <th scope="col" className={classes.right}>p50 ms</th>
            <th scope="col" className={classes.right}>p95 ms</th>
            <th scope="col" className={classes.right}>p99 ms</th>
            <th scope="col" className={classes.right}>max ms</th>
            <th scope="col" className={classes.right}>window</th>
          </tr>
        </thead>
        <tbody>
          {series.map(({ instance, instanceName, whole }) => (
            <tr key={instance}>
              <th scope="row">{instanceName}</th>
              <td className={classes.right}>{whole === undefined ? ABSENT : formatInteger(whole.n)}</td>
              <td className={classes.right}>{whole === undefined ? ABSENT : formatMs(whole.p50)}</td>
              <td className={classes.right}>{whole === undefined ? ABSENT : formatMs(whole.p95)}</td>
              <td className={classes.right}>{whole === undefined ? ABSENT : formatMs(whole.p99)}</td>
              <td className={classes.right}>{whole === undefined ? ABSENT : formatMs(whole.max)}</td>
              <td className={classes.right}>{whole === undefined ? ABSENT : formatDuration(whole.windowS * 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

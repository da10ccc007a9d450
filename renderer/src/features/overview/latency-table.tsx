import type { ReactElement } from 'react';
import type { Series } from '#shared/operations.ts';
import { ABSENT, formatDuration, formatInteger, formatMs } from '../../ui/format.ts';
import records from '../../ui/record-table.module.css';
import classes from './overview.module.css';

/** The figures behind the chart: each instance's distribution over the whole window, merged from its histograms. */
export function LatencyTable({ series, label }: { readonly series: readonly Series[]; readonly label: string }): ReactElement {
  return (
    <div className={classes.tableScroll}>
      <table className={records.table} aria-label={`${label} by instance`}>
        <thead>
          <tr>
            <th scope="col">instance</th>
            <th scope="col" className={records.right}>n</th>
            <th scope="col" className={records.right}>p50 ms</th>
            <th scope="col" className={records.right}>p95 ms</th>
            <th scope="col" className={records.right}>p99 ms</th>
            <th scope="col" className={records.right}>max ms</th>
            <th scope="col" className={records.right}>window</th>
          </tr>
        </thead>
        <tbody>
          {series.map(({ instance, instanceName, whole }) => (
            <tr key={instance}>
              <th scope="row">{instanceName}</th>
              <td className={records.right}>{whole === undefined ? ABSENT : formatInteger(whole.n)}</td>
              <td className={records.right}>{whole === undefined ? ABSENT : formatMs(whole.p50)}</td>
              <td className={records.right}>{whole === undefined ? ABSENT : formatMs(whole.p95)}</td>
              <td className={records.right}>{whole === undefined ? ABSENT : formatMs(whole.p99)}</td>
              <td className={records.right}>{whole === undefined ? ABSENT : formatMs(whole.max)}</td>
              <td className={records.right}>{whole === undefined ? ABSENT : formatDuration(whole.windowS * 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

import type { ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import { formatInteger } from '../../ui/format.ts';
import { QuantilePair } from '../../ui/quantile-pair.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import pane from '../../ui/detail-pane.module.css';
import records from '../../ui/record-table.module.css';
import classes from './instances.module.css';

/** One line per data-parallel rank that pdscope addressed; nothing for an instance with one rank. */
export function RankTable({ instance }: { readonly instance: InstanceView }): ReactElement | undefined {
  const { ranks, role } = instance;
  if (ranks === undefined) return undefined;
  const servesPrefill = role === 'prefill' || role === 'both';
  const servesDecode = role === 'decode' || role === 'both';
  return (
    <>
      <SectionHead title="Data-parallel ranks, 5 min">
        <span className={classes.note}>legs that pdscope pinned to a rank</span>
      </SectionHead>
      <div className={pane.block}>
        <div className={classes.statusScroll} role="region" aria-label="Ranks" tabIndex={0}>
          <table className={records.table} aria-label={`Ranks of ${instance.name}`}>
            <thead>
              <tr>
                <th scope="col">rank</th>
                <th scope="col" className={records.right}>in flight</th>
                {servesPrefill && <th scope="col" className={records.right}>prefill p50/p95 ms</th>}
                {servesDecode && <th scope="col" className={records.right}>TTFT p50/p95 ms</th>}
                {servesDecode && <th scope="col" className={records.right}>ITL p50/p95 ms</th>}
                {servesDecode && <th scope="col" className={records.right}>E2EL p50/p95 ms</th>}
              </tr>
            </thead>
            <tbody>
              {ranks.map(({ rank, inFlight, latency }) => (
                <tr key={rank}>
                  <th scope="row">{instance.name}/{rank}</th>
                  <td className={records.right}>{formatInteger(inFlight)}</td>
                  {servesPrefill && <td className={records.right}><QuantilePair quantiles={latency.prefillMs} tail="p95" /></td>}
                  {servesDecode && <td className={records.right}><QuantilePair quantiles={latency.ttftMs} tail="p95" /></td>}
                  {servesDecode && <td className={records.right}><QuantilePair quantiles={latency.itlMs} tail="p95" /></td>}
                  {servesDecode && <td className={records.right}><QuantilePair quantiles={latency.e2elMs} tail="p95" /></td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </>
  );
}

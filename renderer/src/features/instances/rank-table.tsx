import type { ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import { formatInteger } from '../../ui/format.ts';
import { QuantilePair } from '../../ui/quantile-pair.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
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
      <div className={classes.block}>
        <div className={classes.statusScroll} role="region" aria-label="Ranks" tabIndex={0}>
          <table className={classes.table} aria-label={`Ranks of ${instance.name}`}>
            <thead>
              <tr>
                <th scope="col">rank</th>
                <th scope="col" className={classes.right}>in flight</th>
                {servesPrefill && <th scope="col" className={classes.right}>prefill p50/p95 ms</th>}
                {servesDecode && <th scope="col" className={classes.right}>TTFT p50/p95 ms</th>}
                {servesDecode && <th scope="col" className={classes.right}>ITL p50/p95 ms</th>}
                {servesDecode && <th scope="col" className={classes.right}>E2EL p50/p95 ms</th>}
              </tr>
            </thead>
            <tbody>
              {ranks.map(({ rank, inFlight, latency }) => (
                <tr key={rank}>
                  <th scope="row">{instance.name}/{rank}</th>
                  <td className={classes.right}>{formatInteger(inFlight)}</td>
                  {servesPrefill && <td className={classes.right}><QuantilePair quantiles={latency.prefillMs} tail="p95" /></td>}
                  {servesDecode && <td className={classes.right}><QuantilePair quantiles={latency.ttftMs} tail="p95" /></td>}
                  {servesDecode && <td className={classes.right}><QuantilePair quantiles={latency.itlMs} tail="p95" /></td>}
                  {servesDecode && <td className={classes.right}><QuantilePair quantiles={latency.e2elMs} tail="p95" /></td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </>
  );
}

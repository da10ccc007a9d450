import type { ReactElement } from 'react';
import type { EvictionStorm } from '#shared/cache.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { trustOfStreams } from '../../blocks/trust.ts';
import { useEngineSelector } from '../../stores/engine-context.tsx';
import { formatInteger } from '../../ui/format.ts';
import table from '../../ui/plain-table.module.css';
import { InstanceName } from '../../ui/role-mark.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { stormedInstances, stormNextSteps } from './storm-summary.ts';
import classes from './cache.module.css';

/** What the storms cost each instance, and what helps. */
export function StormInstances({ storms, withinS }: { readonly storms: readonly EvictionStorm[]; readonly withinS: number }): ReactElement {
  const instances = useEngineSelector((engine) => engine?.instances) ?? [];
  const streams = useEngineSelector((engine) => engine?.streams) ?? [];
  const rows = stormedInstances(storms, instances, withinS);
  return (
    <section className={classes.block} aria-label="By instance">
      <SectionHead title={`By instance · ${rows.length}`} />
      <div className={classes.tableBox}>
        <table className={table.table} data-wide>
          <thead>
            <tr>
              <th scope="col">instance</th><th scope="col" data-align="end">storms</th><th scope="col" data-align="end">blocks</th>
              <th scope="col" data-align="end" title="Of these blocks: computed or fetched a second time">tokens</th><th scope="col">confidence</th><th scope="col">evidence</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.instance}>
                <th scope="row">{row.role === undefined ? row.name : <InstanceName role={row.role} name={row.name} />}</th>
                <td data-align="end">{formatInteger(row.storms)}</td>
                <td data-align="end" className={classes.warning}>▲ {formatInteger(row.blocks)}</td>
                <td data-align="end">{formatInteger(row.tokens)}</td>
                <td><TrustMark trust={trustOfStreams(streams.filter(({ instance }) => instance === row.instance))} /></td>
                <td className={classes.dim} data-wrap>{row.evidence}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <ul className={classes.nextSteps} aria-label="Next steps">
        {stormNextSteps(rows, instances).map(({ names, text }) => <li key={names}><b>{names}</b>: {text}</li>)}
      </ul>
    </section>
  );
}

import type { ReactElement } from 'react';
import type { HitDisagreement } from '#shared/cache.ts';
import { useEngineState } from '../../stores/engine-context.tsx';
import { formatCompact, formatPercent } from '../../ui/format.ts';
import table from '../../ui/plain-table.module.css';
import { SectionHead } from '../../ui/section-head.tsx';
import { SOURCE_LOOK } from './hit-sources.ts';
import { InstanceOrFleet } from './instance-or-fleet.tsx';
import classes from './cache.module.css';

/** Sources that should agree and do not, with what that usually means. */
export function DisagreementTable({ disagreements }: { readonly disagreements: readonly HitDisagreement[] }): ReactElement {
  const roles = new Map(useEngineState()?.instances.map(({ id, role }) => [String(id), role]));
  const widestFirst = [...disagreements].sort((a, b) => Math.abs(b.leftRate - b.rightRate) - Math.abs(a.leftRate - a.rightRate));
  return (
    <section className={classes.block} aria-label="Disagreements">
      <SectionHead title={`Disagreements · ${disagreements.length}`} />
      {disagreements.length === 0 ? (
        <p className={classes.quiet}>Sources that can be compared agree.</p>
      ) : (
        <div className={classes.tableBox}>
          <table className={table.table} data-wide>
            <thead>
              <tr>
                <th scope="col">instance</th><th scope="col">one source</th><th scope="col" data-align="end">says</th><th scope="col">another</th><th scope="col" data-align="end">says</th>
                <th scope="col" data-align="end" title="Percentage points between the two, or how many times more prompt tokens one speaks of">apart</th><th scope="col">what that usually means</th>
              </tr>
            </thead>
            <tbody>
              {widestFirst.map(({ instance, instanceName, left, right, leftRate, rightRate, promptTokens, meaning }) => (
                <tr key={`${instance}${left}${right}`}>
                  <th scope="row"><InstanceOrFleet role={roles.get(instance)} name={instanceName} /></th>
                  <td title={SOURCE_LOOK[left].meaning}>{SOURCE_LOOK[left].label}</td>
                  <td data-align="end">{promptTokens === undefined ? `${formatPercent(leftRate)} %` : `of ${formatCompact(promptTokens.left)} tokens`}</td>
                  <td title={SOURCE_LOOK[right].meaning}>{SOURCE_LOOK[right].label}</td>
                  <td data-align="end">{promptTokens === undefined ? `${formatPercent(rightRate)} %` : `of ${formatCompact(promptTokens.right)} tokens`}</td>
                  <td data-align="end" className={classes.warning}>▲ {promptTokens === undefined ? `${formatPercent(Math.abs(leftRate - rightRate))} pt` : `${(promptTokens.right / promptTokens.left).toFixed(1)}×`}</td>
                  <td data-wrap>{meaning}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

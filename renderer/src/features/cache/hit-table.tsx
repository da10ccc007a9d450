import type { ReactElement } from 'react';
import { HIT_SOURCES } from '#shared/cache.ts';
import { ROLES } from '#shared/vocabulary.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { useEngineState } from '../../stores/engine-context.tsx';
import { ABSENT, formatCompact, formatInteger, formatPercent } from '../../ui/format.ts';
import table from '../../ui/plain-table.module.css';
import { sampleWords, type HitTableRow } from './hit-rows.ts';
import { SOURCE_LOOK } from './hit-sources.ts';
import { InstanceOrFleet } from './instance-or-fleet.tsx';
import classes from './cache.module.css';

/** Every instance by every source, over the window: the table behind the chart. */
export function HitTable({ rows: unordered }: { readonly rows: readonly HitTableRow[] }): ReactElement {
  const roles = new Map(useEngineState()?.instances.map(({ id, role }) => [String(id), role]));
  // Prefill before decode, as everywhere; the fleet and instances that left come as they are.
  const place = ({ scope }: HitTableRow): number => (scope === '' ? -1 : ROLES.indexOf(roles.get(scope) ?? 'both'));
  const rows = unordered.toSorted((a, b) => place(a) - place(b));
  const toTrust = useTrustOf();
  const hasConfidence = rows.some(({ cells }) => cells.index?.confidence !== undefined);
  return (
    <div className={classes.tableBox}>
      <table className={table.table}>
        <thead>
          <tr>
            <th scope="col">instance</th>
            {HIT_SOURCES.map((source) => <th key={source} scope="col" data-align="end" title={SOURCE_LOOK[source].meaning}>{SOURCE_LOOK[source].label}</th>)}
            {hasConfidence && <th scope="col" title="How far the index can be trusted: as far as the streams it rests on">confidence</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.scope}>
              <th scope="row"><InstanceOrFleet role={roles.get(row.scope)} name={row.name} /></th>
              {HIT_SOURCES.map((source) => {
                const cell = row.cells[source];
                return (
                  <td key={source} data-align="end" title={cell === undefined ? 'This source said nothing here' : `${formatInteger(cell.hitTokens)} of ${formatInteger(cell.queryTokens)} tokens${cell.sample === undefined ? '' : `, in ${sampleWords(cell.sample)}`}`}>
                    {cell?.rate === undefined ? <span className={classes.faint}>{ABSENT}</span> : (
                      <>
                        {formatPercent(cell.rate)} % <span className={classes.ofTokens}>of {formatCompact(cell.queryTokens)}</span>
                      </>
                    )}
                  </td>
                );
              })}
              {hasConfidence && <td>{row.cells.index?.confidence === undefined ? <span className={classes.faint}>{ABSENT}</span> : <TrustMark trust={toTrust(row.cells.index.confidence)} />}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

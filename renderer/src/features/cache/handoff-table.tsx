import type { ReactElement } from 'react';
import type { CacheDifference } from '#shared/cache.ts';
import { TrustMark } from '../../blocks/trust-mark.tsx';
import { useTrustOf } from '../../blocks/use-trust.ts';
import { ABSENT, formatBytes, formatInteger } from '../../ui/format.ts';
import table from '../../ui/plain-table.module.css';
import { SectionHead } from '../../ui/section-head.tsx';
import { handoffRows, shareText } from './handoff-rows.ts';
import classes from './cache.module.css';

/** What went over the network to the right side in the window, and what of it was there already. */
export function HandoffTable({ difference, side, windowMin }: { readonly difference: CacheDifference; readonly side: string; readonly windowMin: number }): ReactElement {
  const toTrust = useTrustOf();
  return (
    <section className={classes.block} aria-label="Handoff">
      <SectionHead title={`Handoff, last ${windowMin} min`} />
      <div className={classes.tableBox}>
        <table className={table.table} data-wide>
          <thead>
            <tr>
              <th scope="col">tokens</th><th scope="col" data-align="end">count</th><th scope="col" data-align="end">size</th><th scope="col" data-align="end">share</th>
              <th scope="col" title="Of the KV events that the figure rests on; none: it is an engine’s own counter">confidence</th><th scope="col">rests on</th>
            </tr>
          </thead>
          <tbody>
            {handoffRows(difference, side).map((row) => (
              <tr key={row.id} data-row={row.id}>
                <th scope="row" className={row.isNotable ? classes.warning : undefined}>{row.isNotable && '▲ '}{row.what}</th>
                <td data-align="end"><Figure text={row.tokens === undefined ? undefined : formatInteger(row.tokens)} /></td>
                <td data-align="end"><Figure text={row.bytes === undefined ? undefined : formatBytes(row.bytes)} /></td>
                <td data-align="end"><Figure text={shareText(row.share)} /></td>
                <td>{row.confidence === undefined ? <span className={classes.faint} title="Not from KV events">{ABSENT}</span> : <TrustMark trust={toTrust(row.confidence)} />}</td>
                <td className={classes.dim} data-wrap>{row.basis}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Figure({ text }: { readonly text: string | undefined }): ReactElement {
  return text === undefined ? <span className={classes.faint}>{ABSENT}</span> : <>{text}</>;
}

import type { ReactElement } from 'react';
import type { CacheDifference } from '#shared/cache.ts';
import { ABSENT, formatBytes, formatInteger, formatPercent } from '../../ui/format.ts';
import table from '../../ui/plain-table.module.css';
import { sizeBasis, type DifferenceRow } from './difference-parts.ts';
import classes from './cache.module.css';

const UNSIZED = 'Not known how many bytes a token takes: give the instances kv-bytes-per-token, start the engines in development mode (/server_info), or let NIXL move some blocks';

/** The parts in figures: content once, and as often as it is held. */
export function DifferenceTable({ rows, difference, sides }: { readonly rows: readonly DifferenceRow[]; readonly difference: CacheDifference; readonly sides: readonly [string, string] }): ReactElement {
  return (
    <>
      <div className={classes.tableBox}>
        <table className={table.table}>
          <thead>
            <tr>
              <th scope="col">held by</th><th scope="col" data-align="end" title="Different contents">blocks</th><th scope="col" data-align="end">tokens</th><th scope="col" data-align="end">share</th>
              <th scope="col" data-align="end" title="One copy of everything">size</th><th scope="col" data-align="end" title="On all instances compared, in all media, second copies within one cache included">copies</th>
              <th scope="col" data-align="end" title="All copies">memory</th><th scope="col" data-align="end" title="Memory beyond one copy">duplicated</th><th scope="col">meaning</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ id, name, part, share, meaning, duplicatedBytes }) => (
              <tr key={id}>
                <th scope="row"><span className={classes.partSwatch} data-part={id} aria-hidden="true" />{name}</th>
                <td data-align="end">{formatInteger(part.blocks)}</td>
                <td data-align="end">{formatInteger(part.tokens)}</td>
                <td data-align="end">{formatPercent(share)} %</td>
                <td data-align="end"><Size bytes={part.bytes} /></td>
                <td data-align="end">{formatInteger(part.copies)}</td>
                <td data-align="end"><Size bytes={part.copyBytes} /></td>
                <td data-align="end"><Size bytes={duplicatedBytes} /></td>
                <td className={classes.dim} data-wrap>{meaning}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className={classes.quiet}>{sizeBasis(difference, sides)}</p>
    </>
  );
}

function Size({ bytes }: { readonly bytes: number | undefined }): ReactElement {
  return bytes === undefined ? <span className={classes.faint} title={UNSIZED}>{ABSENT}</span> : <>{formatBytes(bytes)}</>;
}

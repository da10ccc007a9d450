import type { ReactElement } from 'react';
import type { StatusCell, StatusTable } from '#shared/protocol.ts';
import { ABSENT, formatAgo, formatDateTime, formatDuration, formatInteger } from '../../ui/format.ts';
import { ViewLink } from '../../ui/view-link.tsx';
import records from '../../ui/record-table.module.css';
import classes from './instances.module.css';

const decimals = new Intl.NumberFormat('en-US', { maximumFractionDigits: 2 });

/** What a connector keeps, as the engine tells it: any columns, cells by their type, honest totals. */
export function StatusTableView({ table, nowUnixMs }: { readonly table: StatusTable; readonly nowUnixMs: number }): ReactElement {
  const cut = table.total - table.rows.length;
  return (
    <section className={classes.statusTable} aria-label={table.title}>
      <h3 className={classes.statusTitle}>
        {table.title} <span className={classes.note} data-testid="status-totals">{totals(table)}</span>
      </h3>
      <p className={classes.statusSummary}>{table.summary}</p>
      {table.rows.length === 0 ? (
        <p className={classes.note}>{table.total === 0 ? 'Empty.' : 'No row was sent.'}</p>
      ) : (
        <div className={classes.statusScroll} role="region" aria-label={`Rows of ${table.title}`} tabIndex={0}>
          <table className={records.table}>
            <thead>
              <tr>
                {table.columns.map((column, index) => (
                  <th key={column.title} scope="col" className={isNumeric(table, index) ? records.right : undefined}>
                    {column.title}
                    {column.unit !== undefined && <span className={classes.unit}> {column.unit}</span>}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {table.rows.map((row, rowIndex) => (
                // Rows have no identity in the contract; the table is renewed whole.
                // oxlint-disable-next-line react/no-array-index-key
                <tr key={rowIndex}>
                  {row.map((cell, index) => (
                    // oxlint-disable-next-line react/no-array-index-key -- a cell is its column's
                    <td key={index} className={isNumeric(table, index) ? records.right : undefined}>
                      <Cell cell={cell} nowUnixMs={nowUnixMs} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {cut > 0 && table.rows.length > 0 && <p className={classes.note}>The latest {formatInteger(table.rows.length)} are shown; {formatInteger(cut)} more are kept.</p>}
    </section>
  );
}

/** One value of a status: instances are links, times are relative to the engine's clock, unknown is a dash. */
export function Cell({ cell, nowUnixMs }: { readonly cell: StatusCell; readonly nowUnixMs: number }): ReactElement {
  if (cell === null) return <span className={classes.note} title="not known">{ABSENT}</span>;
  if (typeof cell === 'boolean') return <>{cell ? 'yes' : 'no'}</>;
  if (typeof cell === 'number') return <>{decimals.format(cell)}</>;
  if (typeof cell === 'string') return <span className={classes.statusText} title={cell}>{cell}</span>;
  if ('instance' in cell) return <ViewLink to={{ view: 'instances', selection: cell.instance }}>{cell.name}</ViewLink>;
  return <span title={formatDateTime(cell.atUnixMs)}>{relativeTime(cell.atUnixMs, nowUnixMs)}</span>;
}

/** `12 s ago`, or `in 7 m` for what is still to come. */
function relativeTime(atUnixMs: number, nowUnixMs: number): string {
  return atUnixMs > nowUnixMs ? `in ${formatDuration(atUnixMs - nowUnixMs)}` : formatAgo(nowUnixMs - atUnixMs);
}

/** Numbers are set flush right; a column is one when every known cell of it is. */
function isNumeric(table: StatusTable, index: number): boolean {
  const known = table.rows.flatMap((row) => (row[index] === undefined || row[index] === null ? [] : [row[index]]));
  return known.length > 0 && known.every((cell) => typeof cell === 'number');
}

/** `12 of 10,000 · evicted 0 · expired 3` */
function totals({ total, capacity, evicted, expired }: StatusTable): string {
  return [
    `${formatInteger(total)}${capacity === undefined ? '' : ` of at most ${formatInteger(capacity)}`}`,
    evicted === undefined ? undefined : `evicted ${formatInteger(evicted)}`,
    expired === undefined ? undefined : `expired ${formatInteger(expired)}`,
  ].filter((part) => part !== undefined).join(' · ');
}

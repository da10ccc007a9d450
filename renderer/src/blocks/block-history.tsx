import type { ReactElement } from 'react';
import type { BlockDetail, BlockInterval } from '#shared/cache.ts';
import { formatClock, formatCount, formatDateTime, formatDuration, formatInteger } from '../ui/format.ts';
import table from '../ui/plain-table.module.css';
import type { BlockRef } from './block-ref.ts';
import { LinkButton } from '../ui/link-button.tsx';
import classes from './blocks.module.css';

/** How a block went, as people say it. */
const HOW: Readonly<Record<NonNullable<BlockInterval['how']>, string>> = {
  removed: 'evicted', cleared: 'cache reset', restart: 'engine restarted', detached: 'instance left',
};

/** Every stay of the block in a stream, newest first. */
export function BlockHistory({ detail, onOpen }: { readonly detail: BlockDetail; readonly onOpen: (block: BlockRef) => void }): ReactElement {
  const newestFirst = [...detail.history].sort((a, b) => b.storedAtUnixMs - a.storedAtUnixMs);
  return (
    <section className={classes.history} aria-label="History of the block">
      <h3 className={classes.subTitle}>History</h3>
      {newestFirst.length === 0 ? (
        <p className={classes.dim}>No store of it was seen.</p>
      ) : (
        <table className={table.table}>
          <thead>
            <tr>
              <th scope="col">on</th><th scope="col">medium</th><th scope="col" data-align="end" title="Life of the engine">epoch</th><th scope="col">stored</th>
              <th scope="col">gone</th><th scope="col" data-align="end">lived</th><th scope="col" data-align="end" title="Stores and announcements in that stay">stores</th>
              <th scope="col" title="The first block stored in that stream at or after the removal">displaced by</th>
            </tr>
          </thead>
          <tbody>
            {newestFirst.map((stay) => <Stay key={`${stay.stream}${stay.medium}${stay.storedAtUnixMs}`} stay={stay} onOpen={onOpen} />)}
          </tbody>
        </table>
      )}
      {detail.historyOmitted > 0 && <p className={classes.dim}>{formatCount(detail.historyOmitted, 'earlier stay')} no longer kept.</p>}
    </section>
  );
}

function Stay({ stay, onOpen }: { readonly stay: BlockInterval; readonly onOpen: (block: BlockRef) => void }): ReactElement {
  const { stream, instanceName, medium, epoch, storedAtUnixMs, removedAtUnixMs, how, stores, displacedBy } = stay;
  return (
    <tr>
      <th scope="row">{instanceName}/{stream.slice(stream.lastIndexOf('/') + 1)}</th>
      <td>{medium}</td>
      <td data-align="end">{epoch}</td>
      <td className={classes.mono} title={formatDateTime(storedAtUnixMs)}>{formatClock(storedAtUnixMs)}</td>
      <td className={classes.mono} title={removedAtUnixMs === undefined ? undefined : formatDateTime(removedAtUnixMs)}>
        {removedAtUnixMs === undefined ? <span className={classes.plainFace}>still there</span> : <>{formatClock(removedAtUnixMs)} <span className={classes.plainFace}>{how === undefined ? '' : HOW[how]}</span></>}
      </td>
      <td data-align="end">{removedAtUnixMs === undefined ? '—' : formatDuration(Math.max(0, removedAtUnixMs - storedAtUnixMs))}</td>
      <td data-align="end">{formatInteger(stores)}</td>
      <td>
        {displacedBy === undefined ? <span className={classes.dim}>—</span> : (
          <LinkButton onClick={() => onOpen({ node: displacedBy })}>block #{displacedBy}</LinkButton>
        )}
      </td>
    </tr>
  );
}

import { NativeSelect } from '@mantine/core';
import { useState, type ReactElement } from 'react';
import type { KvRow } from '#shared/kv.ts';
import { BlockPanel } from '../../blocks/block-panel.tsx';
import { formatBlockRef, type BlockRef } from '../../blocks/block-ref.ts';
import { ViewLink } from '../../ui/view-link.tsx';
import { formatCount } from '../../ui/format.ts';
import classes from './kv-events.module.css';

/** The blocks of an event, one at a time; neighbours open in place. Mount it anew for another event. */
export function BlockTab({ row }: { readonly row: KvRow }): ReactElement {
  const [hash, setHash] = useState(row.hashes[0] ?? '');
  const [neighbour, setNeighbour] = useState<BlockRef>();
  if (hash === '') return <p className={classes.missing}>This event names no block.</p>;
  const block = neighbour ?? { stream: row.stream, hash };
  return (
    <>
      <div className={classes.blockBar}>
        <NativeSelect
          aria-label="Block of the event"
          value={neighbour === undefined ? hash : ''}
          onChange={(event) => {
            setNeighbour(undefined);
            if (event.currentTarget.value !== '') setHash(event.currentTarget.value);
          }}
          data={[...row.hashes.map((one, index) => ({ value: one, label: `${index + 1}: ${one}` })), ...(neighbour === undefined ? [] : [{ value: '', label: 'a neighbour' }])]}
          classNames={{ input: classes.mono ?? '' }}
        />
        <span className={classes.dim}>
          of {formatCount(row.hashCount, 'block')} in this event{row.hashCount > row.hashes.length && `, ${row.hashCount - row.hashes.length} of them not kept`}
        </span>
        <ViewLink to={{ view: 'cache', tab: 'tree', selection: formatBlockRef(block) }} title="The same block beside the prefix tree">in the prefix tree</ViewLink>
      </div>
      <BlockPanel key={formatBlockRef(block)} block={block} onOpen={setNeighbour} />
    </>
  );
}

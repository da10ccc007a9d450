import { NativeSelect } from '@mantine/core';
import type { ReactElement } from 'react';
import type { KvRow } from '#shared/kv.ts';
import { BlockLink } from '../../blocks/block-link.tsx';
import { BlockPanel } from '../../blocks/block-panel.tsx';
import { formatBlockRef, parseBlockRef } from '../../blocks/block-ref.ts';
import { formatCount } from '../../ui/format.ts';
import classes from './kv-events.module.css';

export interface BlockTabProps {
  readonly row: KvRow;
  /** A hash of the event, or a reference to a neighbour's block; the event's first block for anything else. */
  readonly pick: string;
  readonly onPick: (pick: string) => void;
}

/** The blocks of an event, one at a time; neighbours open in place. */
export function BlockTab({ row, pick, onPick }: BlockTabProps): ReactElement {
  const own = row.hashes.find((one) => one === pick);
  const neighbour = own === undefined ? parseBlockRef(pick) : undefined;
  const hash = own ?? row.hashes[0];
  if (hash === undefined) return <p className={classes.missing}>This event names no block.</p>;
  const block = neighbour ?? { stream: row.stream, hash };
  return (
    <>
      <div className={classes.blockBar}>
        <NativeSelect
          aria-label="Block of the event"
          value={neighbour === undefined ? hash : ''}
          onChange={(event) => onPick(event.currentTarget.value)}
          data={[...row.hashes.map((one, index) => ({ value: one, label: `${index + 1}: ${one}` })), ...(neighbour === undefined ? [] : [{ value: '', label: 'a neighbour' }])]}
          classNames={{ input: classes.mono ?? '' }}
        />
        <span className={classes.dim}>
          of {formatCount(row.hashCount, 'block')} in this event{row.hashCount > row.hashes.length && `, ${row.hashCount - row.hashes.length} of them not kept`}
        </span>
        <BlockLink block={block} title="The same block beside the prefix tree">in the prefix tree</BlockLink>
      </div>
      <BlockPanel key={formatBlockRef(block)} block={block} onOpen={(ref) => onPick(formatBlockRef(ref))} />
    </>
  );
}

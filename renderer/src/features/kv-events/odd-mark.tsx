import { Tooltip } from '@mantine/core';
import type { ReactElement } from 'react';
import type { KvStreamView } from '#shared/kv.ts';
import { oddInput, oddWords } from '../../fleet/odd-input.ts';
import classes from './kv-events.module.css';

/** Input that was not as it should be, as a figure; hover or focus names each kind. */
export function OddMark({ stream }: { readonly stream: KvStreamView }): ReactElement {
  const found = oddInput(stream);
  const words = oddWords(found);
  if (found.length === 0) return <span className={classes.dim}>{words}</span>;
  return (
    <Tooltip
      events={{ hover: true, focus: true, touch: true }}
      withinPortal={false}
      floatingStrategy="fixed"
      className={classes.odd ?? ''}
      label={<ul className={classes.oddList}>{found.map((one) => <li key={one.words}>{one.words}</li>)}</ul>}
    >
      <button type="button" className={classes.oddMark} data-bad={found.some(({ isBad }) => isBad)} aria-label={`${words}: ${found.map((one) => one.words).join('; ')}`}>
        {words}
      </button>
    </Tooltip>
  );
}

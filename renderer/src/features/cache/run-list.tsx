import type { ReactElement } from 'react';
import type { TreeNode } from '#shared/cache.ts';
import type { BlockRef } from '../../blocks/block-ref.ts';
import { HolderList } from '../../blocks/holder-list.tsx';
import { TokenText } from '../../blocks/token-text.tsx';
import { formatCompact, formatCount } from '../../ui/format.ts';
import classes from './cache.module.css';

export interface RunListProps {
  readonly title: string;
  readonly nodes: readonly TreeNode[];
  readonly empty: string;
  readonly onOpen: (ref: BlockRef) => void;
}

/** Runs as buttons, largest first as the engine gives them. */
export function RunList({ title, nodes, empty, onOpen }: RunListProps): ReactElement {
  return (
    <section className={classes.runList} aria-label={title}>
      <h3 className={classes.subTitle}>{title}</h3>
      {nodes.length === 0 && <p className={classes.quietInline}>{empty}</p>}
      <ul>
        {nodes.map((node) => (
          <li key={node.node}>
            <button type="button" className={classes.run} onClick={() => onOpen({ node: node.node })}>
              <TokenText of={node} most={72} />
              <span className={classes.runRest}>
                <span className={classes.dim}>{formatCount(node.runBlocks, 'block')} · reused {formatCompact(node.reuse)}×</span>
                <HolderList holders={node.holders} most={4} />
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

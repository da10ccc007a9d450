import type { ReactElement } from 'react';
import type { TreeNode } from '#shared/cache.ts';
import { formatCompact, formatCount } from '../ui/format.ts';
import type { BlockRef } from './block-ref.ts';
import { HolderList } from './holder-list.tsx';
import { TokenText } from './token-text.tsx';
import classes from './blocks.module.css';

/** Runs listed; the rest is counted. */
const MOST = 12;

export interface NeighboursProps {
  readonly title: string;
  readonly nodes: readonly TreeNode[];
  readonly empty: string;
  readonly onOpen: (block: BlockRef) => void;
}

/** Runs of blocks before or after one, each a button to open it. */
export function Neighbours({ title, nodes, empty, onOpen }: NeighboursProps): ReactElement {
  return (
    <section className={classes.neighbours} aria-label={title}>
      <h3 className={classes.subTitle}>{title}</h3>
      {nodes.length === 0 && <p className={classes.dim}>{empty}</p>}
      <ul className={classes.runs}>
        {nodes.slice(0, MOST).map((node) => (
          <li key={node.node}>
            <button type="button" className={classes.run} onClick={() => onOpen({ node: node.node })}>
              <TokenText of={node} most={44} />
              <span className={classes.dim}>{formatCount(node.runBlocks, 'block')} · reused {formatCompact(node.reuse)}×</span>
              <HolderList holders={node.holders} most={4} />
            </button>
          </li>
        ))}
        {nodes.length > MOST && <li className={classes.dim}>… {formatCount(nodes.length - MOST, 'run')} more</li>}
      </ul>
    </section>
  );
}

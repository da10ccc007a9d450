import type { ReactElement } from 'react';
import type { TreeNode } from '#shared/cache.ts';
import { formatCompact, formatCount } from '../ui/format.ts';
import type { BlockRef } from './block-ref.ts';
import { HolderList } from './holder-list.tsx';
import { TokenText } from './token-text.tsx';
import classes from './blocks.module.css';

export interface RunListProps {
  readonly title: string;
  /** In the engine's order. */
  readonly nodes: readonly TreeNode[];
  /** Said when there is none. */
  readonly empty: string;
  readonly onOpen: (block: BlockRef) => void;
  /** Runs listed; the rest is counted. Default: all. */
  readonly most?: number;
}

/** Characters of a run's text: what fits beside two other lists at 1920 px. */
const MOST_CHARS = 72;

/** Runs of blocks, each a button to open it. */
export function RunList({ title, nodes, empty, onOpen, most = nodes.length }: RunListProps): ReactElement {
  return (
    <section className={classes.runList} aria-label={title}>
      <h3 className={classes.subTitle}>{title}</h3>
      {nodes.length === 0 && <p className={classes.dim}>{empty}</p>}
      <ul className={classes.runs}>
        {nodes.slice(0, most).map((node) => (
          <li key={node.node}>
            <button type="button" className={classes.run} onClick={() => onOpen({ node: node.node })}>
              <TokenText of={node} most={MOST_CHARS} />
              <span className={classes.runRest}>
                <span className={classes.dim}>{formatCount(node.runBlocks, 'block')} · reused {formatCompact(node.reuse)}×</span>
                <HolderList holders={node.holders} most={4} />
              </span>
            </button>
          </li>
        ))}
        {nodes.length > most && <li className={classes.dim}>… {formatCount(nodes.length - most, 'run')} more</li>}
      </ul>
    </section>
  );
}

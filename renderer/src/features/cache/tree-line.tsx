import type { ReactElement } from 'react';
import type { TreeNode } from '#shared/cache.ts';
import { HolderList } from '../../blocks/holder-list.tsx';
import { TokenText } from '../../blocks/token-text.tsx';
import { formatAgo, formatCompact, formatCount, formatDateTime, formatInteger } from '../../ui/format.ts';
import { wholeOf } from './tree-lines.ts';
import classes from './tree.module.css';

export interface TreeRunProps {
  readonly node: TreeNode;
  readonly nowUnixMs: number;
  /** Blocks of the widest bar. */
  readonly widest: number;
  /** 1-based; indents. */
  readonly level: number;
  /** `none`: it has no children. */
  readonly disclosure: 'open' | 'closed' | 'none';
  readonly onToggle?: () => void;
}

/** One run of blocks: its first words, its size and reuse, its holders. The cells of a line of tree or search. */
export function TreeRun({ node, nowUnixMs, widest, level, disclosure, onToggle }: TreeRunProps): ReactElement {
  const whole = wholeOf(node);
  return (
    <>
      <span className={classes.treeText} style={{ paddingLeft: (level - 1) * 16 }}>
        {/* The arrow is for the pointer; the line itself takes the keys. */}
        <span
          className={classes.disclosure}
          aria-hidden="true"
          onClick={(event) => {
            if (disclosure === 'none') return;
            event.stopPropagation();
            onToggle?.();
          }}
        >
          {disclosure === 'none' ? '·' : disclosure === 'open' ? '▾' : '▸'}
        </span>
        <TokenText of={node} most={140} />
        {node.extraKeys !== undefined && <span className={classes.tag} title={`Extra keys: ${node.extraKeys}`}>keys</span>}
      </span>
      <span className={classes.treeBar} title={`${formatInteger(node.runBlocks)} in this run, ${formatInteger(node.blocksBelow)} below it; ${node.blockSize} tokens each`}>
        <span className={classes.treeBarFill} style={{ width: `${Math.max(1, (whole / widest) * 100)}%` }} aria-hidden="true">
          <span className={classes.treeBarRun} style={{ width: `${whole === 0 ? 0 : (node.runBlocks / whole) * 100}%` }} />
        </span>
      </span>
      <span className={classes.treeNumber}>{formatCompact(node.runBlocks)}<span className={classes.dim}> / {formatCompact(whole)}</span></span>
      <span className={classes.treeNumber} title="Stores and announcements beyond the first">{formatCompact(node.reuse)}×</span>
      <span className={classes.treeNumber} data-dim title={`Last stored ${formatDateTime(node.lastStoredAtUnixMs)}`}>{formatAgo(nowUnixMs - node.lastStoredAtUnixMs)}</span>
      <span className={classes.treeNumber} data-dim title={node.children === 0 ? 'Nothing stored after it' : formatCount(node.children, 'branch', 'branches')}>{node.children === 0 ? 'leaf' : formatCompact(node.children)}</span>
      <span className={classes.treeHolders}><HolderList holders={node.holders} most={4} /></span>
    </>
  );
}

/** Names of the cells. */
export function TreeHead(): ReactElement {
  return (
    <div className={classes.treeHead} aria-hidden="true">
      <span>first tokens of the run</span>
      <span>size</span>
      <span data-align="end" title="Blocks of the run / with all below it">blocks / whole</span>
      <span data-align="end">reused</span>
      <span data-align="end">last stored</span>
      <span data-align="end" title="Ways in which it goes on">branches</span>
      <span>held by</span>
    </div>
  );
}

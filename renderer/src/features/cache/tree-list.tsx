import { useVirtualizer } from '@tanstack/react-virtual';
import { useId, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import { TreeRun } from './tree-line.tsx';
import { treeStep, type TreeLine } from './tree-lines.ts';
import classes from './tree.module.css';

const LINE_PX = 28;

export interface TreeListProps {
  readonly label: string;
  readonly lines: readonly TreeLine[];
  readonly widest: number;
  readonly nowUnixMs: number;
  /** Node of the picked block. */
  readonly picked: number | undefined;
  /** Lines without a hierarchy: nothing opens. Default false. */
  readonly isFlat?: boolean;
  readonly onShow: (node: number) => void;
  readonly onToggle: (node: number, isOpen: boolean) => void;
}

/** The tree, virtual: arrows move, right and left open and close, Enter shows the block. */
export function TreeList({ label, lines, widest, nowUnixMs, picked, isFlat = false, onShow, onToggle }: TreeListProps): ReactElement {
  const idPrefix = useId();
  const scroller = useRef<HTMLDivElement>(null);
  const [activeKey, setActiveKey] = useState('');
  const found = lines.findIndex((line) => line.key === activeKey);
  const active = found === -1 ? lines.findIndex((line) => line.kind === 'node') : found;
  // oxlint-disable-next-line react/incompatible-library -- the compiler is not in use; nothing memoises what this returns
  const virtualizer = useVirtualizer({ count: lines.length, getScrollElement: () => scroller.current, estimateSize: () => LINE_PX, overscan: 12, useFlushSync: false });

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = treeStep(lines, active, event.key);
    if (step === undefined) return;
    event.preventDefault();
    if (step.do === 'move') {
      setActiveKey(lines[step.to]?.key ?? '');
      virtualizer.scrollToIndex(step.to);
    } else if (step.do === 'show') onShow(step.node);
    else onToggle(step.node, step.do === 'open');
  };
  const items = virtualizer.getVirtualItems();
  const isActiveOnScreen = items.some(({ index }) => index === active);
  return (
    <div
      ref={scroller}
      className={classes.treeScroll}
      role="tree"
      tabIndex={0}
      aria-label={label}
      {...(isActiveOnScreen && { 'aria-activedescendant': `${idPrefix}${active}` })}
      onKeyDown={onKeyDown}
    >
      <div role="presentation" className={classes.treeBody} style={{ height: virtualizer.getTotalSize() }}>
        {items.map(({ index, start }) => {
          const line = lines[index];
          if (line === undefined) return undefined;
          const place = { transform: `translateY(${start}px)` };
          if (line.kind === 'note') {
            return (
              <div key={line.key} role="treeitem" aria-level={line.level} aria-selected={false} className={classes.treeNote} style={{ ...place, paddingLeft: (line.level - 1) * 16 + 34 }}>
                {line.text}
              </div>
            );
          }
          const { node } = line;
          return (
            <div
              key={line.key}
              id={`${idPrefix}${index}`}
              role="treeitem"
              aria-level={line.level}
              aria-posinset={line.place}
              aria-setsize={line.siblings}
              aria-selected={node.node === picked}
              {...(node.children > 0 && !isFlat && { 'aria-expanded': line.isOpen })}
              data-active={index === active || undefined}
              data-node={node.node}
              className={classes.treeLine}
              style={place}
              onClick={() => {
                setActiveKey(line.key);
                onShow(node.node);
              }}
            >
              <TreeRun
                node={node}
                nowUnixMs={nowUnixMs}
                widest={widest}
                level={line.level}
                disclosure={node.children === 0 || isFlat ? 'none' : line.isOpen ? 'open' : 'closed'}
                onToggle={() => onToggle(node.node, !line.isOpen)}
              />
            </div>
          );
        })}
      </div>
    </div>
  );
}

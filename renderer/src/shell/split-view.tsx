import { Splitter } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import type { ReactElement, ReactNode } from 'react';
import classes from './shell.module.css';

export interface SplitViewProps {
  /** Names the remembered sizes, e.g. `requests`. */
  readonly id: string;
  readonly list: ReactNode;
  /** Absent = nothing selected: the list takes all the room. */
  readonly detail: ReactNode | undefined;
  /** `below` (default) or `beside` the list. */
  readonly placement?: 'below' | 'beside';
  /** Share of the list in per cent until the person moves the border. Default 55. */
  readonly listPercent?: number;
}

/** List and detail with a border that can be dragged or moved by keyboard and stays where it was put. */
export function SplitView({ id, list, detail, placement = 'below', listPercent = 55 }: SplitViewProps): ReactElement {
  const [sizes, setSizes] = useLocalStorage<number[]>({
    key: `pdscope.split.${id}`,
    defaultValue: [listPercent, 100 - listPercent],
    getInitialValueInEffect: false,
  });
  const isAlone = detail === undefined;
  const isValid = sizes.length === 2 && sizes.every((size) => Number.isFinite(size) && size >= 5);
  return (
    <Splitter
      className={classes.split ?? ''}
      orientation={placement === 'below' ? 'vertical' : 'horizontal'}
      // The list stays the same element with and without a detail: its scroll, focus and open lines survive.
      sizes={isAlone ? [100] : isValid ? sizes : [listPercent, 100 - listPercent]}
      onSizeChange={(next) => next.length === 2 && setSizes(next.map(Number))}
      withHandle={false}
      lineSize={1}
      handleColor="var(--pd-line-strong)"
      step={2}
    >
      <Splitter.Pane defaultSize={isAlone ? 100 : listPercent} min={15} className={classes.pane ?? ''}>
        {list}
      </Splitter.Pane>
      {!isAlone && (
        <Splitter.Pane defaultSize={100 - listPercent} min={15} className={classes.pane ?? ''}>
          {detail}
        </Splitter.Pane>
      )}
    </Splitter>
  );
}

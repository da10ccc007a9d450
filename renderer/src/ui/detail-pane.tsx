import { ActionIcon } from '@mantine/core';
import type { ReactElement, ReactNode } from 'react';
import classes from './detail-pane.module.css';

export interface DetailHeadProps {
  readonly title: ReactNode;
  /** Left of the title: a mark. */
  readonly before?: ReactNode;
  /** Right of the title: state, notes. */
  readonly children?: ReactNode;
  /** Absent = it stays open. */
  readonly onClose?: () => void;
}

/** The head of a detail beside its list. */
export function DetailHead({ title, before, children, onClose }: DetailHeadProps): ReactElement {
  return (
    <div className={classes.head}>
      {before}
      <h2 className={classes.title}>{title}</h2>
      {children}
      {onClose !== undefined && (
        <ActionIcon className={classes.close ?? ''} aria-label="Close the detail" title="Close (Esc)" onClick={onClose}>
          ✕
        </ActionIcon>
      )}
    </div>
  );
}

/** What stands under a section's head, with a line to the next section. */
export function DetailBlock({ children }: { readonly children: ReactNode }): ReactElement {
  return <div className={classes.block}>{children}</div>;
}

import type { ReactElement, ReactNode } from 'react';
import classes from './shell.module.css';

export interface ViewHeaderProps {
  readonly title: string;
  /** Beside the title: a subtitle, or the filter bar. Takes the room there is. */
  readonly children?: ReactNode;
  /** Right-aligned: counters, buttons. */
  readonly actions?: ReactNode;
}

/** The one line at the top of every view. */
export function ViewHeader({ title, children, actions }: ViewHeaderProps): ReactElement {
  return (
    <header className={classes.viewHeader}>
      <h1 className={classes.viewTitle}>{title}</h1>
      <div className={classes.viewMiddle}>{children}</div>
      {actions !== undefined && <div className={classes.viewActions}>{actions}</div>}
    </header>
  );
}

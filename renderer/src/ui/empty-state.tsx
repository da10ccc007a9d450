import type { ReactElement, ReactNode } from 'react';
import classes from './ui.module.css';

/** Why there is nothing here, and what to do about it. */
export function EmptyState({ title, text, children }: { readonly title: string; readonly text: ReactNode; readonly children?: ReactNode }): ReactElement {
  return (
    <div className={classes.empty} role="status">
      <h2 className={classes.emptyTitle}>{title}</h2>
      <p className={classes.emptyText}>{text}</p>
      {children}
    </div>
  );
}

import type { ReactElement, ReactNode } from 'react';
import classes from './ui.module.css';

/** The quiet capital line above a section, with what belongs to it on the right. */
export function SectionHead({ title, children }: { readonly title: string; readonly children?: ReactNode }): ReactElement {
  return (
    <div className={classes.sectionHead}>
      <h2 className={classes.sectionTitle}>{title}</h2>
      {children !== undefined && <div className={classes.sectionRest}>{children}</div>}
    </div>
  );
}

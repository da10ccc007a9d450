import { VisuallyHidden } from '@mantine/core';
import type { ReactElement } from 'react';
import type { Severity } from '#shared/findings.ts';
import classes from './ui.module.css';

/** Shape, so that colour is never the only signal. */
export const SEVERITY_SHAPE: Readonly<Record<Severity, string>> = { error: '✕', warning: '▲', info: '●' };

/** A severity as shape, word and colour. `children` replaces the word; the word is then in the title. */
export function SeverityMark({ severity, children, title }: { readonly severity: Severity; readonly children?: string | undefined; readonly title?: string | undefined }): ReactElement {
  return (
    <span className={classes.stateMark} data-tone={severity} title={title ?? severity}>
      <span aria-hidden="true" className={classes.stateShape}>
        {SEVERITY_SHAPE[severity]}
      </span>{' '}
      {children === undefined ? severity : <><VisuallyHidden>{severity} </VisuallyHidden>{children}</>}
    </span>
  );
}

import type { ReactElement, ReactNode } from 'react';
import classes from './ui.module.css';

/** A sentence from the engine, verbatim, where it belongs. Errors are announced to screen readers. */
export function Message({ tone, children }: { readonly tone: 'error' | 'warning' | 'plain'; readonly children: ReactNode }): ReactElement {
  return (
    <p className={classes.message} data-tone={tone} role={tone === 'error' ? 'alert' : 'status'}>
      {tone === 'error' && '✕ '}
      {tone === 'warning' && '▲ '}
      {children}
    </p>
  );
}

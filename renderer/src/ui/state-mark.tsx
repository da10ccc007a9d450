import type { ReactElement } from 'react';
import classes from './ui.module.css';

export type Tone = 'ok' | 'unknown' | 'busy' | 'warning' | 'error';

/** A shape for each tone, so that colour is never the only signal. */
export const TONE_SHAPE: Readonly<Record<Tone, string>> = { ok: '●', unknown: '○', busy: '◌', warning: '▲', error: '✕' };

/** A state as shape and word. Ok is quiet. */
export function StateMark({ tone, children, title }: { readonly tone: Tone; readonly children: string; readonly title?: string | undefined }): ReactElement {
  return (
    <span className={classes.stateMark} data-tone={tone} title={title}>
      <span aria-hidden="true" className={classes.stateShape}>
        {TONE_SHAPE[tone]}
      </span>{' '}
      {children}
    </span>
  );
}

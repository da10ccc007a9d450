import type { ReactElement } from 'react';
import { ABSENT } from './format.ts';
import classes from './ui.module.css';

export interface NumProps {
  /** Absent = not observed: drawn as a dash, never as 0. */
  readonly value: number | undefined;
  readonly format: (value: number) => string;
  /** Written after the number, dimmed; not written after a dash. */
  readonly unit?: string;
  /** Why it is absent, or what the number is made of; shown on hover. */
  readonly title?: string;
}

/** A number with its unit, in tabular figures. */
export function Num({ value, format, unit, title }: NumProps): ReactElement {
  if (value === undefined || !Number.isFinite(value)) {
    return (
      <span className={classes.absent} title={title ?? 'not observed'}>
        {ABSENT}
      </span>
    );
  }
  return (
    <span className={classes.num} title={title}>
      {format(value)}
      {unit !== undefined && <span className={classes.unit}> {unit}</span>}
    </span>
  );
}

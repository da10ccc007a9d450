import type { ReactElement, ReactNode } from 'react';
import { ABSENT } from './format.ts';
import classes from './stat-tile.module.css';

export interface StatTileProps {
  readonly label: string;
  /** The figure; absent = not observed. */
  readonly value: string | undefined;
  /** What follows the figure: unit, second percentile, context. */
  readonly rest?: ReactNode;
  /** n, window, definition; on hover. */
  readonly title?: string;
  readonly tone?: 'plain' | 'warning' | 'error';
  /** For one whose `rest` is a phrase: wider than its neighbours. Default false. */
  readonly isWide?: boolean;
}

/** One figure of the strip at the top of a view. */
export function StatTile({ label, value, rest, title, tone = 'plain', isWide = false }: StatTileProps): ReactElement {
  return (
    <div className={classes.tile} title={title} data-wide={isWide || undefined}>
      <dt className={classes.label}>{label}</dt>
      <dd className={classes.body}>
        <span className={classes.value} data-tone={tone}>
          {value ?? ABSENT}
        </span>
        {rest !== undefined && <span className={classes.rest}>{rest}</span>}
      </dd>
    </div>
  );
}

/** The strip itself. */
export function StatStrip({ children, label }: { readonly children: ReactNode; readonly label: string }): ReactElement {
  return (
    <dl className={classes.strip} aria-label={label}>
      {children}
    </dl>
  );
}

import { Fragment, type ReactElement, type ReactNode } from 'react';
import classes from './ui.module.css';

export interface FactsProps {
  readonly facts: readonly (readonly [name: string, value: ReactNode])[];
  /** Two pairs in a line where there is room; for short values. Default false. */
  readonly isPaired?: boolean;
}

/** Name and value pairs. A pair whose value is undefined or false is left out. */
export function Facts({ facts, isPaired = false }: FactsProps): ReactElement {
  return (
    <dl className={classes.facts} data-paired={isPaired || undefined}>
      {facts.map(
        ([name, value]) =>
          value !== undefined && value !== false && (
            <Fragment key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </Fragment>
          ),
      )}
    </dl>
  );
}

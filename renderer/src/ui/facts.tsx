import { Fragment, type ReactElement, type ReactNode } from 'react';
import classes from './ui.module.css';

/** Name and value pairs. A pair whose value is undefined or false is left out. */
export function Facts({ facts }: { readonly facts: readonly (readonly [name: string, value: ReactNode])[] }): ReactElement {
  return (
    <dl className={classes.facts}>
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

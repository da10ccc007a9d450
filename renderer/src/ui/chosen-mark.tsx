import type { ReactElement } from 'react';
import classes from './ui.module.css';

/** Before the name of the one that was chosen of several; takes the same room before the others, so that names stand in line. */
export function ChosenMark({ isChosen }: { readonly isChosen: boolean }): ReactElement {
  return <span className={classes.chosenMark}>{isChosen && '▸'}</span>;
}

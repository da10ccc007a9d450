import type { ReactElement } from 'react';
import type { CompiledFilter } from '#shared/filter/compile.ts';
import classes from './filter.module.css';

export interface FilterReadingProps<Row> {
  readonly id: string;
  readonly text: string;
  readonly compiled: CompiledFilter<Row>;
  /** What is shown without a filter, e.g. `all requests`. */
  readonly everything: string;
  /** Puts the caret where the problem is. */
  readonly onGoTo: (at: number) => void;
}

/** What the filter means in plain words, or what is wrong with it and where. */
export function FilterReading<Row>({ id, text, compiled, everything, onGoTo }: FilterReadingProps<Row>): ReactElement {
  if (compiled.ok) {
    return (
      <span id={id} className={classes.reading} title={compiled.reading}>
        {compiled.reading === '' ? everything : compiled.reading}
      </span>
    );
  }
  const { at, error } = compiled;
  const culprit = text.slice(at, at + 16);
  return (
    <span id={id} className={classes.problem} role="status" title={error}>
      ✕{' '}
      <button type="button" className={classes.place} onClick={() => onGoTo(at)} title="Go to the place">
        at {at + 1}
        {culprit === '' ? '' : ` “${culprit}”`}
      </button>{' '}
      {error}
    </span>
  );
}

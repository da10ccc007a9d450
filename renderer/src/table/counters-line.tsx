import type { ReactElement } from 'react';
import { counterParts, type CountersInput } from './counters.ts';
import classes from './counters-line.module.css';

/** `shown 412 · matching 412 of 10,000 · total 12,431 · evicted 2,431 · dropped 0`, and losses only when there are any. */
export function CountersLine(props: CountersInput): ReactElement {
  return (
    <span className={classes.line} data-testid="counters">
      {counterParts(props).map((part, index) => (
        <span key={part.label} title={part.title} data-loss={part.isLoss || undefined}>
          {index > 0 && <span aria-hidden="true"> · </span>}
          {part.label} {part.text}
        </span>
      ))}
    </span>
  );
}

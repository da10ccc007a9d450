import type { ReactElement } from 'react';
import type { Quantiles } from '#shared/quantiles.ts';
import { ABSENT, formatDuration, formatInteger, formatMs } from './format.ts';
import classes from './ui.module.css';

/** n, window and all percentiles in words, for hovers. */
export function describeQuantiles(quantiles: Quantiles): string {
  const { n, windowS, p50, p95, p99, max } = quantiles;
  return `p50 ${formatMs(p50)} · p95 ${formatMs(p95)} · p99 ${formatMs(p99)} · max ${formatMs(max)} ms · n = ${formatInteger(n)}, last ${formatDuration(windowS * 1000)}`;
}

/** Two percentiles of one distribution, `248 / 431`, or a dash. n and window on hover. */
export function QuantilePair({ quantiles, tail }: { readonly quantiles: Quantiles | undefined; readonly tail: 'p95' | 'p99' }): ReactElement {
  if (quantiles === undefined || quantiles.n === 0) {
    return (
      <span className={classes.absent} title="no samples in the window">
        {ABSENT}
      </span>
    );
  }
  return (
    <span className={classes.num} title={describeQuantiles(quantiles)}>
      {formatMs(quantiles.p50)}
      <span className={classes.unit}> / </span>
      {formatMs(quantiles[tail])}
    </span>
  );
}

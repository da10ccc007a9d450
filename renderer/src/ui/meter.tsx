import type { ReactElement } from 'react';
import { ABSENT, formatPercent, formatWholePercent } from './format.ts';
import classes from './ui.module.css';

/** A share of a capacity as bar and figure. Above `warnAt` (default 0.95) the bar says so in colour and word on hover. */
export function Meter({ share, label, warnAt = 0.95 }: { readonly share: number | undefined; readonly label: string; readonly warnAt?: number }): ReactElement {
  if (share === undefined) {
    return (
      <span className={classes.absent} title={`${label}: not observed`}>
        {ABSENT}
      </span>
    );
  }
  const bounded = Math.min(1, Math.max(0, share));
  const isHigh = share >= warnAt;
  return (
    <span className={classes.meter} title={`${label}: ${formatPercent(share)} %${isHigh ? ', nearly full' : ''}`}>
      <span className={classes.meterTrack} aria-hidden="true">
        <span
          className={classes.meterFill}
          data-tone={isHigh ? 'warning' : 'plain'}
          style={{ display: 'block', width: `${(bounded * 100).toFixed(1)}%` }}
        />
      </span>
      <span className={classes.meterText}>{formatWholePercent(share)} %</span>
    </span>
  );
}

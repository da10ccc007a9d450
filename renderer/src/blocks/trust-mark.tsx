import { Tooltip } from '@mantine/core';
import type { ReactElement } from 'react';
import { trustPercent, trustTone, type Trust } from './trust.ts';
import classes from './blocks.module.css';

/** Reasons listed, more than a single stream can have; of many streams the rest is counted. */
const MOST_REASONS = 20;
const SHAPE = { plain: '', warning: '▲ ', error: '✕ ' } as const;

export interface TrustMarkProps {
  /** Absent = the engine does not say. */
  readonly trust: Trust | undefined;
  /** Written before the figure. Default: only the figure, for narrow columns. */
  readonly isLong?: boolean;
}

/** Confidence of the number beside it. Hover or focus says why it is not 100 %. */
export function TrustMark({ trust, isLong = false }: TrustMarkProps): ReactElement {
  const lead = isLong ? 'confidence ' : '';
  if (trust === undefined) {
    return <span className={classes.trustAbsent} title="The engine does not say how far this can be trusted.">{lead}—</span>;
  }
  const percent = trustPercent(trust.value);
  const tone = trustTone(trust.value);
  const reasons = trust.reasons.slice(0, MOST_REASONS);
  const omitted = trust.reasons.length - reasons.length;
  const whole = 'Every batch of these streams was seen since their engines started.';
  const heading = percent === 100 ? whole : `Why not 100 %${trust.reasons.length === 0 ? ': no reason given' : ''}`;
  return (
    <Tooltip
      events={{ hover: true, focus: true, touch: true }}
      // Beside its mark, not at the end of the page: what belongs to a region is read with it.
      withinPortal={false}
      floatingStrategy="fixed"
      className={classes.whyNot ?? ''}
      label={
        <>
          {trust.rule !== undefined && <div>Confidence is {trust.rule}.</div>}
          <div>{heading}</div>
          {reasons.length > 0 && (
            <ul className={classes.reasons}>
              {reasons.map((reason) => <li key={reason}>{reason}</li>)}
              {omitted > 0 && <li>… {omitted} more</li>}
            </ul>
          )}
        </>
      }
    >
      <button type="button" className={classes.trust} data-tone={tone} aria-label={`confidence ${percent} %${trust.rule === undefined ? '' : `, ${trust.rule}`}. ${[heading, ...reasons].join('. ')}`}>
        {SHAPE[tone]}{lead}{percent} %
      </button>
    </Tooltip>
  );
}

import type { ReactElement } from 'react';
import type { PhaseSpan, RequestRow } from '#shared/request.ts';
import { PHASE_COLOR, PHASE_LABEL } from '../../theme/palette.ts';
import { formatDuration, formatMs } from '../../ui/format.ts';
import { errorWords, failureWords } from './error-words.ts';
import classes from './requests.module.css';

/** Bars that take more of the width than this, in per cent, have the words below them instead of beside them. */
const WORDS_BELOW_FROM = 45;

/** The phases of a row on the list's shared scale; what failed stands beside what was reached. */
export function PhaseBar({ row, scaleMs }: { readonly row: RequestRow; readonly scaleMs: number }): ReactElement {
  const failure = failureWords(row);
  const endMs = row.phases.reduce((end, span) => Math.max(end, span.endMs), 0);
  const percent = (ms: number): number => Math.min(100, (100 * ms) / scaleMs);
  const isBeyond = endMs > scaleMs;
  const isLong = percent(endMs) > WORDS_BELOW_FROM;
  return (
    <span className={classes.phaseCell}>
      <span className={classes.phaseTrack} data-raised={(failure !== undefined && isLong) || undefined} title={phaseWords(row.phases)}>
        {row.phases.map((span) => (
          <Segment key={`${span.phase}${span.startMs}`} span={span} left={percent(span.startMs)} right={percent(span.endMs)} />
        ))}
        {isBeyond && (
          <span className={classes.beyond} title={`Goes on to ${formatDuration(endMs)}, beyond the scale`}>
            ›
          </span>
        )}
        {failure !== undefined && (
          <span
            className={classes.failure}
            data-state={row.state}
            data-below={isLong || undefined}
            title={row.error === undefined ? failure : errorWords(row.error)}
            style={{ left: isLong ? 0 : `calc(${percent(endMs)}% + 8px)` }}
          >
            {failure}
          </span>
        )}
      </span>
    </span>
  );
}

function Segment({ span, left, right }: { readonly span: PhaseSpan; readonly left: number; readonly right: number }): ReactElement {
  const color = PHASE_COLOR[span.phase];
  const isHatched = !span.isExact || span.phase === 'unattributed';
  return (
    <span
      className={isHatched ? `${classes.segment} ${classes.hatched}` : classes.segment}
      style={{ left: `${left}%`, width: `${Math.max(right - left, 0)}%`, ...(isHatched ? { '--hatch': color } : { background: color }) }}
    />
  );
}

function phaseWords(phases: readonly PhaseSpan[]): string {
  if (phases.length === 0) return 'No phase observed';
  return phases
    .map((span) => `${PHASE_LABEL[span.phase]} ${span.isExact ? '' : '≤ '}${formatMs(span.endMs - span.startMs)}`)
    .join(' · ')
    .concat(' ms');
}

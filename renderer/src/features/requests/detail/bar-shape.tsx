import { useId, type ReactElement } from 'react';
import { LEG_COLOR, PHASE_COLOR } from '../../../theme/palette.ts';
import { HatchedPattern } from '../../../ui/hatched-pattern.tsx';
import type { Bar } from './waterfall-layout.ts';
import classes from './detail.module.css';

const BAR_PX = 14;
/** Rough width of a character of the bar labels, px: enough to decide whether a label fits. */
const CHARACTER_PX = 6.2;

export interface BarShapeProps {
  readonly bar: Bar;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

/** One interval: solid when exact, hatched with an outline when it is a bound, dashed when it failed. */
export function BarShape({ bar, x, y, width }: BarShapeProps): ReactElement {
  const patternId = useId();
  const shown = Math.max(width, 1.5);
  const isPhase = bar.look === 'forward' || bar.look in PHASE_COLOR;
  const color = colorOf(bar.look);
  const isHatched = isPhase && !bar.isExact;
  const fits = bar.label !== '' && bar.label.length * CHARACTER_PX + 10 < shown;
  return (
    <g>
      {isHatched && (
        <defs>
          <HatchedPattern id={patternId} color={color} />
        </defs>
      )}
      <rect
        x={x}
        y={y}
        width={shown}
        height={BAR_PX}
        className={classes.bar}
        data-look={isPhase ? 'phase' : bar.look}
        {...(isHatched ? { fill: `url(#${patternId})`, stroke: color } : isPhase && { fill: color })}
      >
        <title>{bar.title}</title>
      </rect>
      {fits && isHatched && <rect x={x + 5} y={y + 1} width={bar.label.length * CHARACTER_PX + 6} height={BAR_PX - 2} className={classes.labelBack} />}
      {fits && (
        <text x={x + 8} y={y + 10.5} className={classes.barLabel} data-on={isPhase && bar.isExact ? 'phase' : 'surface'} data-look={bar.look}>
          {bar.label}
        </text>
      )}
    </g>
  );
}

function colorOf(look: Bar['look']): string {
  if (look === 'forward') return LEG_COLOR.forward;
  return look === 'wait' || look === 'rest' || look === 'failed' || look === 'leg' ? '' : PHASE_COLOR[look];
}

import type { ReactElement } from 'react';
import classes from './ui.module.css';

export interface SparklineProps {
  /** Evenly spaced values, oldest first; undefined = nothing observed in that step, drawn as a break in the line. */
  readonly values: readonly (number | undefined)[];
  readonly color: string;
  /** What the line is, for those who cannot see it, e.g. `ITL p50, 5 min`. */
  readonly label: string;
  readonly width?: number;
  readonly height?: number;
}

/** The line's path: from 0 to the largest value, broken where nothing was observed. '' without two neighbours. */
export function sparklinePath(values: readonly (number | undefined)[], width: number, height: number): string {
  let max = 0;
  for (const value of values) if (value !== undefined && value > max) max = value;
  const stepX = values.length > 1 ? width / (values.length - 1) : 0;
  const scaleY = max > 0 ? (height - 2) / max : 0;
  let path = '';
  let isPenDown = false;
  values.forEach((value, index) => {
    if (value === undefined) {
      isPenDown = false;
      return;
    }
    const hasNeighbour = isPenDown || values[index + 1] !== undefined;
    const x = (index * stepX).toFixed(1);
    const y = (height - 1 - value * scaleY).toFixed(1);
    // A lone sample between two breaks still deserves a dot.
    path += `${isPenDown ? 'L' : 'M'}${x} ${y}${hasNeighbour ? '' : 'h1'}`;
    isPenDown = true;
  });
  return path;
}

/** A small line without axes, 0-based. */
export function Sparkline({ values, color, label, width = 76, height = 16 }: SparklineProps): ReactElement {
  return (
    <svg className={classes.sparkline} width={width} height={height} role="img" aria-label={label}>
      <title>{label}</title>
      <path d={sparklinePath(values, width, height)} fill="none" stroke={color} strokeWidth={1.2} strokeLinejoin="round" />
    </svg>
  );
}

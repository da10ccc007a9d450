/** The three parts of a P-vs-D difference, named and measured. */
import type { CacheDifference, DifferencePart } from '#shared/cache.ts';

export interface DifferenceRow {
  readonly id: 'left' | 'both' | 'right';
  readonly name: string;
  readonly meaning: string;
  readonly part: DifferencePart;
  /** Of all blocks of the three parts, 0..1. */
  readonly share: number;
}

/** Left, both, right: in the order of the bar. */
export function differenceParts({ onlyLeft, both, onlyRight }: CacheDifference, [left, right]: readonly [string, string]): readonly DifferenceRow[] {
  const all = onlyLeft.blocks + both.blocks + onlyRight.blocks;
  const share = (part: DifferencePart): number => (all === 0 ? 0 : part.blocks / all);
  return [
    { id: 'left', name: `on ${left} only`, meaning: `computed on ${left}, never pulled or already given up by ${right}`, part: onlyLeft, share: share(onlyLeft) },
    { id: 'both', name: 'on both', meaning: 'held twice', part: both, share: share(both) },
    { id: 'right', name: `on ${right} only`, meaning: `generated there, or given up by ${left}`, part: onlyRight, share: share(onlyRight) },
  ];
}

const SEPARATOR = '|';

/** Left and right side of a link's `in`; '' = the default of that side. */
export function splitSides(scope: string): readonly [string, string] {
  const [left = '', right = ''] = scope.split(SEPARATOR);
  return [left, right];
}

/** The reverse; '' when both are the default, so that links stay short. */
export function joinSides(left: string, right: string): string {
  return left === '' && right === '' ? '' : `${left}${SEPARATOR}${right}`;
}

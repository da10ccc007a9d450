/** The three parts of a P-vs-D difference, named and measured. */
import type { CacheDifference, DifferencePart, KvBytes } from '#shared/cache.ts';

export interface DifferenceRow {
  readonly id: 'left' | 'both' | 'right';
  readonly name: string;
  readonly meaning: string;
  readonly part: DifferencePart;
  /** Of all blocks of the three parts, 0..1. */
  readonly share: number;
  /** Memory beyond one copy; absent when it cannot be sized. */
  readonly duplicatedBytes?: number;
}

/** Left, both, right: in the order of the bar. */
export function differenceParts({ onlyLeft, both, onlyRight }: CacheDifference, [left, right]: readonly [string, string]): readonly DifferenceRow[] {
  const all = onlyLeft.blocks + both.blocks + onlyRight.blocks;
  const share = (part: DifferencePart): number => (all === 0 ? 0 : part.blocks / all);
  const figures = (part: DifferencePart): Pick<DifferenceRow, 'part' | 'share' | 'duplicatedBytes'> => ({
    part,
    share: share(part),
    ...(part.bytes !== undefined && part.copyBytes !== undefined && { duplicatedBytes: Math.max(0, part.copyBytes - part.bytes) }),
  });
  return [
    { id: 'left', name: `on ${left} only`, meaning: `computed on ${left}, never fetched or already given up by ${right}`, ...figures(onlyLeft) },
    { id: 'both', name: 'on both', meaning: 'fetched, and kept by both', ...figures(both) },
    { id: 'right', name: `on ${right} only`, meaning: `generated there, or given up by ${left}`, ...figures(onlyRight) },
  ];
}

/** What sizes rest on, for each side; one sentence when both sides say the same. */
export function sizeBasis({ leftBytes, rightBytes }: CacheDifference, [left, right]: readonly [string, string]): string {
  const words = (name: string, bytes: KvBytes | undefined): string => (bytes === undefined ? `${name}: not known, or its instances differ` : `${name}: ${bytes.bytesPerToken.toLocaleString('en-US')} bytes a token, ${bytes.detail}`);
  if (leftBytes === undefined && rightBytes === undefined) return 'No sizes: how many bytes a token takes is neither given (kv-bytes-per-token), nor told by /server_info, nor measured by NIXL transfers.';
  if (leftBytes?.bytesPerToken === rightBytes?.bytesPerToken && leftBytes?.from === rightBytes?.from) return `Sizes by ${words(`${left} and ${right}`, leftBytes)}.`;
  return `Sizes by ${words(left, leftBytes)}; ${words(right, rightBytes)}.`;
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

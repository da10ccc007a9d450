import { describe, expect, it } from 'vitest';
import type { MissCause } from '#shared/cache.ts';
import { foldCauses } from '../../../renderer/src/features/cache/cause-fold.ts';

const causes = (...shares: number[]): MissCause[] => shares.map((share, at) => ({ id: `${at}`, kind: 'diverges', title: '', tokens: 1, share, requests: [], requestCount: 1 }));
const counts = (...shares: number[]): readonly number[] => {
  const { shown, folded } = foldCauses(causes(...shares));
  return [shown.length, folded.length];
};

describe('foldCauses', () => {
  it('shows six at most, and none below one per cent', () => {
    expect(counts(0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05)).toEqual([6, 2]);
    expect(counts(0.9, 0.09, 0.005, 0.005)).toEqual([2, 2]);
  });

  it('does not fold a tail of one, nor nothing', () => {
    expect(counts(0.995, 0.005)).toEqual([2, 0]);
    expect(counts(0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1)).toEqual([7, 0]);
    expect(counts()).toEqual([0, 0]);
  });

  it('keeps the order, the heaviest first', () => {
    const { shown, folded } = foldCauses(causes(0.9, 0.05, 0.009, 0.001));
    expect([...shown, ...folded].map(({ id }) => id)).toEqual(['0', '1', '2', '3']);
  });
});

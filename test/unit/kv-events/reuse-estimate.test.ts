import { describe, expect, it } from 'vitest';
import { ReuseEstimate } from '#engine/kv-events/reuse-estimate.ts';
import { cleared, removed, stored } from '../kv-index/events.ts';

function estimateOf(events: readonly Parameters<ReuseEstimate['add']>[0][], capacity = 1000): number {
  const estimate = new ReuseEstimate(capacity);
  for (const event of events) estimate.add(event);
  return estimate.branchedBlocks;
}

describe('ReuseEstimate', () => {
  it('counts what lies before a branch: a second request came that way', () => {
    const first = stored([1, 2, 3, 4]);
    expect(estimateOf([first, stored([5], { parent: 2 })])).toBe(2);
    expect(estimateOf([first, stored([5], { parent: 2 }), stored([6, 7], { parent: 3 }), stored([8], { parent: 6 })])).toBe(9);
    expect(estimateOf([first, stored([5], { parent: 2 }), stored([6], { parent: 2 })])).toBe(4);
  });

  it('counts nothing where a chain goes on, begins, or is stored again', () => {
    const first = stored([1, 2]);
    expect(estimateOf([first, stored([3], { parent: 2 }), stored([4], { parent: 3 })])).toBe(0);
    expect(estimateOf([first, stored([9])])).toBe(0);
    expect(estimateOf([first, first, stored([2], { parent: 1 })])).toBe(0);
  });

  it('counts nothing that is not known to be there: late joins, evictions, resets and restarts', () => {
    const first = stored([1, 2, 3]);
    expect(estimateOf([stored([5], { parent: 2 }), stored([6], { parent: 2 })])).toBe(0);
    expect(estimateOf([first, removed([2]), stored([5], { parent: 2 })])).toBe(0);
    expect(estimateOf([first, first, removed([2]), stored([5], { parent: 2 })])).toBe(2);
    expect(estimateOf([first, removed([2], { medium: 'CPU' }), stored([5], { parent: 2 })])).toBe(2);
    expect(estimateOf([first, cleared, stored([5], { parent: 2 })])).toBe(0);
    const estimate = new ReuseEstimate(1000);
    estimate.add(first);
    estimate.reset();
    estimate.add(stored([5], { parent: 2 }));
    expect(estimate.branchedBlocks).toBe(0);
    expect(estimate.unknownParents).toBe(1);
  });

  it('leaves out tiers and groups that follow no request, and forgets beyond its capacity', () => {
    const first = stored([1, 2, 3]);
    expect(estimateOf([first, stored([5], { parent: 2, medium: 'CPU' })])).toBe(0);
    expect(estimateOf([first, stored([5], { parent: 2, specKind: 'sliding_window' })])).toBe(0);
    expect(estimateOf([first, stored([7]), stored([5], { parent: 2 })], 3)).toBe(0);
    const full = new ReuseEstimate(3);
    for (const event of [first, stored([7]), stored([5], { parent: 2 })]) full.add(event);
    // The chain was forgotten here, not in the engine.
    expect(full.unknownParents).toBe(0);
  });
});

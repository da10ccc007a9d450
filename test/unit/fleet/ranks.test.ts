import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import { chooseRank, countRank, setDpSize } from '#engine/fleet/ranks.ts';
import { fakeInstance } from '../telemetry/support.ts';

function instanceOf(dpSize: number): Instance {
  const instance = fakeInstance('P0', 'prefill');
  setDpSize(instance, dpSize, 'given');
  return instance;
}

describe('data-parallel ranks', () => {
  it('pins nothing on an instance of one rank', () => {
    expect(chooseRank(instanceOf(1))).toBeUndefined();
  });

  it('takes turns among idle ranks', () => {
    const instance = instanceOf(3);
    expect(Array.from({ length: 7 }, () => chooseRank(instance))).toEqual([0, 1, 2, 0, 1, 2, 0]);
  });

  it('prefers the rank with the fewest legs', () => {
    const instance = instanceOf(3);
    countRank(instance, 0, 1);
    countRank(instance, 1, 1);
    expect(chooseRank(instance)).toBe(2);
    countRank(instance, 2, 1);
    countRank(instance, 1, -1);
    expect(chooseRank(instance)).toBe(1);
  });

  it('strands no slot, however instances and ranks divide each other', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 2, max: 8 }), (instances, dpSize) => {
        const fleet = Array.from({ length: instances }, () => instanceOf(dpSize));
        const hits = new Map<string, number>();
        for (let request = 0; request < instances * dpSize * 3; request += 1) {
          const index = request % instances;
          const rank = chooseRank(fleet[index] as Instance);
          hits.set(`${index}/${rank}`, (hits.get(`${index}/${rank}`) ?? 0) + 1);
        }
        expect([...hits.values()]).toEqual(Array.from({ length: instances * dpSize }, () => 3));
      }),
    );
  });

  it('keeps the counts of ranks that stay when the size changes, and never goes below zero', () => {
    const instance = instanceOf(2);
    countRank(instance, 1, 1);
    setDpSize(instance, 4, 'server_info');
    expect(instance.rankInFlight).toEqual([0, 1, 0, 0]);
    setDpSize(instance, 1, 'server_info');
    countRank(instance, 1, -1);
    countRank(instance, 0, -1);
    expect(instance.rankInFlight).toEqual([0]);
  });
});

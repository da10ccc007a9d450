import { describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import type { RouteStep } from '#shared/request.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import { chosenSummary, legsSummary, runsOf } from '../../../renderer/src/features/requests/detail/leg-groups.ts';
import { routeParts, routeText } from '../../../renderer/src/features/requests/route-words.ts';
import { sampleEncodeLegs } from './sample-requests.ts';

const step = (kind: LegKind, name: string, rank?: number): RouteStep => ({ kind, name, instance: name.toLowerCase() as InstanceId, ...(rank !== undefined && { rank }) });

describe('routeText', () => {
  it.each([
    [[], undefined],
    [[step('prefill', 'P0'), step('decode', 'D1')], 'P0 → D1'],
    [[step('prefill', 'P0', 1), step('decode', 'D1', 0)], 'P0/1 → D1/0'],
    [[step('encode', 'E0'), step('encode', 'E0'), step('decode', 'D1')], 'E0 ×2 → D1'],
    [[step('encode', 'E0'), step('encode', 'E1'), step('encode', 'E0'), step('prefill', 'P0'), step('decode', 'D1')], 'E ×3 → P0 → D1'],
    [[step('render', 'P0'), step('prefill', 'P0'), step('decode', 'D0'), step('render', 'P0')], 'P0 → P0 → D0 → P0'],
  ])('%# %s', (route, expected) => {
    expect(routeText(route)).toBe(expected);
  });

  it('names every instance of a collapsed part for the hover', () => {
    const [part] = routeParts([step('encode', 'E0'), step('encode', 'E1'), step('encode', 'E0')]);
    expect(part).toEqual({ kind: 'encode', label: 'E ×3', title: '3 encode legs: E0 ×2, E1 ×1' });
  });
});

describe('runsOf', () => {
  it('folds long runs only, and keeps the places in the whole list', () => {
    const legs = [...sampleEncodeLegs(5), ...sampleEncodeLegs(1).map((leg) => ({ ...leg, kind: 'prefill' as const }))];
    expect(runsOf(legs).map(({ kind, isFolded, items }) => [kind, isFolded, items.map(({ index }) => index)])).toEqual([
      ['encode', true, [0, 1, 2, 3, 4]],
      ['prefill', false, [5]],
    ]);
    expect(runsOf(sampleEncodeLegs(4))[0]?.isFolded).toBe(false);
  });

  it('sums up outcomes and durations', () => {
    expect(legsSummary(sampleEncodeLegs(24))).toBe('24 encode legs: 21 ok, 3 error; 12.0 to 34.0 ms');
    expect(chosenSummary(['E0', 'E1', 'E1'])).toBe('E1 ×2, E0 ×1');
  });
});

import { expect, test } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import { createPolicy } from '#engine/proxy/policies/policies.ts';
import { POLICIES, type LegKind } from '#shared/vocabulary.ts';

function instances(...inFlight: number[]): Instance[] {
  return inFlight.map((count, index) => ({ id: `d${index}`, name: `D${index}`, inFlight: count }) as unknown as Instance);
}

function names(policy: ReturnType<typeof createPolicy>, candidates: Instance[], kinds: LegKind[]): string[] {
  return kinds.map((kind) => policy.choose(candidates, kind).chosen.name);
}

/** A small linear congruential generator: the same draws in every run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
}

test('round robin takes turns per kind and survives a shrinking fleet', () => {
  const policy = createPolicy('round-robin');
  const three = instances(9, 0, 0);
  expect(names(policy, three, ['decode', 'prefill', 'decode', 'prefill', 'decode', 'decode'])).toEqual(['D0', 'D0', 'D1', 'D1', 'D2', 'D0']);
  expect(names(policy, three.slice(0, 1), ['decode', 'decode'])).toEqual(['D0', 'D0']);
  expect(policy.choose(three, 'decode').scores).toEqual([
    { instance: 'd0', name: 'D0', reason: 'not its turn' },
    { instance: 'd1', name: 'D1', reason: 'next in turn' },
    { instance: 'd2', name: 'D2', reason: 'not its turn' },
  ]);
});

test('least in flight takes the fewest, and turns among equals', () => {
  const policy = createPolicy('least-in-flight');
  expect(names(policy, instances(3, 1, 2), ['decode', 'decode'])).toEqual(['D1', 'D1']);
  expect(names(createPolicy('least-in-flight'), instances(0, 0, 0), ['decode', 'decode', 'decode', 'decode'])).toEqual(['D0', 'D1', 'D2', 'D0']);
  expect(policy.choose(instances(3, 1), 'decode').scores).toEqual([
    { instance: 'd0', name: 'D0', score: 3, reason: '3 in flight' },
    { instance: 'd1', name: 'D1', score: 1, reason: '1 in flight' },
  ]);
});

test('random reaches every candidate and repeats with its seed', () => {
  const draw = (seed: number): string[] => names(createPolicy('random', seeded(seed)), instances(0, 0, 0), Array.from({ length: 60 }, () => 'decode'));
  expect(new Set(draw(1))).toEqual(new Set(['D0', 'D1', 'D2']));
  expect(draw(1)).toEqual(draw(1));
  expect(draw(1)).not.toEqual(draw(2));
});

test('power of two compares two different candidates', () => {
  const draws = [0.5, 0.6];
  const policy = createPolicy('power-of-two', () => draws.shift() ?? 0);
  // First draw: D1 of three; second: one further than the next, D0.
  const choice = policy.choose(instances(4, 7, 1), 'decode');
  expect(choice.chosen.name).toBe('D0');
  expect(choice.scores).toEqual([
    { instance: 'd0', name: 'D0', score: 4, reason: 'drawn, 4 in flight' },
    { instance: 'd1', name: 'D1', score: 7, reason: 'drawn, 7 in flight' },
    { instance: 'd2', name: 'D2', reason: 'not drawn' },
  ]);
});

test('power of two never takes the fullest of many', () => {
  const policy = createPolicy('power-of-two', seeded(7));
  const candidates = instances(1, 2, 3, 4, 99);
  for (let draw = 0; draw < 500; draw++) expect(policy.choose(candidates, 'decode').chosen.name).not.toBe('D4');
});

test.each(POLICIES)('%s chooses the only candidate', (name) => {
  expect(createPolicy(name).choose(instances(5), 'prefill')).toMatchObject({ chosen: { name: 'D0' }, scores: [{ instance: 'd0' }] });
});

/** Round robin: one turn per leg, a cursor per kind, so that prefill turns do not advance decode turns. */
import type { LegKind } from '#shared/vocabulary.ts';
import { candidateAt, unscored, type Policy } from './policy.ts';

export function createRoundRobin(): Policy {
  const next: Record<LegKind, number> = { encode: 0, render: 0, prefill: 0, decode: 0, forward: 0 };
  return {
    name: 'round-robin',
    choose(candidates, kind) {
      const turn = next[kind] % candidates.length;
      next[kind] = turn + 1;
      return { chosen: candidateAt(candidates, turn), scores: unscored(candidates, turn, 'next in turn') };
    },
  };
}

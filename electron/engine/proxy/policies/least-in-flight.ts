/** The instance with the fewest legs under way through pdscope; ties take turns, so that an idle fleet is used evenly. */
import type { LegKind } from '#shared/vocabulary.ts';
import { candidateAt, type Policy } from './policy.ts';

export function createLeastInFlight(): Policy {
  const start: Record<LegKind, number> = { encode: 0, render: 0, prefill: 0, decode: 0, forward: 0 };
  return {
    name: 'least-in-flight',
    choose(candidates, kind) {
      const first = start[kind] % candidates.length;
      let best = first;
      for (let step = 1; step < candidates.length; step++) {
        const index = (first + step) % candidates.length;
        if (candidateAt(candidates, index).inFlight < candidateAt(candidates, best).inFlight) best = index;
      }
      start[kind] = best + 1;
      return {
        chosen: candidateAt(candidates, best),
        scores: candidates.map(({ id, name, inFlight }) => ({ instance: id, name, score: inFlight, reason: `${inFlight} in flight` })),
      };
    },
  };
}

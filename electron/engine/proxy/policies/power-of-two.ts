/**
 * Power of two choices (Mitzenmacher 2001): two different candidates at random, the one with fewer legs under way wins.
 * Nearly as even as the least loaded, without sending every leg to the same instance at once.
 */
import { candidateAt, type Policy, type Random } from './policy.ts';

export function createPowerOfTwo(random: Random): Policy {
  return {
    name: 'power-of-two',
    choose(candidates) {
      const count = candidates.length;
      const a = Math.floor(random() * count);
      const b = count === 1 ? a : (a + 1 + Math.floor(random() * (count - 1))) % count;
      const winner = candidateAt(candidates, b).inFlight < candidateAt(candidates, a).inFlight ? b : a;
      const scores = candidates.map(({ id, name, inFlight }, index) =>
        index === a || index === b
          ? { instance: id, name, score: inFlight, reason: `drawn, ${inFlight} in flight` }
          : { instance: id, name, reason: 'not drawn' },
      );
      return { chosen: candidateAt(candidates, winner), scores };
    },
  };
}

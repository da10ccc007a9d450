/** Uniform choice. */
import { candidateAt, type Policy, type Random } from './policy.ts';

export function createRandom(random: Random): Policy {
  return {
    name: 'random',
    choose(candidates) {
      const drawn = Math.floor(random() * candidates.length);
      const scores = candidates.map(({ id, name }, index) => ({ instance: id, name, reason: index === drawn ? 'drawn' : 'not drawn' }));
      return { chosen: candidateAt(candidates, drawn), scores };
    },
  };
}

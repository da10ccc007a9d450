/** Makes a policy by name. */
import type { PolicyName } from '#shared/vocabulary.ts';
import { createLeastInFlight } from './least-in-flight.ts';
import type { Policy, Random } from './policy.ts';
import { createPowerOfTwo } from './power-of-two.ts';
import { createPrefixAware } from './prefix-aware.ts';
import { createRandom } from './random.ts';
import { createRoundRobin } from './round-robin.ts';

const FACTORIES: Readonly<Record<PolicyName, (random: Random) => Policy>> = {
  'round-robin': createRoundRobin,
  random: createRandom,
  'least-in-flight': createLeastInFlight,
  'power-of-two': createPowerOfTwo,
  'prefix-aware': createPrefixAware,
};

/** @param random source of randomness for the policies that draw; default Math.random. */
export function createPolicy(name: PolicyName, random: Random = Math.random): Policy {
  return FACTORIES[name](random);
}

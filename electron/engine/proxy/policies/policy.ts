/**
 * The interface of a scheduling policy: which of the instances that may take a leg gets it. A policy sees only
 * routable instances, keeps at most a cursor, and explains itself: one entry per candidate goes into the record.
 */
import type { CandidateScore } from '#shared/request.ts';
import type { LegKind, PolicyName } from '#shared/vocabulary.ts';
import type { Instance } from '../../fleet/instance.ts';

export interface Choice {
  readonly chosen: Instance;
  /** Every candidate, in the order given. */
  readonly scores: readonly CandidateScore[];
}

export interface Policy {
  readonly name: PolicyName;
  /** `candidates` is never empty. */
  choose(candidates: readonly Instance[], kind: LegKind): Choice;
}

/** Uniform in [0, 1), like Math.random; injected so that a seed makes choices repeatable. */
export type Random = () => number;

/** The element at `index`, which the caller has kept within bounds. */
export function candidateAt(candidates: readonly Instance[], index: number): Instance {
  const instance = candidates[index];
  if (instance === undefined) throw new Error(`policy chose candidate ${index} of ${candidates.length}`);
  return instance;
}

/** An entry for each candidate of a policy that does not score. */
export function unscored(candidates: readonly Instance[], chosen: number, why: string): CandidateScore[] {
  return candidates.map(({ id, name }, index) => ({ instance: id, name, reason: index === chosen ? why : 'not its turn' }));
}

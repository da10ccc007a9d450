/**
 * The interface of a scheduling policy: which of the instances that may take a leg gets it. A policy sees only
 * routable instances, keeps at most a cursor, and explains itself: one entry per candidate goes into the record.
 */
import type { CandidateScore } from '#shared/request.ts';
import type { LegKind, PolicyName } from '#shared/vocabulary.ts';
import type { Instance } from '../../fleet/instance.ts';
import type { PromptView } from '../prompt-view.ts';

export interface Choice {
  readonly chosen: Instance;
  /** Every candidate, in the order given. */
  readonly scores: readonly CandidateScore[];
  /** Data-parallel rank that the leg belongs on. Default: the least busy one. */
  readonly rank?: number;
  /** Why the policy could not do what it is for and balanced load instead, in words. */
  readonly degraded?: string;
}

export interface Policy {
  readonly name: PolicyName;
  /** Whether `choose` looks at the prompt. Preparing it costs; for the others it is not done. Default false. */
  readonly wantsPrompt?: boolean;
  /** `candidates` is never empty. `prompt` is there when it was wanted and the request has one. */
  choose(candidates: readonly Instance[], kind: LegKind, prompt?: PromptView): Choice;
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

/** The choice of an instance that a connector prefers, with what the others would have had to offer. */
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from '../fleet/instance.ts';
import { describeHeld, heldByInstance } from './policies/held-prefix.ts';
import type { Choice } from './policies/policy.ts';
import type { PromptView } from './prompt-view.ts';

export interface Preferred {
  readonly kind: LegKind;
  readonly prefer: Instance;
  readonly reason: string;
  readonly prompt: PromptView | undefined;
}

/** The other candidates are listed where it is known what they hold of the prompt. */
export function preferredChoice(candidates: readonly Instance[], { kind, prefer, reason, prompt }: Preferred): Choice {
  const tokens = kind === 'prefill' || kind === 'decode' ? prompt?.tokens?.length : undefined;
  const holders = tokens === undefined ? undefined : prompt?.holders();
  if (tokens === undefined || holders === undefined || typeof holders === 'string') {
    return { chosen: prefer, scores: [{ instance: prefer.id, name: prefer.name, reason }] };
  }
  const held = heldByInstance(holders);
  const scores = candidates.map((instance) => ({
    instance: instance.id,
    name: instance.name,
    ...describeHeld(instance, held.get(instance.id), tokens),
    ...(instance === prefer && { reason }),
  }));
  return { chosen: prefer, scores };
}

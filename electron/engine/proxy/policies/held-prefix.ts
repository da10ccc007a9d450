/** What candidates of a leg hold of its prompt, by their KV events, and how a decision puts it. */
import type { InstanceId } from '#shared/ids.ts';
import type { CandidateScore } from '#shared/request.ts';
import type { Instance } from '../../fleet/instance.ts';
import type { InstancePrefix } from './prefix-lookup.ts';

/** Of an instance with several ranks, the one whose match is worth most. */
export function heldByInstance(holders: readonly InstancePrefix[]): ReadonlyMap<InstanceId, InstancePrefix> {
  const byInstance = new Map<InstanceId, InstancePrefix>();
  for (const entry of holders) {
    const known = byInstance.get(entry.instance);
    if (known === undefined || worth(entry) > worth(known)) byInstance.set(entry.instance, entry);
  }
  return byInstance;
}

/** Tokens that a match is worth. Of two ranks without any, the more trustworthy one. */
function worth({ matchedTokens, confidence }: InstancePrefix): number {
  return matchedTokens * confidence + confidence * 1e-6;
}

/** What an instance holds of `tokens` prompt tokens; `held` is absent when nothing tells. */
export function describeHeld({ inFlight }: Pick<Instance, 'inFlight'>, held: InstancePrefix | undefined, tokens: number): Omit<CandidateScore, 'instance' | 'name'> {
  if (held === undefined) return { reason: `no KV event stream, ${inFlight} in flight` };
  const { matchedTokens, matchedBlocks, confidence, rank } = held;
  const where = rank === undefined || matchedTokens === 0 ? '' : ` on rank ${rank}`;
  const doubt = confidence < 1 ? `, confidence ${percent(confidence)}` : '';
  return {
    reason: `holds ${matchedTokens} of ${tokens} tokens (${matchedBlocks} blocks)${where}${doubt}, ${inFlight} in flight`,
    matchedTokens,
    matchedBlocks,
    confidence,
  };
}

/** A share as whole percent, never rounded up to certainty. */
export function percent(share: number): string {
  return `${Math.floor(share * 100)} %`;
}

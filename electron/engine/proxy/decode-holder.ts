/** Which decode instance, if any, holds so much of a prompt that a prefill leg would gain nothing. */
import type { Instance } from '../fleet/instance.ts';
import type { DecodeHolder } from './connectors/connector.ts';
import type { PromptView } from './prompt-view.ts';

/** A block that is not there after all costs the decode instance the whole tail, so doubtful events do not count. */
const LEAST_CONFIDENCE = 0.8;

/** @param limit uncached tokens from which on prefill runs. Of several instances the one with the fewest legs, then the smallest rest. */
export function findDecodeHolder(candidates: readonly Instance[], prompt: PromptView, limit: number): DecodeHolder | undefined {
  if (prompt.tokens === undefined) return undefined;
  const holders = prompt.holders();
  const promptTokens = prompt.tokens.length;
  if (typeof holders === 'string') return undefined;
  let best: DecodeHolder | undefined;
  for (const { instance: id, rank, matchedTokens, confidence } of holders) {
    if (confidence < LEAST_CONFIDENCE || promptTokens - matchedTokens >= limit) continue;
    const instance = candidates.find((candidate) => candidate.id === id);
    if (instance === undefined || (best !== undefined && !isBetter({ instance, matchedTokens }, best))) continue;
    best = { instance, ...(rank !== undefined && instance.dpSize > 1 && rank < instance.dpSize && { rank }), promptTokens, matchedTokens, confidence, limit };
  }
  return best;
}

type Rank = Pick<DecodeHolder, 'instance' | 'matchedTokens'>;

function isBetter(one: Rank, other: Rank): boolean {
  const legs = one.instance.inFlight - other.instance.inFlight;
  return legs === 0 ? one.matchedTokens > other.matchedTokens : legs < 0;
}

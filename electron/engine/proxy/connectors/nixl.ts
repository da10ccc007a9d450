/**
 * NIXL pull (NixlConnector, NixlPullConnector): serial. Prefill keeps its blocks, its `kv_transfer_params` go to decode,
 * decode pulls. The steps and their invariants: nixl-pull.ts.
 */
import type { Answer, Connector, LegContext } from './connector.ts';
import { decodeLeg, decodeWithoutHandoff, decodeWithoutPrefill, handoffOf, prefillAnywhere, reasonAgainstPull, unchanged } from './nixl-pull.ts';
import { decodeOnHolder } from './prefill-skip.ts';

export const nixlConnector: Connector = {
  name: 'nixl',
  legs: ['prefill', 'decode'],
  status: () => ({
    connector: 'nixl',
    summary: 'Serial: prefill keeps its blocks, its kv_transfer_params go to decode, decode pulls.',
    notices: [],
    facts: [],
    tables: [],
  }),
  run: runNixl,
};

/** One request that has nothing to do with any other. */
export async function runNixl(context: LegContext): Promise<Answer> {
  const pull = unchanged(context.request);
  const reason = reasonAgainstPull(context.request);
  if (reason !== undefined) return decodeWithoutPrefill(context, pull, reason);
  const holder = context.decodeHolder?.();
  if (holder !== undefined) return decodeOnHolder(context, holder);
  const prefill = await prefillAnywhere(context, pull);
  const handoff = handoffOf(context, prefill);
  if (handoff === undefined) return decodeWithoutHandoff(context, pull, prefill);
  return context.open(decodeLeg(pull, handoff, context.choose('decode')));
}

/**
 * What the handoff moved to the decode side in a window, and how much of that it had. Three witnesses, kept apart:
 *
 * - `received`: the decode engines' own counters of tokens that came from elsewhere, and NIXL's bytes where it counts them.
 * - `legs`: what their KV events say they held of each prompt when its decode leg was sent; of requests that were explained.
 * - `again`: blocks that their KV events say were stored while they were held, a second copy. Two requests with the same
 *   beginning that are fetched at once do that, because neither finds the other's blocks yet. Blocks computed twice count
 *   as well, so it is the most that can have been sent in vain.
 *
 * From these, with what the protocol is known to do (connector-resends.ts), `redundantTokens` of `transferredTokens`:
 * where only missing blocks are sent, the second copies, of what the engines received that tell both; where everything is
 * sent, what was held of the prompts, of these prompts. Where it is not known what is sent, both are absent.
 */
import type { Confidence, HandoffMeasure, KvBytes } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import type { ReceivedTokens } from '../cache-hits/engine-counters.ts';
import { lowestConfidence } from '../kv-index/confidence.ts';
import type { CopySum } from '../kv-index/second-copies.ts';
import type { LegBrief, MissBrief } from '../telemetry/kept-record.ts';
import { resendsOf } from './connector-resends.ts';
import { isFetchingDecode } from './held-at-decode.ts';

/** What it reads of a record. */
export interface HandoffRecord {
  readonly init: { readonly connector: ConnectorName };
  readonly legs: readonly Pick<LegBrief, 'kind' | 'transferParamsSent' | 'instance'>[];
  readonly why: MissBrief | undefined;
}

export interface HandoffInput {
  readonly windowS: number;
  readonly left: readonly InstanceId[];
  readonly right: readonly InstanceId[];
  /** Of the window. */
  readonly records: Iterable<HandoffRecord>;
  /** An engine's counters over the window; undefined when it exposes none. */
  readonly receivedBy: (instance: InstanceId) => ReceivedTokens | undefined;
  /** Second copies that the streams of these instances told of in the window; undefined without a stream. */
  readonly storedAgain: (instances: readonly InstanceId[]) => CopySum | undefined;
  /** Of what these instances' streams tell. */
  readonly confidenceIn: (instances: readonly InstanceId[]) => Confidence;
  /** Of the right side. */
  readonly kvBytes: KvBytes | undefined;
}

export interface HandoffAnswer {
  readonly handoff: HandoffMeasure;
  readonly transferredTokens?: number;
  readonly redundantTokens?: number;
}

export function measureHandoff(input: HandoffInput): HandoffAnswer {
  const { windowS, right, storedAgain, confidenceIn } = input;
  const { connectors, legs } = countLegs(input);
  const received = receivedOf(input, connectors);
  const again = storedAgain(right);
  const resends = resendsOf(connectors);
  const handoff: HandoffMeasure = {
    windowS,
    resends,
    connectors: Array.from(connectors),
    legs,
    ...(received !== undefined && { received }),
    ...(again !== undefined && { again: { ...again, confidence: confidenceIn(right) } }),
  };
  // What may be copies or not leaves no most that can have been sent in vain.
  if (resends === 'missing' && again?.announced === 0) return { handoff, ...redundantOf(input) };
  if (resends === 'all' && legs.known > 0) return { handoff, transferredTokens: legs.promptTokens, redundantTokens: legs.heldTokens };
  return { handoff };
}

/** Of the instances that tell both, so that one is a part of the other. */
function redundantOf({ right, receivedBy, storedAgain }: HandoffInput): Pick<HandoffAnswer, 'transferredTokens' | 'redundantTokens'> {
  const told = right.flatMap((instance) => {
    const [received, again] = [receivedBy(instance), storedAgain([instance])];
    return received === undefined || again === undefined ? [] : [{ received: received.tokens, again: again.tokens }];
  });
  if (told.length === 0) return {};
  return { transferredTokens: told.reduce((sum, one) => sum + one.received, 0), redundantTokens: told.reduce((sum, one) => sum + one.again, 0) };
}

function countLegs({ records, right }: HandoffInput): { readonly connectors: ReadonlySet<ConnectorName>; readonly legs: HandoffMeasure['legs'] } {
  const connectors = new Set<ConnectorName>();
  const confidences: Confidence[] = [];
  let [fetching, promptTokens, heldTokens] = [0, 0, 0];
  for (const { init, legs, why } of records) {
    const held = why?.state === 'ready' ? why.held : undefined;
    for (const [index, leg] of legs.entries()) {
      if (!isFetchingDecode(leg) || !right.includes(leg.instance.id)) continue;
      fetching += 1;
      connectors.add(init.connector);
      if (held?.leg !== index) continue;
      promptTokens += held.promptTokens;
      heldTokens += held.heldTokens;
      confidences.push(held.confidence);
    }
  }
  const confidence = lowestConfidence(confidences);
  return { connectors, legs: { fetching, known: confidences.length, promptTokens, heldTokens, ...(confidence !== undefined && { confidence }) } };
}

/** Sums over the right side; an engine that exposes nothing is not in them, and that is told. */
function receivedOf({ left, right, receivedBy, kvBytes }: HandoffInput, connectors: ReadonlySet<ConnectorName>): HandoffMeasure['received'] {
  const told = right.flatMap((instance) => receivedBy(instance) ?? []);
  if (told.length === 0) return undefined;
  const tokens = told.reduce((sum, one) => sum + one.tokens, 0);
  // With push the prefill engine issues the transfer, and counts its bytes.
  const counting = connectors.size === 1 && connectors.has('nixl-push') ? [...right, ...left] : right;
  const moved = counting.reduce((sum, instance) => sum + (receivedBy(instance)?.nixlBytes ?? 0), 0);
  const bytes = moved > 0 ? moved : kvBytes === undefined ? undefined : tokens * kvBytes.bytesPerToken;
  return {
    tokens,
    from: told.every(({ from }) => from === 'prompt_tokens_by_source') ? 'prompt_tokens_by_source' : 'external_prefix_cache_hits',
    instances: told.length,
    ...(bytes !== undefined && { bytes, bytesFrom: moved > 0 ? 'nixl' : 'tokens' }),
  };
}

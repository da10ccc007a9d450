/**
 * The instance that has least to do for this prompt: what it would have to compute, plus what it has on its hands.
 *
 *   score = 1 - confidence * matched / prompt tokens + 0.5 * (legs - fewest legs) / max(4, mean legs)
 *
 * Lower is better; legs are those under way through pdscope, per data-parallel rank. The first part is the share of the
 * prompt that is not in the instance's cache, with matches worth as much as the events that tell them; the second keeps
 * a popular prefix from burying its holder: a whole hit is given up for the least busy instance once the holder has more
 * than twice the mean (at least 8 legs) more than that. Equal scores take turns.
 *
 * Where nothing tells who holds what, the leg goes to the fewest legs under way, and the decision says why. The other
 * kinds of legs read no cache and are balanced by load always.
 *
 * Cost, measured on one busy core of a 2-core machine: scoring, explanations included, takes 2.3 microseconds of CPU for 4
 * candidates and 7.2 for 32 (least-in-flight: 0.2 and 1.5; 100,000 choices each). 8,192 token ids are read in 20
 * microseconds from a request, in 170 from the text of a render or tokenize answer. A whole request over NIXL costs 3 % more
 * CPU than with round-robin when it brings token ids (220 against 214 microseconds), 5 % more as text without /tokenize, and
 * 44 % more with it (277 against 192): that is the third call, left out where nothing could rest on it (prompt-stage.ts).
 * Asking the index comes beside (PrefixLookup). `npm run bench -- --only routing` measures all of these.
 */
import type { CandidateScore } from '#shared/request.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from '../../fleet/instance.ts';
import type { PromptView } from '../prompt-view.ts';
import { describeHeld, heldByInstance, percent } from './held-prefix.ts';
import { createLeastInFlight } from './least-in-flight.ts';
import { candidateAt, type Policy } from './policy.ts';
import type { InstancePrefix } from './prefix-lookup.ts';

const LOAD_WEIGHT = 0.5;
/** Below this many legs, differences are noise. */
const LOAD_FLOOR = 4;
/** Events that are less trustworthy than this are no better than none. */
const LEAST_CONFIDENCE = 0.2;

/** What a candidate is scored by. */
interface Standing {
  readonly held: InstancePrefix | undefined;
  /** Legs under way, of the rank that holds the prefix where that is known. */
  readonly legs: number;
}

export function createPrefixAware(): Policy {
  const balance = createLeastInFlight();
  const turn = { prefill: 0, decode: 0 };
  return {
    name: 'prefix-aware',
    wantsPrompt: true,
    choose(candidates, kind, prompt) {
      if (!readsCache(kind)) return balance.choose(candidates, kind);
      const [only] = candidates;
      if (only !== undefined && candidates.length === 1 && only.dpSize < 2 && prompt?.tokens === undefined) {
        return { chosen: only, scores: [{ instance: only.id, name: only.name, reason: `the only candidate, ${only.inFlight} in flight` }] };
      }
      const standings = standingsOf(candidates, prompt);
      const isKnown = typeof standings !== 'string';
      const { index, scores } = best(isKnown ? standings : candidates.map((instance) => ({ held: undefined, legs: legsOf(instance, undefined) })), {
        tokens: prompt?.tokens?.length ?? 1,
        first: turn[kind],
      });
      turn[kind] = index + 1;
      const chosen = candidateAt(candidates, index);
      if (!isKnown) return { chosen, scores: candidates.map(byLoad), degraded: `balanced by load: ${standings}` };
      const rank = rankOf(standings[index]?.held, chosen);
      return {
        chosen,
        ...(rank !== undefined && { rank }),
        scores: candidates.map((instance, at) => explained(instance, standings[at]?.held, { score: scores[at] ?? 1, tokens: prompt?.tokens?.length, needless: prompt?.needless })),
      };
    },
  };
}

function byLoad({ id, name, inFlight }: Instance): CandidateScore {
  return { instance: id, name, score: inFlight, reason: `${inFlight} in flight` };
}

/** The rank to pin, of an instance that has several and holds something. */
function rankOf(held: InstancePrefix | undefined, { dpSize }: Instance): number | undefined {
  if (held?.rank === undefined || held.matchedTokens === 0 || dpSize < 2 || held.rank >= dpSize) return undefined;
  return held.rank;
}

function readsCache(kind: LegKind): kind is 'prefill' | 'decode' {
  return kind === 'prefill' || kind === 'decode';
}

/** By candidate, or why there is nothing to go by. */
function standingsOf(candidates: readonly Instance[], prompt: PromptView | undefined): readonly Standing[] | string {
  const holders = prompt?.holders() ?? 'the request has no prompt that could be looked up';
  if (typeof holders === 'string') return holders;
  const byInstance = heldByInstance(holders);
  let trust = -1;
  let doubt: string | undefined;
  const standings = candidates.map((instance): Standing => {
    const held = byInstance.get(instance.id);
    if (held !== undefined && held.confidence > trust) {
      trust = held.confidence;
      doubt = held.doubt;
    }
    return { held, legs: legsOf(instance, held) };
  });
  if (trust < 0) return 'no KV event stream tells what these instances hold';
  if (trust < LEAST_CONFIDENCE) return `KV events cannot be trusted (confidence ${percent(trust)} at best${doubt === undefined ? '' : `: ${doubt}`})`;
  return standings;
}

function legsOf(instance: Instance, held: InstancePrefix | undefined): number {
  const ofRank = held?.rank === undefined || held.matchedTokens === 0 ? undefined : instance.rankInFlight[held.rank];
  return ofRank ?? instance.inFlight / Math.max(1, instance.dpSize);
}

/** The index with the lowest score; the search begins at `first`, so that equals take turns. */
function best(
  standings: readonly Standing[],
  { tokens, first }: { readonly tokens: number; readonly first: number },
): { readonly index: number; readonly scores: readonly number[] } {
  let fewest = Number.POSITIVE_INFINITY;
  let all = 0;
  for (const { legs } of standings) {
    fewest = Math.min(fewest, legs);
    all += legs;
  }
  const scale = LOAD_WEIGHT / Math.max(LOAD_FLOOR, all / standings.length);
  const scores = standings.map(({ held, legs }) => {
    const share = held === undefined ? 0 : (held.confidence * Math.min(held.matchedTokens, tokens)) / tokens;
    return 1 - share + scale * (legs - fewest);
  });
  let index = first % standings.length;
  for (let step = 1; step < standings.length; step += 1) {
    const other = (first + step) % standings.length;
    if ((scores[other] ?? Number.POSITIVE_INFINITY) < (scores[index] ?? Number.POSITIVE_INFINITY)) index = other;
  }
  return { index, scores };
}

function explained(instance: Instance, held: InstancePrefix | undefined, { score, tokens, needless }: { readonly score: number; readonly tokens: number | undefined; readonly needless: string | undefined }): CandidateScore {
  const { id, name, inFlight } = instance;
  const head = { instance: id, name, score: Math.round(score * 1000) / 1000 };
  if (held !== undefined && tokens === undefined) return { ...head, reason: `not looked up (${needless ?? 'no tokens'}), ${inFlight} in flight` };
  return { ...head, ...describeHeld(instance, held, tokens ?? 0) };
}

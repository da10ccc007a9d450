/** What the handoff moved, in rows of words and figures: each row says what it rests on, and how much that covers. */
import type { CacheDifference, Confidence, HandoffMeasure } from '#shared/cache.ts';
import { formatCount, formatInteger, formatPercent } from '../../ui/format.ts';

export interface HandoffRow {
  readonly id: 'received' | 'held' | 'again' | 'redundant';
  readonly what: string;
  /** Absent: it cannot be told, and `basis` says why. */
  readonly tokens?: number;
  readonly bytes?: number;
  /** Of the tokens that it is a part of, 0..1. */
  readonly share?: number;
  readonly basis: string;
  /** Of the KV events that it rests on. */
  readonly confidence?: Confidence;
  /** Worth a look: more than one token in a hundred. */
  readonly isNotable: boolean;
}

/** A share from here on is marked. */
const NOTABLE = 0.01;

/** @param side what the right side is called, e.g. `D`. */
export function handoffRows(difference: CacheDifference, side: string): readonly HandoffRow[] {
  const { handoff } = difference;
  return handoff === undefined ? [] : [receivedRow(difference, handoff, side), heldRow(handoff, side), againRow(difference, handoff, side), redundantRow(difference, handoff, side)];
}

function receivedRow({ right }: CacheDifference, { received }: HandoffMeasure, side: string): HandoffRow {
  const what = `received by ${side}`;
  if (received === undefined) return { id: 'received', what, basis: 'no engine here exposes prompt_tokens_by_source or external_prefix_cache_hits', isNotable: false };
  const { tokens, from, instances, bytes, bytesFrom } = received;
  const size = bytesFrom === 'nixl' ? '; size as NIXL counted it, in whole blocks' : bytesFrom === 'tokens' ? '; size is tokens times bytes per token' : '';
  const counter = from === 'prompt_tokens_by_source' ? 'vllm:prompt_tokens_by_source, external_kv_transfer' : 'vllm:external_prefix_cache_hits';
  return { id: 'received', what, tokens, ...(bytes !== undefined && { bytes }), basis: `${counter}, of ${instances} of ${formatCount(right.length, 'instance')}${size}`, isNotable: false };
}

function heldRow({ legs }: HandoffMeasure, side: string): HandoffRow {
  const what = `held by ${side} when its leg was sent`;
  const { fetching, known, promptTokens, heldTokens, confidence } = legs;
  if (known === 0) {
    return { id: 'held', what, basis: fetching === 0 ? 'no decode leg fetched KV in the window' : `of ${formatCount(fetching, 'decode leg')} none is known: requests are not explained, or the instances have no KV event stream`, isNotable: false };
  }
  return {
    id: 'held', what, tokens: heldTokens, ...(promptTokens > 0 && { share: heldTokens / promptTokens }),
    basis: `of ${formatInteger(promptTokens)} prompt tokens, in ${formatInteger(known)} of ${formatCount(fetching, 'decode leg')} that fetched KV: those of explained requests`,
    ...(confidence !== undefined && { confidence }), isNotable: false,
  };
}

function againRow({ rightBytes }: CacheDifference, { again }: HandoffMeasure, side: string): HandoffRow {
  const what = `stored again though ${side} held it`;
  if (again === undefined) return { id: 'again', what, basis: `no instance of ${side} has a KV event stream`, isNotable: false };
  const { blocks, tokens, announced, confidence } = again;
  const either = announced === 0 ? '' : `; ${formatCount(announced, 'further block')} announced as reused, which a second copy looks like where requests ask for kv_cache_report_mode`;
  return {
    id: 'again', what, tokens, ...(rightBytes !== undefined && { bytes: tokens * rightBytes.bytesPerToken }), confidence, isNotable: false,
    basis: (blocks === 0 ? 'no block is known to have got a second copy' : `second copies of ${formatCount(blocks, 'block')}, fetched or computed: requests with the same beginning at the same time do not find each other’s blocks`) + either,
  };
}

function redundantRow({ redundantTokens, transferredTokens, rightBytes }: CacheDifference, { resends, connectors, legs, again }: HandoffMeasure, side: string): HandoffRow {
  const what = `sent though ${side} had it`;
  const names = connectors.join(', ');
  if (redundantTokens === undefined || transferredTokens === undefined) return { id: 'redundant', what, basis: whyUnknown(resends, names, again), isNotable: false };
  const share = transferredTokens === 0 ? undefined : redundantTokens / transferredTokens;
  const confidence = resends === 'all' ? legs.confidence : again?.confidence;
  return {
    id: 'redundant', what, tokens: redundantTokens, ...(share !== undefined && { share }), ...(rightBytes !== undefined && { bytes: redundantTokens * rightBytes.bytesPerToken }),
    ...(confidence !== undefined && { confidence }), isNotable: share !== undefined && share >= NOTABLE,
    basis: resends === 'all'
      ? `${names} sends whole prompts: what ${side} held, of ${formatInteger(transferredTokens)} tokens of the ${formatCount(legs.known, 'prompt')} known`
      : `${names} sends only blocks that ${side} lacks, so at most the second copies, of ${formatInteger(transferredTokens)} tokens received`,
  };
}

function whyUnknown(resends: HandoffMeasure['resends'], names: string, again: HandoffMeasure['again']): string {
  if (names === '') return 'cannot be told: no decode leg fetched KV in the window';
  if (resends === 'unknown') return `cannot be told: it is not known which blocks ${names} sends`;
  if (resends === 'missing' && again !== undefined && again.announced > 0) return 'cannot be told: second copies look like reuse that is announced where requests ask for kv_cache_report_mode';
  return resends === 'all' ? 'cannot be told: of no prompt is it known what was held' : 'cannot be told: it needs the engines’ counters and KV events of the decode side';
}

/** `12.3 %`, or undefined. */
export function shareText(share: number | undefined): string | undefined {
  return share === undefined ? undefined : `${formatPercent(share)} %`;
}

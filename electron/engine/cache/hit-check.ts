/** What the engine said it found in its cache against what its events say it could have found. Pure. */
import type { MissReport } from '#shared/cache.ts';
import type { Verdict } from '#shared/findings.ts';
import type { LegRecord } from '../telemetry/request-record.ts';

/** Below this confidence a difference says more about the events than about the engine. */
const MIN_CONFIDENCE = 0.9;
/** Tolerated: two blocks, or this share of the prompt. */
const TOLERATED_SHARE = 0.1;
const TOLERATED_BLOCKS = 2;

/** Undefined when they agree, or when one of the two is not known well enough. */
export function disagreement(report: MissReport, leg: Pick<LegRecord, 'kind' | 'usage' | 'instance' | 'transferParamsSent'>): Verdict | undefined {
  const reported = leg.usage?.cachedTokens;
  const { promptTokens = 0, blockSize = 0, ranges, confidence, stream } = report;
  if (reported === undefined || blockSize === 0 || confidence.value < MIN_CONFIDENCE || fetches(leg.transferParamsSent)) return undefined;
  if (ranges.some(({ kind, gap }) => kind === 'unknown' || gap !== undefined)) return undefined;
  const found = ranges.filter(({ kind }) => kind === 'hit').reduce((sum, { tokens }) => sum + tokens, 0);
  const difference = Math.abs(reported - found);
  if (difference <= Math.max(TOLERATED_BLOCKS * blockSize, promptTokens * TOLERATED_SHARE)) return undefined;
  const isMore = reported > found;
  return {
    code: isMore ? 'cache_hit_unseen' : 'cache_hit_missing',
    severity: 'info',
    title: isMore ? 'An engine finds more in its cache than its events tell' : 'An engine finds less in its cache than its events tell',
    message: `${leg.instance.name} reported ${reported} cached tokens of ${promptTokens}; by its KV events (${stream ?? 'no stream'}) ${found} were resident.`,
    nextStep: isMore
      ? 'Look for a cache whose blocks are not announced (an external store), for requests with the same prompt at the same time, or for lost events in the stream.'
      : 'Look for removals that were lost (blocks shown that are gone), for blocks evicted while the request waited, or for a hybrid model, which reuses less than full-attention blocks tell.',
    instance: leg.instance.id,
    hop: leg.kind === 'prefill' ? 'prefill->proxy' : 'decode->proxy',
  };
}

/**
 * The leg was told to fetch KV, which counts as cached too: a decode leg with `do_remote_prefill`, or a prefill leg that is given
 * the blocks of a conversation's last turn. An ordinary prefill leg has `remote_block_ids: null`.
 */
function fetches(params: unknown): boolean {
  if (params === undefined) return false;
  const text = typeof params === 'string' ? params : JSON.stringify(params);
  return /"do_remote_prefill"\s*:\s*true|"remote_block_ids"\s*:\s*\[/.test(text);
}

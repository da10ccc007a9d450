/**
 * Where sources of one instance's hit rate should agree and do not, with what that usually means. Pure.
 *
 * What is compared: on prefill, what pdscope's index promised and what answers reported, against what the engine counted
 * itself; on decode, what answers call cached against what the engine held or received, and whether the handoff brought
 * anything at all. Instances of role `both` mix both kinds of work in one counter and are left out.
 *
 * Like is compared with like: the same window, tokens of prompts, and only where both sides speak of about as many of them.
 * vLLM counts a lookup once, when the request is scheduled (Scheduler.schedule, `record_prefix_cache_stats`), and keeps those of
 * preempted requests out of its counters (PrefixCacheStats.record); older versions count every attempt to schedule (in
 * `get_computed_blocks`), which changes sums more than rates. Answers tell when they end, so a rate is that of answers which ended in the window.
 */
import type { HitDisagreement, HitSource } from '#shared/cache.ts';
import type { Severity } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { HitSum } from './hit-counter.ts';

/** Fewer tokens than this say nothing. */
const LEAST_TOKENS = 1000;
/** Sums of prompts that differ by more than this factor are of different requests. Scrapes and answers tell at different times. */
const MOST_COVERAGE = 1.35;
/** A handoff that brings less than this share brings nothing. */
const NOTHING = 0.02;

export interface InstanceHits {
  readonly instance: InstanceId;
  readonly instanceName: string;
  readonly role: Role;
  readonly hits: Readonly<Partial<Record<HitSource, HitSum>>>;
}

export interface Disagreement extends HitDisagreement {
  /** Stable, as a finding's. */
  readonly code: string;
  readonly severity: Severity;
  readonly title: string;
  readonly nextStep: string;
}

export interface ReconcileOptions {
  /** Shares that differ by less agree. */
  readonly tolerance: number;
  /** Whether prefill legs ran in the window: without them decode has nothing to fetch. */
  readonly hasPrefill: boolean;
}

export function reconcile(one: InstanceHits, { tolerance, hasPrefill }: ReconcileOptions): Disagreement[] {
  const found: Disagreement[] = [];
  const compare = (left: HitSource, rights: readonly HitSource[], judge: Judge): void => {
    const leftSum = sumOf(one, left);
    const right = rights.find((source) => sumOf(one, source) !== undefined);
    const rightSum = right === undefined ? undefined : sumOf(one, right);
    if (leftSum === undefined || right === undefined || rightSum === undefined) return;
    const diagnosis = judge(leftSum, rightSum);
    if (diagnosis === undefined) return;
    found.push({ instance: one.instance, instanceName: one.instanceName, left, right, leftRate: rateOf(leftSum), rightRate: rateOf(rightSum), ...diagnosis, ...(diagnosis === OTHER_REQUESTS && { promptTokens: { left: leftSum.queryTokens, right: rightSum.queryTokens } }) });
  };
  /** Rates of the same requests only: sums of prompts that differ are of other requests, whatever their rates are. */
  const apart = (more: Diagnosis, less: Diagnosis, others?: Diagnosis): Judge => (left, right) => {
    const coverage = left.queryTokens / right.queryTokens;
    if (coverage > MOST_COVERAGE) return undefined;
    if (coverage < 1 / MOST_COVERAGE) return others;
    const difference = rateOf(left) - rateOf(right);
    return Math.abs(difference) < tolerance ? undefined : difference > 0 ? more : less;
  };
  if (one.role === 'prefill') {
    // The index knows what the instance holds itself; the other counters also count what a shared store gave. Only some
    // requests may have been explained: that they are fewer is no news.
    compare('index', ['engine-local', 'by-source', 'prefill-cached-tokens'], apart(INDEX_ONLY, ENGINE_ONLY));
    compare('prefill-cached-tokens', ['by-source', 'engine-local'], apart(ANSWERS_MORE, ANSWERS_LESS, OTHER_REQUESTS));
  }
  if (one.role === 'decode') {
    // Both count what was held and what was fetched (num_cached_tokens is local plus external).
    // Streams tell usage only where clients ask for it (stream_options.include_usage): that answers are fewer is no news.
    compare('decode-cached-tokens', ['by-source'], apart(ANSWERS_MORE, ANSWERS_LESS));
    compare('engine-external', ['by-source', 'decode-cached-tokens', 'engine-local'], (left) => (hasPrefill && rateOf(left) < NOTHING ? NO_HANDOFF : undefined));
  }
  return found;
}

type Diagnosis = Pick<Disagreement, 'code' | 'severity' | 'title' | 'meaning' | 'nextStep'>;
type Judge = (left: HitSum, right: HitSum) => Diagnosis | undefined;

/** Undefined where too little was asked to tell. */
function sumOf({ hits }: InstanceHits, source: HitSource): HitSum | undefined {
  const sum = hits[source];
  return sum === undefined || sum.queryTokens < LEAST_TOKENS ? undefined : sum;
}

function rateOf({ hitTokens, queryTokens }: HitSum): number {
  return Math.min(1, hitTokens / queryTokens);
}

const INDEX_ONLY: Diagnosis = {
  code: 'hits_promised_but_computed',
  severity: 'warning',
  title: 'The engine computed what its events said it held',
  meaning:
    "pdscope's index says hit where the engine counts a miss (local_compute): removals were lost with missing batches, blocks were announced that a request could not use yet (a transfer still under way), or they were evicted while the request waited.",
  nextStep: 'Look at the gaps and the confidence of this instance’s streams, and at why single requests missed. With gaps: enable the replay socket (--kv-events-config replay_endpoint).',
};

const ENGINE_ONLY: Diagnosis = {
  code: 'hits_not_in_events',
  severity: 'info',
  title: 'The engine hits blocks that its events never told',
  meaning:
    'The engine found more than pdscope’s index knew: the stream was joined late, stores were lost with missing batches, requests came past pdscope, or, where the engine has no counter of local hits alone, a shared store or an offloading tier served them.',
  nextStep: 'Look at the confidence of this instance’s streams; a reset of the prefix cache makes the index whole again.',
};

const ANSWERS_MORE: Diagnosis = {
  code: 'hits_answers_more',
  severity: 'warning',
  title: 'Answers tell more cached tokens than the engine counted',
  meaning:
    'cached_tokens of answers are more than the engine’s own counters found in its cache or received, over the same prompts: whoever bills or routes by them is misled. Seen where a proxy between here and the engine rewrites usage, and where an engine counts tokens as cached that it then computed (a load that failed and was recomputed).',
  nextStep: 'Compare one request’s cached_tokens with what its detail says was resident; look for failed loads (kv_load_failure_policy "recompute") and for a proxy that rewrites usage.',
};

const ANSWERS_LESS: Diagnosis = {
  code: 'hits_answers_less',
  severity: 'warning',
  title: 'Answers tell fewer cached tokens than the engine counted',
  meaning:
    'cached_tokens of answers are fewer than the engine’s own counters found in its cache or received, over the same prompts: hits are there, and not told.',
  nextStep: 'Compare one request’s cached_tokens with what its detail says was resident; look for a proxy between here and the engine that rewrites usage.',
};

const OTHER_REQUESTS: Diagnosis = {
  code: 'hits_other_requests',
  severity: 'info',
  title: 'The engine serves prompts whose answers pdscope does not know',
  meaning:
    'The engine counted clearly more prompt tokens than answers with cached_tokens tell, so their rates are of different requests and are not compared: requests reach this engine past pdscope (health checks and benchmarks count as well), or only some answers report cached_tokens.',
  nextStep: 'Start every engine with --enable-prompt-tokens-details, and look for clients that reach it directly.',
};

const NO_HANDOFF: Diagnosis = {
  code: 'hits_no_external',
  severity: 'warning',
  title: 'The handoff brings decode nothing',
  meaning:
    'Prefill legs run, but this decode instance finds (nearly) none of its missing tokens at its KV connector: it computes the prompts itself. kv_transfer_params do not arrive, are refused, or its connector does not match that of prefill.',
  nextStep: 'Look at kv_transfer_params of a request’s legs, at findings of the handoff, and at this engine’s log for failed transfers; check --kv-transfer-config on both sides.',
};

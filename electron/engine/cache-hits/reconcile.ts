/**
 * Where sources of one instance's hit rate should agree and do not, with what that usually means. Pure.
 *
 * What is compared: on prefill, what pdscope's index promised and what answers reported, against what the engine counted
 * itself; on decode, what answers call cached against what was cached there before, and whether the handoff brought
 * anything at all. Instances of role `both` mix both kinds of work in one counter and are left out.
 */
import type { HitDisagreement, HitSource } from '#shared/cache.ts';
import type { Severity } from '#shared/findings.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { HitSum } from './hit-counter.ts';

/** Fewer tokens than this say nothing. */
const LEAST_TOKENS = 1000;
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
    const leftRate = rateOf(one, left);
    const right = rights.find((source) => rateOf(one, source) !== undefined);
    const rightRate = right === undefined ? undefined : rateOf(one, right);
    if (leftRate === undefined || right === undefined || rightRate === undefined) return;
    const diagnosis = judge(leftRate, rightRate, right);
    if (diagnosis === undefined) return;
    found.push({ instance: one.instance, instanceName: one.instanceName, left, right, leftRate, rightRate, ...diagnosis });
  };
  const apart = (more: Diagnosis | undefined, less: Diagnosis | undefined): Judge => (left, right) =>
    Math.abs(left - right) < tolerance ? undefined : left > right ? more : less;
  if (one.role === 'prefill') {
    // The index knows what the instance holds itself; the other counters also count what a shared store gave.
    compare('index', ['engine-local', 'by-source', 'prefill-cached-tokens'], apart(INDEX_ONLY, ENGINE_ONLY));
    compare('prefill-cached-tokens', ['by-source', 'engine-local'], apart(ANSWERS_DIFFER, ANSWERS_DIFFER));
  }
  if (one.role === 'decode') {
    compare('decode-cached-tokens', ['engine-local', 'index'], apart(PULLED, ANSWERS_DIFFER));
    compare('engine-external', ['by-source', 'decode-cached-tokens', 'engine-local'], (left) => (hasPrefill && left < NOTHING ? NO_HANDOFF : undefined));
  }
  return found;
}

type Diagnosis = Pick<Disagreement, 'code' | 'severity' | 'title' | 'meaning' | 'nextStep'>;
type Judge = (left: number, right: number, source: HitSource) => Diagnosis | undefined;

function rateOf({ hits }: InstanceHits, source: HitSource): number | undefined {
  const sum = hits[source];
  return sum === undefined || sum.queryTokens < LEAST_TOKENS ? undefined : Math.min(1, sum.hitTokens / sum.queryTokens);
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

const ANSWERS_DIFFER: Diagnosis = {
  code: 'hits_answers_differ',
  severity: 'info',
  title: 'Answers and counters tell different hit rates',
  meaning:
    'cached_tokens of answers and the engine’s counters differ: requests reach this engine past pdscope (health checks and benchmarks count as well), only some answers report cached_tokens (--enable-prompt-tokens-details), or requests were preempted and counted again.',
  nextStep: 'Compare the tokens asked for: the engine’s counters should be what pdscope sent. Start every engine with --enable-prompt-tokens-details.',
};

const PULLED: Diagnosis = {
  code: 'hits_pulled_count_as_cached',
  severity: 'info',
  title: 'cached_tokens of decode counts pulled tokens',
  meaning:
    'A decode instance reports tokens that it pulled from prefill as cached (num_cached_tokens is local plus external), so its cached_tokens is near the whole prompt with every handoff. What it held before is what the engine’s local counter and the index say.',
  nextStep: 'Nothing: read the local hit rate for what decode could have spared the network.',
};

const NO_HANDOFF: Diagnosis = {
  code: 'hits_no_external',
  severity: 'warning',
  title: 'The handoff brings decode nothing',
  meaning:
    'Prefill legs run, but this decode instance finds (nearly) none of its missing tokens at its KV connector: it computes the prompts itself. kv_transfer_params do not arrive, are refused, or its connector does not match that of prefill.',
  nextStep: 'Look at kv_transfer_params of a request’s legs, at findings of the handoff, and at this engine’s log for failed transfers; check --kv-transfer-config on both sides.',
};

/**
 * Mooncake (MooncakeConnector): prefill pushes, decode asks prefill's worker for it, matched by transfer_id and engine
 * id. vllm/distributed/kv_transfer/kv_connector/v1/mooncake/mooncake_connector.py. The prefill answer carries nothing,
 * so whatever is wrong shows as a decode leg that waits for VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT (480 s).
 */
import { cut } from '../../../cut-text.ts';
import { rankOfEngine } from '../../../fleet/ranks.ts';
import { checks, pulls, requires, type Contract, type Rule, type Subject } from '../rule.ts';
import { hostOfUrl, hostReachable } from './addresses.ts';
import {
  decodeNotTold, DECODED, engineId, EVERY_LEG, kvConnectorIs, kvRole, PAIR, PREFILL_BODY, prefillNotTold, rankOfPair,
} from './common.ts';

const keepsNothing = requires(
  ['transfer_id'],
  {
    code: 'prefill_without_transfer_id',
    severity: 'error',
    title: 'Prefill keeps no KV without a transfer id',
    nextStep: 'Send the same transfer_id on both legs: without it prefill frees its blocks and decode waits for 480 s.',
  },
  (params) => params.isTrue('do_remote_decode'),
);

/** Only FINISHED_LENGTH_CAPPED keeps the KV: a first token that is EOS or a stop token ends by `stop`. */
export const mayEndByStop = checks(
  {
    code: 'prefill_may_end_by_stop',
    severity: 'warning',
    title: 'The prefill leg may end by stop and keep no KV',
    nextStep: 'Send ignore_eos: true and neither stop nor stop_token_ids to prefill.',
  },
  ({ leg, request }) => {
    if (request.api === 'generate' || leg.path !== undefined) return undefined;
    const { json } = request;
    const isKept = (field: string): boolean => !leg.rewrites.some((rewrite) => rewrite.field === field);
    const reasons: string[] = [];
    if (json['ignore_eos'] !== true && isKept('ignore_eos')) reasons.push('no ignore_eos');
    if (isGiven(json['stop']) && isKept('stop')) reasons.push('stop');
    if (isGiven(json['stop_token_ids']) && isKept('stop_token_ids')) reasons.push('stop_token_ids');
    return reasons.length === 0 ? undefined : `The body for ${leg.instance.name} has ${reasons.join(', ')}.`;
  },
);

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0);
}

const decodeIncomplete = requires(
  ['transfer_id', 'remote_engine_id', 'remote_bootstrap_addr'],
  {
    code: 'transfer_incomplete',
    severity: 'error',
    title: 'Decode is not told where to ask for the KV',
    nextStep: 'Send transfer_id, remote_engine_id and remote_bootstrap_addr: with one missing the request waits for a transfer that nobody starts.',
    effect: 'hangs',
  },
  pulls,
);

export function transferIdsDiffer(effect?: 'hangs'): Rule {
  return checks(
    {
      code: 'transfer_id_differs',
      severity: 'error',
      title: 'Prefill and decode got different transfer ids',
      nextStep: 'Send one transfer_id on both legs: the engines find each other by it.',
      ...(effect !== undefined && { effect }),
    },
    ({ memory: { prefill, decode } }) => {
      if (prefill === undefined || decode === undefined || prefill.transferId === decode.transferId || decode.transferId === undefined) return undefined;
      return `transfer_id was ${cut(prefill.transferId ?? 'missing', 80)} for prefill and ${cut(decode.transferId, 80)} for decode.`;
    },
  );
}

export const transferReused = checks(
  {
    code: 'reference_reused',
    severity: 'error',
    title: 'A reference to kept KV was used twice',
    nextStep: 'Make a new transfer_id for every try: prefill gives the blocks of one away once.',
  },
  ({ params, references, request, nowMs, leg }) => {
    const id = params?.string('transfer_id');
    if (id === undefined || id.length > 512) return undefined;
    const earlier = references.use(`transfer/${id}`, request.requestId, nowMs);
    return earlier === undefined ? undefined : `transfer_id ${cut(id, 80)} for ${leg.instance.name} was used ${Math.round(earlier.agoMs)} ms ago by request ${cut(earlier.requestId, 80)}.`;
  },
);

/** What the bootstrap table says about a prefill instance; finds nothing. */
const learnEngine = checks({ code: 'engine_heard', severity: 'info', title: '', nextStep: '' }, ({ params, engines, memory }: Subject) => {
  const id = params?.engineId;
  const prefill = memory.prefill;
  if (id !== undefined && prefill !== undefined) engines.heard(prefill.instance, rankOfEngine(id) ?? prefill.rank ?? 0, id);
  return undefined;
});

const wrongRank = checks(
  {
    code: 'engine_of_another_rank',
    severity: 'error',
    title: 'Decode is told another rank than the one that did the prefill',
    nextStep: "Send X-data-parallel-rank of the rank whose engine id decode gets; check the instance's bootstrap table.",
  },
  rankOfPair,
);

const MOONCAKE_ENGINE = ['MooncakeConnector'];

export const MOONCAKE: Contract = {
  'proxy->prefill': [...EVERY_LEG, kvConnectorIs(MOONCAKE_ENGINE), ...PREFILL_BODY, prefillNotTold, kvRole(true), keepsNothing, mayEndByStop, transferIdsDiffer('hangs')],
  'proxy->decode': [
    ...EVERY_LEG, kvConnectorIs(MOONCAKE_ENGINE), decodeNotTold, kvRole(true), decodeIncomplete, learnEngine, ...engineId('hangs'), wrongRank, transferIdsDiffer('hangs'),
    transferReused, hostReachable('bootstrap_addr_local', 'remote_bootstrap_addr', hostOfUrl), ...PAIR,
  ],
  'decode->proxy': DECODED,
};

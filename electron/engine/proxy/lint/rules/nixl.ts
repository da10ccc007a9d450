/**
 * NIXL pull (NixlConnector, NixlPullConnector), also with blocks kept on decode instances for a conversation's next turn.
 * vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py and base_scheduler.py.
 */
import { cut } from '../../../cut-text.ts';
import type { Instance } from '../../../fleet/instance.ts';
import { blockSizeOf, checks, extraNumber, forbids, isBefore, pulls, requires, type Contract, type Rule, type Subject } from '../rule.ts';
import { hostReachable } from './addresses.ts';
import {
  decodeNotTold, DECODED, engineId, engineSeen, EVERY_LEG, kvConnectorIs, kvRole, PAIR, PAIR_PP, PREFILL_BODY, prefillNotTold,
} from './common.ts';

const COMPLETE_ANSWER = 'Forward the prefill answer whole. If it came like this, check the vLLM version of the prefill instance and what stands between it and pdscope.';

/** Of vLLM, where the engine did not say. */
const DEFAULT_BLOCK_SIZE = 16;

/**
 * The scheduler counts the prompt as external tokens as soon as do_remote_prefill is set; with no blocks named it comes
 * to `assert num_external_tokens == 0` in update_state_after_alloc, and the engine dies. Versions of 2025 hand over whole
 * blocks only and count them alike on both sides: there an empty list is the right answer for a prompt without one.
 */
const pullWithoutBlocks = checks(
  {
    code: 'pull_without_blocks',
    severity: 'error',
    title: 'Told to fetch KV without naming blocks',
    nextStep: COMPLETE_ANSWER,
    effect: 'kills',
    about: 'giver',
  },
  ({ params, memory: { prefill, prefillPromptTokens } }) => {
    if (params === undefined || !params.isWhole || !pulls(params) || !params.isFalsy('remote_block_ids')) return undefined;
    const hasNoWholeBlock = prefill !== undefined && prefillPromptTokens !== undefined && prefillPromptTokens < (blockSizeOf(prefill.instance) ?? DEFAULT_BLOCK_SIZE);
    if (hasNoWholeBlock && params.blocks?.largest === 0) return undefined;
    return `do_remote_prefill is true and remote_block_ids is ${params.raw('remote_block_ids') ?? 'missing'}: an assertion ends the engine.`;
  },
);

const namesBlocks = (params: NonNullable<Subject['params']>): boolean => pulls(params) && !params.isFalsy('remote_block_ids');

/** The request is counted as loading from remote already, so it waits for a transfer that nobody starts. */
const pullIncomplete = requires(
  ['remote_engine_id', 'remote_host', 'remote_port'],
  {
    code: 'pull_incomplete',
    severity: 'error',
    title: 'Told to fetch KV without saying from where',
    nextStep: COMPLETE_ANSWER,
    effect: 'hangs',
    about: 'giver',
  },
  namesBlocks,
);

/** Required since 2025-12-05; engines before that neither send nor need it. */
const pullWithoutRequestId = requires(
  ['remote_request_id'],
  {
    code: 'pull_without_request_id',
    severity: 'error',
    title: 'Told to fetch KV without the request it belongs to',
    nextStep: COMPLETE_ANSWER,
    effect: ({ leg }) => (leg.instance.version === undefined || isBefore(leg.instance, 0, 13) ? undefined : 'hangs'),
    about: 'giver',
  },
  namesBlocks,
);

const noHeartbeats = requires(
  ['tp_size'],
  {
    code: 'no_heartbeats',
    severity: 'warning',
    title: 'Decode cannot keep the blocks alive while it waits',
    nextStep: 'Forward tp_size from the prefill answer: without it decode sends no heartbeats and prefill drops the blocks when the lease ends.',
    about: 'giver',
  },
  namesBlocks,
);

/** Push and pull never interoperate: the handshake compares a hash with the mode in it (nixl/metadata.py). */
export function transferMode(expected: 'pull' | 'push', effect?: 'hangs'): Rule {
  return checks(
    {
      code: 'transfer_mode_mismatch',
      severity: 'error',
      title: 'NIXL push and pull are mixed',
      nextStep: 'Start all instances with the same connector (NixlConnector or NixlPushConnector), and choose the matching protocol in pdscope.',
      about: 'giver',
      ...(effect !== undefined && { effect }),
    },
    ({ params }) => {
      const mode = params?.string('transfer_mode');
      return mode === undefined || mode === expected ? undefined : `transfer_mode is ${cut(mode, 40)}; this protocol is ${expected}.`;
    },
  );
}

/** The pull frees the blocks; a second one reads whatever was put there since (vllm#52234: 200 with another prompt's answer). */
const referenceReused = checks(
  {
    code: 'reference_reused',
    severity: 'error',
    title: 'A reference to kept KV was used twice',
    nextStep: 'Run prefill again instead of sending the same kv_transfer_params twice: the first use frees the blocks, and the second may read those of another prompt.',
  },
  ({ params, references, request, nowMs, leg }) => {
    const reference = params?.reference;
    if (reference === undefined || params?.isFalsy('remote_block_ids') !== false) return undefined;
    const earlier = references.use(reference, request.requestId, nowMs);
    if (earlier === undefined) return undefined;
    const by = earlier.requestId === request.requestId ? 'this request itself' : `request ${cut(earlier.requestId, 80)}`;
    return `The parameters for ${leg.instance.name} were used ${ms(earlier.agoMs)} ago by ${by}.`;
  },
);

/** aws-do-eks#84: 8 of 42 requests decoded from blocks that the lease had freed; all answered 200. */
const lateRead = checks(
  {
    code: 'late_read',
    severity: 'warning',
    title: 'KV is fetched after its lease ended',
    nextStep: 'Find what delayed the leg. The blocks may have been freed and written again; raise kv_lease_duration if such delays are normal.',
  },
  ({ params, references, nowMs, leg }) => {
    const reference = params?.reference;
    const overdue = reference === undefined ? undefined : references.overdue(reference, nowMs);
    if (overdue === undefined) return undefined;
    return `The leg on ${leg.instance.name} starts ${ms(overdue.ageMs)} after the blocks were promised for ${ms(overdue.leaseMs)}.`;
  },
);

function ms(value: number): string {
  return value < 10_000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
}

/** Keeps when an answer's blocks were promised; finds nothing. @param leaseMs by the instance that keeps them. */
function remember(leaseMs: (instance: Instance) => number): Rule {
  return checks({ code: 'reference_given', severity: 'info', title: '', nextStep: '' }, ({ params, references, nowMs, leg }) => {
    const reference = params?.reference;
    if (reference !== undefined && params?.isFalsy('remote_block_ids') === false) references.given(reference, nowMs, leaseMs(leg.instance));
    return undefined;
  });
}

/** kv_lease_duration, seconds; before 2026-05-11 (770e9bd, about 0.22) VLLM_NIXL_ABORT_REQUEST_TIMEOUT of 480 s. */
function prefillLeaseMs(instance: Instance): number {
  return (extraNumber(instance, 'kv_lease_duration') ?? (isBefore(instance, 0, 22) ? 480 : 30)) * 1000;
}

function decodeLeaseMs(instance: Instance): number {
  return (extraNumber(instance, 'decoder_kv_blocks_ttl') ?? 480) * 1000;
}

/** One more than the prompt fills: lookahead slots of speculative decoding. */
const SPARE_BLOCKS = 1;

const blockCount = checks(
  {
    code: 'block_count_mismatch',
    severity: 'warning',
    title: 'The blocks kept do not fit the length of the prompt',
    nextStep: 'Compare --block-size, context parallelism and the attention groups of both instances: decode may read the wrong positions, or compute a part again.',
  },
  ({ params, facts, leg }) => {
    const tokens = facts?.usage?.promptTokens;
    const size = blockSizeOf(leg.instance);
    const blocks = params?.blocks;
    // Groups of a hybrid model hold less than the whole prompt, each by its own rules.
    if (tokens === undefined || size === undefined || size < 1 || blocks === undefined || blocks.groups !== 1 || blocks.largest === 0) return undefined;
    const least = Math.floor(tokens / size);
    const most = Math.ceil((tokens + 1) / size) + SPARE_BLOCKS;
    if (blocks.largest >= least && blocks.largest <= most) return undefined;
    return `${leg.instance.name} kept ${blocks.largest} blocks of ${size} tokens for a prompt of ${tokens}: ${blocks.largest < least ? 'too few' : 'too many'}.`;
  },
);

const tokenCount = checks(
  {
    code: 'token_count_mismatch',
    severity: 'warning',
    title: 'The tokens promised are not those of the prompt',
    nextStep: 'Check that prefill and decode run the same vLLM version; decode would take the rest of the prompt from nowhere or twice.',
  },
  ({ params, facts, leg }) => {
    const told = params?.number('remote_num_tokens');
    const { promptTokens, completionTokens = 1 } = facts?.usage ?? {};
    if (told === undefined || promptTokens === undefined) return undefined;
    // The last token's KV may or may not be computed yet.
    if (told >= promptTokens - 1 && told <= promptTokens + completionTokens) return undefined;
    return `${leg.instance.name} says remote_num_tokens ${told}; the prompt has ${promptTokens} tokens.`;
  },
);

const bidirectionalOff = checks(
  {
    code: 'bidirectional_off',
    severity: 'warning',
    title: 'The engine keeps no blocks for the next turn',
    nextStep: 'Set bidirectional_kv_xfer: true in kv_connector_extra_config on prefill and decode instances, or use the protocol nixl.',
  },
  ({ leg }) => {
    const extra = leg.instance.transfer?.extraConfig;
    if (extra === undefined || extra['bidirectional_kv_xfer'] === true) return undefined;
    return `${leg.instance.name} was started without bidirectional_kv_xfer.`;
  },
);

/** A turn's reference to a decode instance: without one of these prefill computes the whole prompt. */
const turnIncomplete = requires(
  ['remote_block_ids', 'remote_engine_id', 'remote_request_id', 'remote_host', 'remote_port'],
  {
    code: 'turn_reference_incomplete',
    severity: 'warning',
    title: "The last turn's reference is incomplete",
    nextStep: "Forward the decode answer's kv_transfer_params whole; otherwise prefill computes the conversation again.",
  },
  (params) => params.isTrue('do_remote_decode') && (params.has('remote_block_ids') || params.has('remote_engine_id') || params.has('remote_request_id')),
);

const PULL = ['NixlConnector', 'NixlPullConnector'];
const pulling: readonly Rule[] = [pullWithoutBlocks, pullIncomplete, pullWithoutRequestId, ...engineId(undefined), referenceReused, lateRead, transferMode('pull')];

export const NIXL: Contract = {
  'proxy->prefill': [...EVERY_LEG, kvConnectorIs(PULL), ...PREFILL_BODY, prefillNotTold, kvRole(false), pullWithoutBlocks, pullIncomplete],
  'prefill->proxy': [transferMode('pull'), ...engineSeen, remember(prefillLeaseMs), blockCount, tokenCount],
  'proxy->decode': [
    ...EVERY_LEG, kvConnectorIs(PULL), decodeNotTold, kvRole(false), ...pulling, noHeartbeats, hostReachable('remote_host_local', 'remote_host', (host) => host), ...PAIR, ...PAIR_PP,
  ],
  'decode->proxy': DECODED,
};

export const NIXL_BIDIRECTIONAL: Contract = {
  'proxy->prefill': [...(NIXL['proxy->prefill'] ?? []), bidirectionalOff, turnIncomplete, ...engineId(undefined), referenceReused, lateRead],
  'prefill->proxy': NIXL['prefill->proxy'] ?? [],
  'proxy->decode': [...(NIXL['proxy->decode'] ?? []), bidirectionalOff],
  'decode->proxy': [...DECODED, ...engineSeen, remember(decodeLeaseMs)],
};

/**
 * NIXL push (NixlPushConnector, nixl/push_worker.py): both sides are matched by the request id without vLLM's suffix,
 * and the id begins with the API's name, so header and path must be equal on both legs.
 */
const idsDiffer = checks(
  {
    code: 'request_id_differs',
    severity: 'error',
    title: 'Prefill and decode got different request ids',
    nextStep: 'Send the same X-Request-Id on both legs and call the same path: the engines find each other by it.',
    effect: 'hangs',
  },
  ({ memory: { prefill, decode } }) => {
    if (prefill === undefined || decode === undefined) return undefined;
    if (prefill.requestId !== decode.requestId) {
      return `X-Request-Id was ${cut(prefill.requestId ?? 'missing', 80)} for prefill and ${cut(decode.requestId ?? 'missing', 80)} for decode: decode waits for blocks that are pushed to nobody.`;
    }
    if (prefill.path === decode.path) return undefined;
    return `Prefill was sent to ${prefill.path ?? "the client's path"}, decode to ${decode.path ?? "the client's path"}: vLLM puts the API's name before the request id.`;
  },
);

const PUSH = ['NixlPushConnector'];

export const NIXL_PUSH: Contract = {
  'proxy->prefill': [...EVERY_LEG, kvConnectorIs(PUSH), ...PREFILL_BODY, prefillNotTold, kvRole(false), idsDiffer],
  // An answer of another mode is the connector's to report: it runs decode alone then.
  'prefill->proxy': [...engineSeen, tokenCount],
  'proxy->decode': [
    ...EVERY_LEG, kvConnectorIs(PUSH), decodeNotTold, kvRole(false),
    requires(
      ['remote_engine_id', 'remote_host', 'remote_port', 'tp_size'],
      {
        code: 'push_incomplete',
        severity: 'error',
        title: 'Decode is not told where prefill is',
        nextStep: 'Send remote_engine_id, remote_host, remote_port and tp_size: a missing one is a KeyError inside the engine.',
        effect: 'kills',
        about: 'giver',
      },
      pulls,
    ),
    forbids('remote_block_ids', {
      code: 'push_with_blocks',
      severity: 'error',
      title: 'Decode is told block ids although prefill pushes',
      nextStep: 'Leave remote_block_ids out of what decode gets: in push mode decode tells prefill its own blocks.',
      about: 'giver',
    }),
    transferMode('push', 'hangs'), ...engineId(undefined), idsDiffer, hostReachable('remote_host_local', 'remote_host', (host) => host), ...PAIR, ...PAIR_PP,
  ],
  'decode->proxy': DECODED,
};

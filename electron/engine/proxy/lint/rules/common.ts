/** Rules that hold for every protocol that hands KV over, and for the ones that do not. */
import { cut } from '../../../cut-text.ts';
import type { Instance } from '../../../fleet/instance.ts';
import { rankOfEngine, withoutRank } from '../../../fleet/ranks.ts';
import { RANK_HEADER } from '../../headers.ts';
import { blockSizeOf, checks, pulls, type Rule, type Subject } from '../rule.ts';

/** vllm/entrypoints/openai/generate/base/serving.py: a rank out of range is refused with 400. */
const rankOutOfRange = checks(
  {
    code: 'rank_out_of_range',
    severity: 'error',
    title: 'A data-parallel rank that the instance does not have',
    nextStep: 'Leave X-data-parallel-rank to pdscope, or give the instance its number of ranks (dpSize).',
  },
  ({ leg, headers }) => {
    const rank = headers?.[RANK_HEADER];
    const { dpSize, dpSizeSource, name } = leg.instance;
    if (rank === undefined || dpSizeSource === 'default' || !/^\d{1,6}$/.test(rank) || Number(rank) < dpSize) return undefined;
    return `X-data-parallel-rank is ${rank}; ${name} has ${dpSize} rank${dpSize === 1 ? '' : 's'}, counted from 0. It answers 400.`;
  },
);

/**
 * Fields of the client's body that an engine refuses or wastes on a leg of one token, and that are still there.
 * vllm/sampling_params.py (min_tokens), vllm/entrypoints/openai/chat_completion/protocol.py (stream_options).
 */
const prefillBody = checks(
  {
    code: 'prefill_body_not_rewritten',
    severity: 'error',
    title: 'The prefill leg carries fields that do not fit one token',
    nextStep: 'Report this as a bug of pdscope with the request: the prefill body must be rewritten.',
  },
  ({ leg, request }) => {
    // Bodies made of token ids and other routes have fields of their own.
    if (request.api === 'generate' || leg.path !== undefined) return undefined;
    const { json } = request;
    const kept: string[] = [];
    const isKept = (field: string): boolean => !leg.rewrites.some((rewrite) => rewrite.field === field);
    if (json['stream'] === true && isKept('stream')) kept.push('stream=true');
    if (json['stream_options'] !== undefined && json['stream_options'] !== null && isKept('stream_options')) kept.push('stream_options');
    if (isAbove(json['min_tokens'], 1) && isKept('min_tokens')) kept.push(`min_tokens=${String(json['min_tokens'])}`);
    if (isAbove(json['n'], 1) && isKept('n')) kept.push(`n=${String(json['n'])}`);
    if (isAbove(json['max_completion_tokens'], 1) && isKept('max_completion_tokens')) kept.push('max_completion_tokens');
    else if (isAbove(json['max_tokens'], 1) && isKept('max_tokens')) kept.push('max_tokens');
    return kept.length === 0 ? undefined : `The body for ${leg.instance.name} still has ${kept.join(', ')}.`;
  },
);

function isAbove(value: unknown, limit: number): boolean {
  return typeof value === 'number' && value > limit;
}

/** Both legs must tokenise identically: decode reads the KV of exactly those positions. */
const promptTokensDiffer = checks(
  {
    code: 'prompt_tokens_differ',
    severity: 'error',
    title: 'Prefill and decode counted different prompts',
    nextStep: 'Compare model, chat template, tokenizer and vLLM version of both instances: decode read KV of another prompt than its own.',
  },
  ({ facts, memory, leg }) => {
    const decoded = facts?.usage?.promptTokens;
    const { prefillPromptTokens, prefill } = memory;
    if (decoded === undefined || prefillPromptTokens === undefined || prefill === undefined || decoded === prefillPromptTokens) return undefined;
    return `${prefill.instance.name} counted ${prefillPromptTokens} prompt tokens, ${leg.instance.name} ${decoded}.`;
  },
);

/** vllm#42895: all healthy, accuracy 0.031. */
const blockSizeMismatch = checks(
  {
    code: 'block_size_mismatch',
    severity: 'error',
    title: 'Prefill and decode have different KV block sizes',
    nextStep: 'Start both with the same --block-size: blocks are copied as they are, and answers are wrong otherwise.',
  },
  ({ leg, memory, params }) => {
    const giver = memory.prefill?.instance;
    if (params === undefined || giver === undefined || giver === leg.instance) return undefined;
    const given = blockSizeOf(giver);
    const own = blockSizeOf(leg.instance);
    if (given === undefined || own === undefined || given === own) return undefined;
    return `${giver.name} has blocks of ${given} tokens, ${leg.instance.name} of ${own}.`;
  },
);

/** TP sizes may differ when one divides the other (vllm/distributed/kv_transfer/kv_connector/utils.py); else ranks cannot be matched. */
const tpSizeMismatch = checks(
  {
    code: 'tp_size_mismatch',
    severity: 'error',
    title: 'Tensor-parallel sizes of prefill and decode do not fit',
    nextStep: 'Choose tensor-parallel sizes of which one divides the other.',
  },
  ({ leg, memory, params }) => {
    const given = params === undefined ? undefined : (params.number('tp_size') ?? params.number('remote_tp_size') ?? memory.prefill?.instance.transfer?.tpSize);
    const own = leg.instance.transfer?.tpSize;
    if (given === undefined || own === undefined || given < 1 || own < 1 || given % own === 0 || own % given === 0) return undefined;
    return `The parameters say ${given}, ${leg.instance.name} has ${own}.`;
  },
);

const ppSizeMismatch = checks(
  {
    code: 'pp_size_mismatch',
    severity: 'warning',
    title: 'The pipeline-parallel size told to decode is not that of prefill',
    nextStep: 'Check pipeline_parallel_size of the prefill instance and what pdscope knows of it (its transfer facts).',
    about: 'giver',
  },
  ({ memory, params }) => {
    const told = params?.number('pp_size');
    const own = memory.prefill?.instance.transfer?.ppSize;
    if (told === undefined || own === undefined || told === own) return undefined;
    return `The parameters say ${told}, ${memory.prefill?.instance.name ?? 'prefill'} has ${own}.`;
  },
);

/** An engine was started for another protocol than the one in force. */
export function kvConnectorIs(allowed: readonly string[]): Rule {
  return checks(
    {
      code: 'wrong_kv_connector',
      severity: 'error',
      title: 'The engine was started with another KV connector',
      nextStep: `Start it with --kv-transfer-config kv_connector ${allowed[0] ?? ''}, or choose the matching protocol in pdscope.`,
    },
    ({ leg }) => {
      const own = leg.instance.transfer?.kvConnector;
      // What runs inside a MultiConnector is not said.
      if (own === undefined || own === 'MultiConnector' || allowed.includes(own)) return undefined;
      return `${leg.instance.name} runs ${own}; this protocol needs ${allowed.join(' or ')}.`;
    },
  );
}

/** Engines whose connector needs parameters, under a protocol that sends none: nothing is handed over. */
const NEEDS_PARAMS = new Set(['NixlConnector', 'NixlPullConnector', 'NixlPushConnector', 'MooncakeConnector', 'MoRIIOConnector']);

const plainWithoutParams = checks(
  {
    code: 'params_needed',
    severity: 'warning',
    title: "The engine's KV connector needs parameters that this protocol does not send",
    nextStep: 'Choose the protocol of that connector: without kv_transfer_params every decode instance computes the prompt itself.',
  },
  ({ leg }) => {
    const own = leg.instance.transfer?.kvConnector;
    return own !== undefined && NEEDS_PARAMS.has(own) ? `${leg.instance.name} runs ${own}.` : undefined;
  },
);

function kvRoleOf({ leg, params }: Subject): string | undefined {
  if (params === undefined) return undefined;
  const role = leg.instance.transfer?.kvRole;
  if (role === 'kv_producer' && pulls(params)) return `${leg.instance.name} is a kv_producer and gets do_remote_prefill.`;
  if (role === 'kv_consumer' && params.isTrue('do_remote_decode')) return `${leg.instance.name} is a kv_consumer and gets do_remote_decode.`;
  return undefined;
}

/** Mooncake asserts on its role (mooncake_connector.py); the others are only told a thing they were not started for. */
export function kvRole(isStrict: boolean): Rule {
  return checks(
    {
      code: 'kv_role_mismatch',
      severity: isStrict ? 'error' : 'warning',
      title: "A leg against the engine's kv_role",
      nextStep: 'Register the instance with the role it was started for, or start it with the matching kv_role.',
      ...(isStrict && { effect: 'kills' }),
    },
    kvRoleOf,
  );
}

/** Without being told to keep its KV, the prefill instance frees it at once. */
export const prefillNotTold = checks(
  {
    code: 'prefill_not_told_to_keep',
    severity: 'warning',
    title: 'Prefill was not asked to keep its KV',
    nextStep: 'Send do_remote_decode: true to prefill; without it decode computes the prompt itself.',
  },
  ({ leg, params }) => {
    if (params === undefined) return `The leg on ${leg.instance.name} carries no kv_transfer_params.`;
    return params.isTrue('do_remote_decode') || !params.isWhole ? undefined : `do_remote_decode is ${params.raw('do_remote_decode') ?? 'missing'}.`;
  },
);

export const decodeNotTold = checks(
  {
    code: 'decode_not_told_to_pull',
    severity: 'warning',
    title: 'Decode was given parameters, but not told to use them',
    nextStep: 'Check what changed the parameters between prefill and decode: do_remote_prefill must be true.',
    about: 'giver',
  },
  ({ params }) => {
    if (params === undefined || !params.isWhole || pulls(params)) return undefined;
    return `do_remote_prefill is ${params.raw('do_remote_prefill') ?? 'missing'}: decode computes the prompt itself.`;
  },
);

/** @param effect what a wrong engine id does: a pull fails at the handshake, a Mooncake decode waits for 480 s. */
export function engineId(effect: 'hangs' | undefined): readonly Rule[] {
  return [
    checks(
      {
        code: 'stale_engine_id',
        severity: 'error',
        title: "Parameters from an engine's previous life",
        nextStep: 'Nothing, if the instance has just been restarted: its KV is gone. If it stays, whatever keeps engine ids was not told of the restart.',
        ...(effect !== undefined && { effect }),
      },
      ({ params, engines, leg }) => {
        const id = params?.engineId;
        const note = id === undefined ? undefined : engines.find(id);
        if (id === undefined || note === undefined || note.isCurrent) return undefined;
        return `The parameters for ${leg.instance.name} name engine ${cut(id, 80)}, which ${note.instanceName} was before it restarted.`;
      },
    ),
    checks(
      {
        code: 'engine_id_of_another',
        severity: 'error',
        title: 'Parameters of another instance than the one that did the prefill',
        nextStep: 'Give every engine an engine_id of its own (or none), and check what routes requests between pdscope and the engines.',
        ...(effect !== undefined && { effect }),
      },
      ({ params, engines, memory, leg }) => {
        const id = params?.engineId;
        const prefill = memory.prefill?.instance;
        if (id === undefined || prefill === undefined || leg.kind !== 'decode') return undefined;
        const note = engines.find(id);
        if (note === undefined || !note.isCurrent || note.origin === prefill.origin) return undefined;
        return `The parameters for ${leg.instance.name} name the engine of ${note.instanceName}; prefill was ${prefill.name}'s.`;
      },
    ),
  ];
}

/** Learns an engine id from an instance's own answer, and says what is odd about it. */
export const engineSeen: readonly Rule[] = [
  checks(
    {
      code: 'engine_id_conflict',
      severity: 'warning',
      title: 'Two engines behind one name',
      nextStep: 'Give every engine its own address and its own engine_id: behind a load balancer, decode pulls from an engine that pdscope cannot tell apart.',
    },
    ({ params, leg, engines }) => {
      const id = params?.engineId;
      if (id === undefined) return undefined;
      const { sharedWith, alternatesWith } = engines.saw(leg.instance, rankOfEngine(id) ?? leg.rank ?? 0, id);
      if (sharedWith !== undefined) return `${leg.instance.name} and ${sharedWith} both are engine ${cut(id, 80)}.`;
      if (alternatesWith !== undefined) return `${leg.instance.name} is engine ${cut(id, 80)} again, after ${cut(alternatesWith, 80)}.`;
      return undefined;
    },
  ),
  checks(
    {
      code: 'remote_port_wrong_for_rank',
      severity: 'warning',
      title: 'A side channel port that does not fit the rank',
      nextStep: 'Set VLLM_NIXL_SIDE_CHANNEL_PORT to one base port for all ranks of the instance: rank r listens on base + r.',
    },
    ({ params, leg, engines }) => {
      const port = params?.number('remote_port');
      const id = params?.engineId;
      if (port === undefined) return undefined;
      const rank = (id === undefined ? undefined : rankOfEngine(id)) ?? leg.rank ?? 0;
      const expected = engines.expectedPort(leg.instance, rank, port);
      return expected === undefined ? undefined : `Rank ${rank} of ${leg.instance.name} reports port ${port}; after its other ranks it should be ${expected}.`;
    },
  ),
];

/** A role mixed up in the fleet: the rank told to decode is not the one that did the prefill. */
export function rankOfPair({ params, memory }: Subject): string | undefined {
  const id = params?.engineId;
  const prefill = memory.prefill;
  const told = id === undefined ? undefined : rankOfEngine(id);
  if (told === undefined || prefill?.rank === undefined || told === prefill.rank) return undefined;
  return `Prefill ran on rank ${prefill.rank} of ${prefill.instance.name}; decode is told engine ${cut(withoutRank(id ?? ''), 60)}, rank ${told}.`;
}

export function hostOf({ origin }: Instance): string {
  const start = origin.indexOf('//') + 2;
  const end = origin.lastIndexOf(':');
  const host = origin.slice(start, end > start && !origin.endsWith(']') ? end : undefined);
  return host.startsWith('[') ? host.slice(1, -1) : host;
}

export const EVERY_LEG: readonly Rule[] = [rankOutOfRange];
export const PREFILL_BODY: readonly Rule[] = [prefillBody];
export const PAIR: readonly Rule[] = [blockSizeMismatch, tpSizeMismatch];
export const PAIR_PP: readonly Rule[] = [ppSizeMismatch];
export const DECODED: readonly Rule[] = [promptTokensDiffer];
export const WITHOUT_PARAMS: readonly Rule[] = [plainWithoutParams];

/**
 * The steps of a NIXL pull (vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py), for the connectors
 * that are built on it: the prefill leg asks to keep its KV for a remote decode; the `kv_transfer_params` of its answer
 * go to the decode instance as the very bytes they came in, unknown fields and 64-bit numbers included.
 *
 * Invariants: params are used once. A decode leg that failed may have begun to pull, so it is never repeated with the
 * same params; the whole pair runs again. Without params (an aborted prefill answers null) the decode instance
 * computes the prompt itself: that run is decode-only and is recorded as such, not taken for a handoff.
 */
import { reasonAgainstHandoff, type ClientRequest } from '../client-request.ts';
import { memberValue } from '../json-members.ts';
import { decodeBody, describeRewrite, editedBody, prefillBody, type FieldEdits } from '../prefill-body.ts';
import type { Answer, LegAnswer, LegContext, LegRequest, LegTarget } from './connector.ts';
import { decodeOnlyVerdict } from './decode-only.ts';
import { correctRemoteHost, remoteHostVerdict } from './remote-host.ts';
import { KV_TRANSFER_PARAMS, transferParamsForRecord } from './transfer-params.ts';

/** Only do_remote_decode is tested by the engine; the nulls are customary. */
const PREFILL_PARAMS_JSON = JSON.stringify({
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
});
const OPEN_BRACE = 0x7b;

/** What the legs are made from. */
export interface PullRequest {
  readonly request: ClientRequest;
  /** Changes for every leg. */
  readonly also: FieldEdits;
}

const UNCHANGED: FieldEdits = new Map();

export function unchanged(request: ClientRequest): PullRequest {
  return { request, also: UNCHANGED };
}

/** Why the request cannot be handed over, or undefined. */
export function reasonAgainstPull(request: ClientRequest): string | undefined {
  return reasonAgainstHandoff(request.json) ?? reasonAgainstPromptList(request);
}

/** Each prompt of a list is a sequence of its own, but the answer has room for one set of params. */
function reasonAgainstPromptList({ json }: ClientRequest): string | undefined {
  const prompt = json['prompt'];
  if (!Array.isArray(prompt) || prompt.length < 2 || typeof prompt[0] === 'number') return undefined;
  return `${prompt.length} prompts: the handoff serves one sequence`;
}

export interface PrefillDone {
  readonly target: LegTarget;
  readonly answer: LegAnswer;
}

/** Runs a prefill leg once. @param params its kv_transfer_params, JSON text; default: keep the KV, read nothing. */
export async function prefillOnce(
  context: LegContext,
  { request, also }: PullRequest,
  { target, params = PREFILL_PARAMS_JSON }: { readonly target: LegTarget; readonly params?: string },
): Promise<PrefillDone> {
  const answer = await context.call({ kind: 'prefill', ...target, ...prefillBody(request, { transferParams: params, also }), kvTransferParams: params });
  return { target, answer };
}

/** Runs a prefill leg on an instance of the policy's choice, on another when that one fails. */
export function prefillAnywhere(context: LegContext, pull: PullRequest): Promise<PrefillDone> {
  return context.repeat('prefill', (target) => prefillOnce(context, pull, { target }));
}

export interface Handoff {
  /** For the decode leg, JSON text. */
  readonly params: Buffer;
  readonly forRecord: unknown;
}

/** The params of a prefill answer as the decode instance is to get them, or `undefined` when there are none. */
export function handoffOf(context: LegContext, { target, answer }: PrefillDone): Handoff | undefined {
  const params = memberValue(answer.body, answer.members, KV_TRANSFER_PARAMS);
  if (params === undefined || params[0] !== OPEN_BRACE) return undefined;
  const corrected = correctRemoteHost(params, target.instance);
  if (corrected === undefined) return { params, forRecord: answer.facts.kvTransferParams };
  context.report(remoteHostVerdict(corrected, target.instance, 'prefill->proxy'));
  return { params: corrected.params, forRecord: transferParamsForRecord(corrected.params) };
}

/** The decode leg of a handoff. */
export function decodeLeg({ request, also }: PullRequest, handoff: Handoff, target: LegTarget): LegRequest {
  return { kind: 'decode', ...target, ...decodeBody(request, handoff.params, also), kvTransferParams: handoff.forRecord };
}

/** The request itself rules a handoff out: no prefill leg. No handoff, so a failed decode leg is simply repeated elsewhere. */
export function decodeWithoutPrefill(context: LegContext, pull: PullRequest, reason: string): Promise<Answer> {
  return decodeOnly(context, pull, { why: `left out: ${reason}`, field: '(prefill leg)', severity: 'info' });
}

/** The prefill answer had no params. */
export function decodeWithoutHandoff(context: LegContext, pull: PullRequest, { answer }: PrefillDone): Promise<Answer> {
  const params = memberValue(answer.body, answer.members, KV_TRANSFER_PARAMS);
  const what = params === undefined ? 'missing' : params.toString('utf8', 0, 100);
  const why = `none: the prefill answer's kv_transfer_params were ${what}`;
  return decodeOnly(context, pull, { why, field: KV_TRANSFER_PARAMS, severity: 'warning' });
}

interface DecodeOnly {
  readonly why: string;
  readonly field: string;
  readonly severity: 'info' | 'warning';
}

function decodeOnly(context: LegContext, { request, also }: PullRequest, { why, field, severity }: DecodeOnly): Promise<Answer> {
  context.report(decodeOnlyVerdict(why, severity));
  const { body, rewrites } = editedBody(request, also);
  const leg = { kind: 'decode', body, rewrites: [...rewrites, describeRewrite(field, undefined, why)] } as const;
  return context.repeat('decode', (target) => context.open({ ...leg, ...target }));
}

/**
 * One request over a MoRIIO pair. READ: serial, decode reads the blocks that prefill's answer names. WRITE: both legs at
 * once, prefill writes into the blocks that decode tells it over their own sockets, so a prefill that fails must be
 * noticed here: decode would wait for its timeout.
 *
 * Invariants. Each try has a transfer id of its own, and a failed leg of either kind makes the pair run anew: params are
 * never used twice. The client's token cap goes to decode unchanged: prefill's one token is discarded, and decode, which
 * has the original prompt, samples every token itself, the first included (READ counts the last prompt token as not
 * loaded, and vLLM's scheduler recomputes it after a full asynchronous load). The toy proxies take one off, and answer
 * one token short.
 *
 * A request without handoff runs whole on a prefill instance. A decode instance (kv_consumer) takes every prompt for
 * remote, whether it has parameters or not (`get_num_new_matched_tokens` in moriio_connector.py, all versions up to
 * 2026-08): in WRITE mode it would wait for ever, in READ mode answer from blocks that nobody filled. A prefill instance
 * (kv_producer) without parameters is an ordinary engine.
 */
import type { Instance } from '../../../fleet/instance.ts';
import { chooseRank } from '../../../fleet/ranks.ts';
import { editMembers, memberValue } from '../../json-members.ts';
import { decodeBody, describeRewrite, prefillBody, type RewrittenBody } from '../../prefill-body.ts';
import { ProxyError } from '../../proxy-error.ts';
import { KV_TRANSFER_PARAMS, transferParamsForRecord } from '../transfer-params.ts';
import type { Answer, LegContext, LegTarget } from '../connector.ts';
import type { MoriioRegistration } from './message.ts';
import { answeredZmqAddress, newIdEnd, newTransferId, pairRequestId, prefillParams, readAnswered, readDecodeParams, writeDecodeParams } from './params.ts';
import type { Registry } from './registry.ts';
import { addressMismatch, failedAfterHandoff, servedWhole } from './verdicts.ts';

const RANK_HEADER = 'x-data-parallel-rank';
const ID_END_LENGTH = 32;

interface Side {
  readonly target: LegTarget;
  readonly registration: MoriioRegistration;
}

/** What one try has settled before its first leg. */
interface Pair {
  readonly prefill: Side;
  readonly decode: Side;
  readonly transferId: string;
  readonly prefillRank: number;
  /** X-Request-Id of both legs; undefined for engines that read the parameters only. */
  readonly requestId: string | undefined;
}

/** Chooses a pair and runs the legs in the mode in force. */
export function runPair(context: LegContext, registry: Registry): Promise<Answer> {
  const prefill = choosePrefill(context, registry);
  const decode = chooseDecode(context, registry);
  const hasIds = prefill.registration.schema === 'v2' || decode.registration.schema === 'v2';
  const pair: Pair = {
    prefill,
    decode,
    transferId: newTransferId(),
    prefillRank: prefill.target.rank ?? 0,
    requestId: hasIds ? pairRequestId(prefill.registration.zmqAddress, decode.registration.zmqAddress, newIdEnd()) : undefined,
  };
  return prefill.registration.mode === 'READ' ? runRead(context, pair) : runWrite(context, pair);
}

async function runRead(context: LegContext, pair: Pair): Promise<Answer> {
  const { prefill, decode } = pair;
  const answer = await callPrefill(context, pair);
  const answered = readAnswered(memberValue(answer.body, answer.members, KV_TRANSFER_PARAMS));
  if (typeof answered === 'string') {
    const { finishReason } = answer.facts;
    const why = finishReason === undefined || finishReason === 'length' ? answered : `${answered}: its one token ended by ${finishReason}, not by length`;
    return runWhole(context, `the prefill leg on ${prefill.target.instance.name} kept no KV, ${why}`, 'warning');
  }
  const params = readDecodeParams(answered, { prefill: prefill.registration, decode: decode.registration }, pair);
  return context.open({
    kind: 'decode',
    ...decode.target,
    ...decodeBody(context.request, params),
    kvTransferParams: transferParamsForRecord(params),
    ...requestIdHeader(currentRequestId(context, pair, answeredZmqAddress(answered))),
  });
}

/**
 * Decode finds prefill through the request id, and the answer names an address too. When they differ, the engine was
 * restarted since its last ping; the answer is about these very blocks, so the id follows it.
 */
function currentRequestId(context: LegContext, { requestId, prefill, decode }: Pair, answered: string | undefined): string | undefined {
  const { host, handshakePort, notifyPort } = prefill.registration;
  const registered = `host:${host},handshake:${handshakePort},notify:${notifyPort}`;
  if (requestId === undefined || answered === undefined || answered === registered) return requestId;
  context.report(addressMismatch(prefill.target.instance, answered, registered));
  return pairRequestId(answered, decode.registration.zmqAddress, requestId.slice(-ID_END_LENGTH));
}

/** How far the two legs of WRITE mode are. */
interface WriteState {
  decode: 'waiting' | 'answering' | 'over';
  /** How the prefill leg ended when it kept no KV. */
  endedBy?: string;
}

async function runWrite(context: LegContext, pair: Pair): Promise<Answer> {
  const { prefill, decode } = pair;
  const params = writeDecodeParams(prefill.registration, decode.registration, pair);
  const state: WriteState = { decode: 'waiting' };
  void watchPrefill(context, prefill.target.instance, { leg: callPrefill(context, pair), state });
  try {
    const answer = await context.open({
      kind: 'decode',
      ...decode.target,
      ...decodeBody(context.request, Buffer.from(params)),
      kvTransferParams: params,
      ...requestIdHeader(pair.requestId),
    });
    state.decode = 'answering';
    return answer;
  } catch (error) {
    state.decode = 'over';
    if (state.endedBy === undefined) throw error;
    return await runWhole(context, `the prefill leg on ${prefill.target.instance.name} ended by ${state.endedBy}, not by length, and kept no KV`, 'warning');
  }
}

/** With its first byte decode has all KV and needs prefill no longer; before, a prefill that fails must end its wait. */
async function watchPrefill(context: LegContext, instance: Instance, { leg, state }: { readonly leg: ReturnType<LegContext['call']>; readonly state: WriteState }): Promise<void> {
  try {
    const { finishReason } = (await leg).facts;
    if (state.decode !== 'waiting' || finishReason === undefined || finishReason === 'length') return;
    state.endedBy = finishReason;
    context.cancelLegs(new ProxyError(502, 'no_handoff', `The prefill leg ended by ${finishReason}, not by length, and kept no KV.`));
  } catch (error) {
    // Cancelled from outside: by the client's leaving, or by the end of the decode leg.
    if (!(error instanceof ProxyError) || error.leg !== 'prefill') return;
    if (state.decode === 'waiting') context.cancelLegs(error);
    else if (state.decode === 'answering') context.report(failedAfterHandoff(instance, error.message));
  }
}

function callPrefill(context: LegContext, { prefill, decode, transferId, requestId }: Pair): ReturnType<LegContext['call']> {
  const transferParams = prefillParams(prefill.registration, decode.registration, transferId);
  return context.call({
    kind: 'prefill',
    ...prefill.target,
    ...prefillBody(context.request, { transferParams, mustEndByLength: true }),
    kvTransferParams: transferParams,
    ...requestIdHeader(requestId),
  });
}

/** The whole request on one prefill instance, without parameters. No handoff, so it can be repeated on another. */
export async function runWhole(context: LegContext, why: string, severity: 'info' | 'warning'): Promise<Answer> {
  context.report(servedWhole(why, severity));
  const { body, rewrites } = bodyWithoutParams(context, why);
  let failure: unknown;
  try {
    return await context.repeat('prefill', async (target) => {
      try {
        return await context.open({ kind: 'decode', ...target, body, rewrites });
      } catch (error) {
        failure = error;
        throw error;
      }
    });
  } catch (error) {
    // Why the last instance failed says more than that none is left.
    throw error instanceof ProxyError && error.code === 'no_instance' && failure instanceof ProxyError ? final(failure) : error;
  }
}

/** The leg's kind is decode, so the core would look for another decode instance, which cannot help. */
function final(error: ProxyError): ProxyError {
  const { status, code, message, leg, instance, headers } = error;
  return new ProxyError(status, code, message, { headers, cause: error, ...(leg !== undefined && { leg }), ...(instance !== undefined && { instance }) });
}

function bodyWithoutParams({ request }: LegContext, why: string): RewrittenBody {
  const rewrites = [describeRewrite('(handoff)', undefined, `left out: ${why}`)];
  const own = memberValue(request.body, request.members, KV_TRANSFER_PARAMS);
  if (own === undefined) return { body: request.body, rewrites };
  return {
    body: editMembers(request.body, request.members, new Map([[KV_TRANSFER_PARAMS, undefined]])),
    rewrites: [...rewrites, describeRewrite(KV_TRANSFER_PARAMS, own.toString('utf8', 0, 400), undefined)],
  };
}

/** A client's own rank is meant for prefill, where it decides about prefix cache hits. */
function choosePrefill(context: LegContext, registry: Registry): Side {
  const target = context.choose('prefill');
  const wanted = wantedRank(context);
  if (wanted === undefined) return side(pinned(target, context), registry);
  return side({ ...target, rank: wanted }, registry);
}

/** Decode keeps a rank of its own: prefill's may not exist there, which the engine refuses with 400. */
function chooseDecode(context: LegContext, registry: Registry): Side {
  const target = context.choose('decode');
  const wanted = wantedRank(context);
  if (wanted !== undefined && wanted < target.instance.dpSize) return side({ ...target, rank: wanted }, registry);
  return side(pinned(target, context), registry);
}

/** With a header of the client's the core pins nothing, and would pass that header on. */
function pinned(target: LegTarget, { request }: LegContext): LegTarget {
  if (request.headers[RANK_HEADER] === undefined) return target;
  return { ...target, rank: chooseRank(target.instance) ?? 0 };
}

/** The client's rank; texts that are no number are ignored, as the engine does. */
function wantedRank({ request }: LegContext): number | undefined {
  const header = request.headers[RANK_HEADER];
  return typeof header === 'string' && /^\d{1,6}$/.test(header) ? Number(header) : undefined;
}

function side(target: LegTarget, registry: Registry): Side {
  const registration = registry.of(target.instance);
  if (registration === undefined) throw unregistered(target.instance);
  return { target, registration };
}

function unregistered(instance: Instance): ProxyError {
  return new ProxyError(503, 'no_registration', `${instance.name} (${instance.origin}) has no MoRIIO registration any more.`, { instance, retryable: true });
}

function requestIdHeader(requestId: string | undefined): { readonly headers?: { readonly 'x-request-id': string } } {
  return requestId === undefined ? {} : { headers: { 'x-request-id': requestId } };
}

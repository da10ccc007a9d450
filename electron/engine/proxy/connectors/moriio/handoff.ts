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
 */
import type { Instance } from '../../../fleet/instance.ts';
import { memberValue } from '../../json-members.ts';
import { decodeBody, prefillBody } from '../../prefill-body.ts';
import { ProxyError } from '../../proxy-error.ts';
import type { Answer, LegContext } from '../connector.ts';
import { KV_TRANSFER_PARAMS, transferParamsForRecord } from '../transfer-params.ts';
import { choosePair, type Pair } from './pair.ts';
import { answeredZmqAddress, pairRequestId, prefillParams, readAnswered, readDecodeParams, writeDecodeParams } from './params.ts';
import type { Registry } from './registry.ts';
import { addressMismatch, failedAfterHandoff } from './verdicts.ts';
import { runWhole } from './whole.ts';

/** Of the hexadecimal digits that make it unique. */
const ID_END_LENGTH = 32;

/** Chooses a pair and runs the legs in the mode in force. */
export function runPair(context: LegContext, registry: Registry): Promise<Answer> {
  const pair = choosePair(context, registry);
  return pair.prefill.registration.mode === 'READ' ? runRead(context, pair) : runWrite(context, pair);
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

function requestIdHeader(requestId: string | undefined): { readonly headers?: { readonly 'x-request-id': string } } {
  return requestId === undefined ? {} : { headers: { 'x-request-id': requestId } };
}

/** One try of one NIXL push request: what each leg carries, and what prefill's answer means for a decode leg under way. */
import type { Api } from '#shared/vocabulary.ts';
import type { Instance } from '../../../fleet/instance.ts';
import { memberValue } from '../../json-members.ts';
import { decodeBody, prefillBody } from '../../prefill-body.ts';
import { describeLeg, ProxyError } from '../../proxy-error.ts';
import { ConcurrentPair } from '../concurrent-pair.ts';
import type { LegAnswer, LegContext, LegRequest, LegTarget } from '../connector.ts';
import { KV_TRANSFER_PARAMS } from '../transfer-params.ts';
import { isSamePlace, readAnswer, type Coordinates, type ReadAnswer } from './coordinates.ts';
import type { Slot, Slots } from './slots.ts';

/** As for pull: only do_remote_decode is tested, the nulls are customary. */
const PREFILL_PARAMS = JSON.stringify({
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
});

/** Code of the error of a pair whose prefill is not the engine that decode was told of. */
export const RESTARTED = 'prefill_restarted';

export interface HandoffInit {
  readonly target: LegTarget;
  readonly slot: Slot;
  /** X-Request-Id of both legs. */
  readonly id: string;
}

export interface PushPairInit extends HandoffInit {
  readonly decode: LegTarget;
  readonly told: Coordinates;
  readonly slots: Slots;
}

/** One try with both legs at once. */
export class PushPair extends ConcurrentPair {
  /** What decode was told. */
  readonly told: Coordinates;
  readonly #slot: Slot;
  readonly #slots: Slots;
  /** Prefill's answer does not fit what decode was told; `reason` is what decode was cancelled with. */
  refused: { readonly read: ReadAnswer; readonly reason: ProxyError } | undefined;

  constructor(context: LegContext, init: PushPairInit) {
    const { request } = context;
    const params = `${init.slot.head}${JSON.stringify(ENGINE_REQUEST_ID[request.api](init.id))}}`;
    super(context, {
      prefill: prefillLeg(context, init),
      decode: { kind: 'decode', ...init.decode, ...decodeBody(request, Buffer.from(params)), kvTransferParams: params, ...idHeader(context, init.id) },
    });
    this.told = init.told;
    this.#slot = init.slot;
    this.#slots = init.slots;
  }

  protected override prefillEnded(answer: LegAnswer): ProxyError | undefined {
    const { instance } = this.prefill;
    const read = readAnswer(memberValue(answer.body, answer.members, KV_TRANSFER_PARAMS), instance);
    if (read.kind === 'push') {
      this.#slots.learn(this.#slot, read.coordinates);
      if (isSamePlace(this.told, read.coordinates)) return undefined;
    }
    const reason = read.kind === 'push' ? restarted(instance, 'its answer names another engine than decode was told') : notHandedOver(instance, read.why);
    this.refused = { read, reason };
    return reason;
  }
}

export function prefillLeg(context: LegContext, { target, id }: HandoffInit): LegRequest {
  return { kind: 'prefill', ...target, ...prefillBody(context.request, { transferParams: PREFILL_PARAMS }), kvTransferParams: PREFILL_PARAMS, ...idHeader(context, id) };
}

export function idHeader({ request }: LegContext, id: string): Pick<LegRequest, 'headers'> {
  return id === request.requestId ? {} : { headers: { 'x-request-id': id } };
}

/** What vLLM makes of the header, without its random suffix (vllm/entrypoints/serve/engine/serving.py). Not used for matching. */
const ENGINE_REQUEST_ID: Readonly<Record<Api, (id: string) => string>> = {
  chat: (id) => `chatcmpl-${id}`,
  completions: (id) => `cmpl-${id}-0`,
  generate: (id) => `generate-tokens-${id}`,
};

/** Prefill is not the engine that decode was told of. */
export function restarted(instance: Instance, why: string): ProxyError {
  const message = `${describeLeg('prefill', instance)}: the engine is not the one that decode was told of (${why}).`;
  return new ProxyError(502, RESTARTED, message, { leg: 'prefill', instance, retryable: true, mayRepeatOnSame: true });
}

function notHandedOver(instance: Instance, why: string): ProxyError {
  return new ProxyError(502, 'no_handoff', `${describeLeg('prefill', instance)} handed nothing over: ${why}.`, { instance });
}

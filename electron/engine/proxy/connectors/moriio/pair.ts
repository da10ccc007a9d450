/**
 * Which instances and ranks a request uses, and the ids that tie its legs together. Both are chosen before the first leg
 * starts, because prefill is told who decode is.
 */
import type { Instance } from '../../../fleet/instance.ts';
import { chooseRank } from '../../../fleet/ranks.ts';
import { RANK_HEADER } from '../../headers.ts';
import { ProxyError } from '../../proxy-error.ts';
import { clientRank } from '../client-rank.ts';
import type { LegContext, LegTarget } from '../connector.ts';
import type { MoriioRegistration } from './message.ts';
import { newIdEnd, newTransferId, pairRequestId } from './params.ts';
import type { Registry } from './registry.ts';

export interface Side {
  readonly target: LegTarget;
  readonly registration: MoriioRegistration;
}

/** What one try has settled before its first leg. */
export interface Pair {
  readonly prefill: Side;
  readonly decode: Side;
  readonly transferId: string;
  readonly prefillRank: number;
  /** X-Request-Id of both legs; undefined for engines that read the parameters only. */
  readonly requestId: string | undefined;
}

/** Throws ProxyError 503 `no_instance`. */
export function choosePair(context: LegContext, registry: Registry): Pair {
  const prefill = choosePrefill(context, registry);
  const decode = chooseDecode(context, registry);
  const hasIds = prefill.registration.schema === 'v2' || decode.registration.schema === 'v2';
  return {
    prefill,
    decode,
    transferId: newTransferId(),
    prefillRank: prefill.target.rank ?? 0,
    requestId: hasIds ? pairRequestId(prefill.registration.zmqAddress, decode.registration.zmqAddress, newIdEnd()) : undefined,
  };
}

/** A client's own rank is meant for prefill, where it decides about prefix cache hits. */
function choosePrefill(context: LegContext, registry: Registry): Side {
  const target = context.choose('prefill');
  const wanted = clientRank(context.request);
  if (wanted === undefined) return side(pinned(target, context), registry);
  return side({ ...target, rank: wanted }, registry);
}

/** Decode keeps a rank of its own: prefill's may not exist there, which the engine refuses with 400. */
function chooseDecode(context: LegContext, registry: Registry): Side {
  const target = context.choose('decode');
  const wanted = clientRank(context.request);
  if (wanted !== undefined && wanted < target.instance.dpSize) return side({ ...target, rank: wanted }, registry);
  return side(pinned(target, context), registry);
}

/** With a header of the client's the core pins nothing, and would pass that header on. */
function pinned(target: LegTarget, { request }: LegContext): LegTarget {
  if (request.headers[RANK_HEADER] === undefined) return target;
  return { ...target, rank: chooseRank(target.instance) ?? 0 };
}

function side(target: LegTarget, registry: Registry): Side {
  const registration = registry.of(target.instance);
  if (registration === undefined) throw unregistered(target.instance);
  return { target, registration };
}

function unregistered(instance: Instance): ProxyError {
  return new ProxyError(503, 'no_registration', `${instance.name} (${instance.origin}) has no MoRIIO registration any more.`, { instance, retryable: true });
}

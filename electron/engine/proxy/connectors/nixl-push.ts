/**
 * NIXL push (NixlPushConnector since 2026-06-12, vllm/distributed/kv_transfer/kv_connector/v1/nixl/push_scheduler.py and
 * push_worker.py). Decode registers its blocks with prefill, which writes into them; the two find each other by the request
 * id, so both legs carry one X-Request-Id on one path. Decode must be told prefill's engine id and side channel. When
 * they are known from an earlier answer (nixl-push/slots.ts) both legs run at once (push-pair.ts); otherwise prefill runs
 * first, and its own answer is forwarded without the block ids.
 *
 * Invariants: an X-Request-Id serves one try; an engine that does not say that it pushes is never used as one that does;
 * what decode was told is compared with what prefill then answers.
 */
import type { ConnectorStatus } from '#shared/protocol.ts';
import type { Instance } from '../../fleet/instance.ts';
import { editMembers, memberValue } from '../json-members.ts';
import { LinkedSet } from '../linked-set.ts';
import { decodeBody } from '../prefill-body.ts';
import { ProxyError } from '../proxy-error.ts';
import { clientRank } from './client-rank.ts';
import type { Answer, Connector, ConnectorServices, LegContext } from './connector.ts';
import { decodeAlone } from './decode-alone.ts';
import { decodeOnlyVerdict } from './decode-only.ts';
import { decodeWithoutPrefill, reasonAgainstPull, unchanged } from './nixl-pull.ts';
import { readAnswer, type Coordinates, type ReadAnswer } from './nixl-push/coordinates.ts';
import { PairIds } from './nixl-push/pair-ids.ts';
import { idHeader, prefillLeg, PushPair, restarted, RESTARTED, type HandoffInit } from './nixl-push/push-pair.ts';
import { Slots } from './nixl-push/slots.ts';
import { pushStatus } from './nixl-push/status.ts';
import { staleCoordinates } from './nixl-push/verdicts.ts';
import { remoteHostVerdict } from './remote-host.ts';
import { KV_TRANSFER_PARAMS, transferParamsForRecord } from './transfer-params.ts';

export function createNixlPush(services: ConnectorServices): Connector {
  return new NixlPushConnector(services);
}

class NixlPushConnector implements Connector {
  readonly name = 'nixl-push';
  readonly legs = ['prefill', 'decode'] as const;
  readonly #services: ConnectorServices;
  readonly #slots: Slots;
  readonly #ids = new PairIds();
  readonly #waiting = new LinkedSet<PushPair>();
  readonly #counts = { overlapped: 0, serial: 0, stale: 0 };

  constructor(services: ConnectorServices) {
    this.#services = services;
    this.#slots = new Slots({ fleet: services.fleet, onLost: (instance, why) => this.#lost(instance, why) });
  }

  async close(): Promise<void> {
    this.#slots.close();
    await Promise.resolve();
  }

  status(): ConnectorStatus {
    return pushStatus(this.#slots, { ...this.#counts, waiting: this.#waiting.size }, this.#services.fleet.list());
  }

  async run(context: LegContext): Promise<Answer> {
    const { request } = context;
    const reason = reasonAgainstPull(request);
    if (reason !== undefined) return decodeWithoutPrefill(context, unchanged(request), reason);
    const target = context.choose('prefill');
    const slot = this.#slots.of(target.instance, target.rank ?? clientRank(request));
    const id = this.#ids.claim(request.requestId);
    let isMatched = false;
    try {
      const handoff = { target, slot, id };
      const answer = slot.coordinates === undefined || slot.isUnsteady ? await this.#runSerial(context, handoff) : await this.#runAtOnce(context, handoff, slot.coordinates);
      isMatched = true;
      return answer;
    } catch (error) {
      // An answer from elsewhere has brought the new coordinates along.
      const speaksAgainst = error instanceof ProxyError && error.leg !== undefined && !error.isRequestFault && error.code !== RESTARTED;
      if (speaksAgainst) this.#slots.forget(slot, error.message);
      throw error;
    } finally {
      this.#ids.release(id, isMatched);
    }
  }

  /** Prefill, then decode with prefill's own answer: correct whatever is known. */
  async #runSerial(context: LegContext, handoff: HandoffInit): Promise<Answer> {
    const { slot, target: { instance } } = handoff;
    const answer = await context.call(prefillLeg(context, handoff));
    const read = readAnswer(memberValue(answer.body, answer.members, KV_TRANSFER_PARAMS), instance);
    if (read.kind !== 'push') return this.#runAlone(context, instance, read);
    this.#counts.serial += 1;
    this.#slots.learn(slot, read.coordinates);
    if (read.coordinates.corrected !== undefined) context.report(remoteHostVerdict(read.coordinates.corrected, instance, 'prefill->proxy'));
    const params = editMembers(read.params, read.members, new Map([['remote_block_ids', undefined]]));
    return context.open({
      kind: 'decode',
      ...context.choose('decode'),
      ...decodeBody(context.request, params),
      kvTransferParams: transferParamsForRecord(params),
      ...idHeader(context, handoff.id),
    });
  }

  async #runAtOnce(context: LegContext, handoff: HandoffInit, told: Coordinates): Promise<Answer> {
    const { instance } = handoff.target;
    const pair = new PushPair(context, { ...handoff, decode: context.choose('decode'), told, slots: this.#slots });
    this.#counts.overlapped += 1;
    handoff.slot.used += 1;
    if (told.corrected !== undefined) context.report(remoteHostVerdict(told.corrected, instance, 'proxy->decode'));
    this.#waiting.add(pair);
    try {
      return await pair.run();
    } catch (error) {
      const { refused } = pair;
      if (refused === undefined || error !== refused.reason) throw error;
      if (refused.read.kind !== 'push') return await this.#runAlone(context, instance, refused.read);
      this.#counts.stale += 1;
      context.report(staleCoordinates(instance, told, refused.read.coordinates, ''));
      throw error;
    } finally {
      this.#waiting.delete(pair);
    }
  }

  #runAlone(context: LegContext, instance: Instance, read: Exclude<ReadAnswer, { kind: 'push' }>): Promise<Answer> {
    // Push and pull engines never interoperate (the handshake's hash, nixl/metadata.py), and one that pulls dies of such a leg.
    const why = read.kind === 'pull' ? `${instance.name} does not run NixlPushConnector: ${read.why}` : read.why;
    context.report(decodeOnlyVerdict(why, 'warning'));
    return decodeAlone(context, why);
  }

  /**
   * Pairs whose prefill is gone, or has started a new life: nobody will push. A leg that still runs on an instance that is
   * down tells by itself: it breaks, or the health check was only late.
   */
  #lost(instance: Instance, why: string): void {
    const nowMs = performance.now();
    for (const pair of this.#waiting.toArray()) {
      if (pair.prefill.instance !== instance || !pair.mayWaitForKv) continue;
      if (instance.state === 'down' && pair.sincePrefillMs(nowMs) === undefined) continue;
      this.#counts.stale += 1;
      pair.context.report(staleCoordinates(instance, pair.told, undefined, why));
      pair.cancel(restarted(instance, why));
    }
  }
}

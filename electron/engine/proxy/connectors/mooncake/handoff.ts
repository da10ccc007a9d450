/** One try of one Mooncake request over one pair: what each leg carries, and what prefill's end means for decode. */
import { randomUUID } from 'node:crypto';
import type { Instance } from '../../../fleet/instance.ts';
import { decodeBody, prefillBody } from '../../prefill-body.ts';
import { describeLeg, ProxyError } from '../../proxy-error.ts';
import { ConcurrentPair } from '../concurrent-pair.ts';
import type { LegAnswer, LegContext, LegTarget } from '../connector.ts';
import type { BootstrapEntry, BootstrapSlot } from './bootstrap-entry.ts';

export interface HandoffInit {
  readonly prefill: LegTarget;
  readonly decode: LegTarget;
  readonly entry: BootstrapEntry;
  readonly slot: BootstrapSlot;
}

export class Handoff extends ConcurrentPair {
  readonly entry: BootstrapEntry;
  readonly slot: BootstrapSlot;
  /** Prefill ended otherwise than by length; `reason` is what decode was cancelled with. */
  keptNothing: { readonly finishReason: string; readonly reason: ProxyError } | undefined;
  hasKeptKv = false;

  constructor(context: LegContext, { prefill, decode, entry, slot }: HandoffInit) {
    const { request } = context;
    const transferId = `xfer-${randomUUID()}`;
    const prefillParams = JSON.stringify({ do_remote_decode: true, do_remote_prefill: false, transfer_id: transferId });
    const decodeParams = JSON.stringify({
      do_remote_decode: false,
      do_remote_prefill: true,
      remote_bootstrap_addr: entry.address,
      remote_engine_id: slot.engineId,
      transfer_id: transferId,
    });
    super(context, {
      prefill: { kind: 'prefill', ...prefill, ...prefillBody(request, { transferParams: prefillParams, mustEndByLength: true }), kvTransferParams: prefillParams },
      decode: { kind: 'decode', ...decode, ...decodeBody(request, Buffer.from(decodeParams)), kvTransferParams: decodeParams },
    });
    this.entry = entry;
    this.slot = slot;
  }

  /** Only FINISHED_LENGTH_CAPPED keeps KV. An answer that names no reason is waited for: nothing speaks against it. */
  protected override prefillEnded({ facts: { finishReason } }: LegAnswer): ProxyError | undefined {
    if (finishReason === undefined || finishReason === 'length') {
      this.hasKeptKv = true;
      return undefined;
    }
    const { instance } = this.prefill;
    const message = `${describeLeg('prefill', instance)} ended by ${finishReason}, not by length, and kept no KV.`;
    this.keptNothing = { finishReason, reason: new ProxyError(502, 'prefill_kept_no_kv', message, { instance }) };
    return this.keptNothing.reason;
  }
}

/** Prefill is not the engine that decode was told of. */
export function restarted(instance: Instance): ProxyError {
  const message = `${describeLeg('prefill', instance)}: the engine restarted, and the KV that decode waited for is gone.`;
  return new ProxyError(502, 'prefill_restarted', message, { leg: 'prefill', instance, retryable: true, mayRepeatOnSame: true });
}

/**
 * NIXL push (protocol facts: nixl/push_worker.py, nixl/utils.py, since 2026-06-12). The consumer registers at the producer
 * under its request id without the random suffix, so both legs need the same X-Request-Id on the same path; whichever leg
 * comes last starts the push. Block ids and remote_request_id of the answer play no part.
 */
import { assertRole } from './kv-role.ts';
import { missingOf } from './params.ts';
import { remoteSource } from './remote-source.ts';
import {
  NO_LOAD, NOTHING_HANDED_OVER,
  type FinishedRequest, type Handover, type LoadPlan, type Transfer, type TransferContext, type TransferRequest,
} from './transfer.ts';

const MANDATORY = ['remote_engine_id', 'remote_host', 'remote_port', 'tp_size'] as const;
/** push_registration_timeout. */
const REGISTRATION_TIMEOUT_MS = 480_000;

export class NixlPush implements Transfer {
  readonly mode = 'nixl-push';
  readonly #context: TransferContext;

  constructor(context: TransferContext) {
    this.#context = context;
  }

  plan({ params, baseId, promptTokens }: TransferRequest): LoadPlan {
    const { options } = this.#context;
    const violation = assertRole(options.kvRole, params);
    if (violation !== undefined) return violation;
    if (params['do_remote_prefill'] !== true) return NO_LOAD;
    const [missing] = missingOf(params, MANDATORY);
    if (missing !== undefined) return { kind: 'raise', reason: `KeyError: '${missing}'` };
    const source = remoteSource({
      peer: {
        host: String(params['remote_host']),
        port: Number(params['remote_port']),
        engineId: String(params['remote_engine_id']),
        mode: this.mode,
      },
      key: baseId,
      waitMs: options.transferTimeoutMs ?? REGISTRATION_TIMEOUT_MS,
      isRegistration: true,
      hasHeartbeat: true,
    });
    return { kind: 'fetch', source, tokens: promptTokens, minGain: 0 };
  }

  finish({ params, id, baseId, reason, blockIds, computedTokens }: FinishedRequest): Handover {
    if (params['do_remote_decode'] !== true || (reason !== 'stop' && reason !== 'length')) return NOTHING_HANDED_OVER;
    const { engineId, host, port, options } = this.#context;
    return {
      keep: { key: baseId, forMs: options.leaseMs },
      params: {
        do_remote_prefill: true,
        do_remote_decode: false,
        remote_block_ids: [blockIds],
        remote_engine_id: engineId,
        remote_request_id: id,
        remote_host: host,
        remote_port: port,
        tp_size: 1,
        pp_size: 1,
        remote_num_tokens: computedTokens,
        transfer_mode: 'push',
      },
    };
  }
}

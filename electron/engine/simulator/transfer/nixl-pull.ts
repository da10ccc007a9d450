/**
 * NIXL pull, with its bidirectional extension (protocol facts: nixl/pull_scheduler.py, nixl/base_scheduler.py). The
 * producer answers with a reference to its pinned blocks; the consumer pulls them and so frees them.
 */
import { assertRole } from './kv-role.ts';
import { missingOf, readBlockIds, readNumber } from './params.ts';
import { remoteSource } from './remote-source.ts';
import {
  NO_LOAD, NOTHING_HANDED_OVER,
  type FinishedRequest, type Handover, type LoadPlan, type Transfer, type TransferContext, type TransferParams, type TransferRequest,
} from './transfer.ts';

const REFERENCE = ['remote_engine_id', 'remote_request_id', 'remote_host', 'remote_port'] as const;

export class NixlPull implements Transfer {
  readonly mode = 'nixl-pull';
  readonly #context: TransferContext;

  constructor(context: TransferContext) {
    this.#context = context;
  }

  plan({ params, promptTokens }: TransferRequest): LoadPlan {
    const { options } = this.#context;
    const violation = assertRole(options.kvRole, params);
    if (violation !== undefined) return violation;
    if (params['do_remote_prefill'] === true) return this.#planDecode(params, promptTokens);
    return params['do_remote_decode'] === true && options.bidirectional ? this.#planReuse(params, promptTokens) : NO_LOAD;
  }

  finish(request: FinishedRequest): Handover {
    const { params, id, reason } = request;
    const { options } = this.#context;
    if (reason !== 'stop' && reason !== 'length') return NOTHING_HANDED_OVER;
    if (params['do_remote_prefill'] === true) {
      return options.bidirectional
        ? { keep: { key: id, forMs: options.decoderBlocksTtlMs }, params: this.#reference(request, true) }
        : NOTHING_HANDED_OVER;
    }
    if (params['do_remote_decode'] !== true) return NOTHING_HANDED_OVER;
    return { keep: { key: id, forMs: options.leaseMs }, params: this.#reference(request, false) };
  }

  /**
   * Without block ids nothing is requested while the scheduler counts on external tokens: `assert num_external_tokens == 0`.
   * With them but without another part, "will not utilize KVTransfer" is logged, and the request waits for a transfer that
   * nobody started.
   */
  #planDecode(params: TransferParams, promptTokens: number): LoadPlan {
    if (readBlockIds(params['remote_block_ids']).length === 0) {
      return { kind: 'assert', reason: 'do_remote_prefill without remote_block_ids: assert num_external_tokens == 0' };
    }
    const missing = missingOf(params, REFERENCE);
    if (missing.length > 0) return { kind: 'wait-forever', reason: `kv_transfer_params without ${missing.join(', ')}` };
    return this.#fetch(params, readNumber(params['remote_num_tokens']) ?? promptTokens, 0);
  }

  /** A turn's object from the decode instance, given to prefill: its blocks are worth pulling if enough tokens are gained. */
  #planReuse(params: TransferParams, promptTokens: number): LoadPlan {
    if (readBlockIds(params['remote_block_ids']).length === 0 || missingOf(params, REFERENCE).length > 0) return NO_LOAD;
    const tokens = Math.min(readNumber(params['remote_num_tokens']) ?? promptTokens, promptTokens);
    return this.#fetch(params, tokens, this.#context.options.recomputeThreshold);
  }

  #fetch(params: TransferParams, tokens: number, minGain: number): LoadPlan {
    const source = remoteSource({
      peer: {
        host: String(params['remote_host']),
        port: Number(params['remote_port']),
        engineId: String(params['remote_engine_id']),
        mode: this.mode,
      },
      key: String(params['remote_request_id']),
      blockIds: readBlockIds(params['remote_block_ids']),
      // Without tp_size the consumer sends no heartbeats. None are sent towards a decode instance either.
      hasHeartbeat: params['do_remote_prefill'] === true && missingOf(params, ['tp_size']).length === 0,
    });
    return { kind: 'fetch', source, tokens, minGain };
  }

  #reference({ id, blockIds, computedTokens }: FinishedRequest, isOfDecode: boolean): object {
    const { engineId, host, port, options } = this.#context;
    return {
      do_remote_prefill: !isOfDecode,
      do_remote_decode: isOfDecode,
      remote_block_ids: [blockIds],
      remote_engine_id: engineId,
      remote_request_id: id,
      remote_host: host,
      remote_port: port,
      tp_size: 1,
      remote_num_tokens: computedTokens,
      // A clock reading of this process, of no use to anybody else.
      remote_blocks_expiry_time: isOfDecode ? (performance.now() + options.decoderBlocksTtlMs) / 1000 : null,
      transfer_mode: 'pull',
    };
  }
}

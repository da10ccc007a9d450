/**
 * MooncakeConnector since 2026-02-03 (protocol facts: mooncake/mooncake_connector.py, mooncake/mooncake_utils.py). Both legs
 * carry one transfer id and run concurrently; the consumer looks the producer's worker up at its bootstrap server and asks
 * it for the push. The producer keeps KV only of requests that end by length, and never says so in its answer.
 */
import { assertRole } from './kv-role.ts';
import { findWorker } from './mooncake-bootstrap.ts';
import { missingOf, readId } from './params.ts';
import { openPatiently } from './patience.ts';
import { openRemote, tellRemote, type Peer } from './side-channel.ts';
import {
  NO_LOAD, NOTHING_HANDED_OVER,
  type FinishedRequest, type Handover, type LoadPlan, type RemoteSource, type Transfer, type TransferContext, type TransferRequest,
} from './transfer.ts';

const REFERENCE = ['transfer_id', 'remote_bootstrap_addr', 'remote_engine_id'] as const;
/** VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT, on both sides. */
const ABORT_TIMEOUT_MS = 480_000;
const MODE = 'mooncake';

interface Reference {
  readonly transferId: string;
  readonly bootstrapAddr: string;
  readonly engineId: string;
  readonly waitMs: number;
}

function bootstrapSource({ transferId, bootstrapAddr, engineId, waitMs }: Reference): RemoteSource {
  const resolvePeer = async (signal?: AbortSignal): Promise<Peer | undefined> => {
    const worker = await findWorker(bootstrapAddr, engineId, signal);
    return worker === undefined ? undefined : { ...worker, engineId, mode: MODE };
  };
  const unknown = { isOk: false, reason: `engine ${engineId} is not registered at ${bootstrapAddr}` } as const;
  let peer: Peer | undefined;
  return {
    open: (check, signal) =>
      openPatiently(
        async () => {
          peer = await resolvePeer(signal);
          if (peer === undefined) return unknown;
          return openRemote(peer, { key: transferId, blockIds: [], check, waitMs, isRegistration: false }, signal);
        },
        waitMs,
        signal,
      ),
    async done() {
      peer ??= await resolvePeer();
      return peer === undefined ? unknown : tellRemote(peer, 'done', transferId);
    },
  };
}

export class Mooncake implements Transfer {
  readonly mode = MODE;
  readonly #context: TransferContext;

  constructor(context: TransferContext) {
    this.#context = context;
  }

  plan({ params, promptTokens }: TransferRequest): LoadPlan {
    const violation = assertRole(this.#context.options.kvRole, params);
    if (violation !== undefined) return violation;
    if (params['do_remote_prefill'] !== true) return NO_LOAD;
    const missing = missingOf(params, REFERENCE);
    // "will not utilize KVTransfer" is logged, but the request already counts as waiting for remote KV.
    if (missing.length > 0) return { kind: 'wait-forever', reason: `kv_transfer_params without ${missing.join(', ')}` };
    const source = bootstrapSource({
      transferId: String(params['transfer_id']),
      bootstrapAddr: String(params['remote_bootstrap_addr']),
      engineId: String(params['remote_engine_id']),
      waitMs: this.#timeoutMs,
    });
    return { kind: 'fetch', source, tokens: promptTokens, minGain: 0 };
  }

  finish({ params, reason }: FinishedRequest): Handover {
    const key = readId(params['transfer_id']);
    if (params['do_remote_decode'] !== true || reason !== 'length' || key === undefined) return NOTHING_HANDED_OVER;
    return { keep: { key, forMs: this.#timeoutMs }, params: undefined };
  }

  get #timeoutMs(): number {
    return this.#context.options.transferTimeoutMs ?? ABORT_TIMEOUT_MS;
  }
}

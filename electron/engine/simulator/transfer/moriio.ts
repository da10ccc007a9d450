/**
 * MoRIIO (protocol facts: moriio/moriio_connector.py, moriio/moriio_common.py). READ: serial, the consumer reads the blocks
 * that the producer's answer names. WRITE: concurrent, the producer writes when it is done and the consumer waits, matched
 * by transfer id. Either way the producer's request must end by length.
 */
import { peerInParams, peerInRequestId, type MoriioAddress } from './moriio-address.ts';
import { readBlockIds, readId, readNumber } from './params.ts';
import { openPatiently } from './patience.ts';
import { openRemote, tellRemote, type Peer } from './side-channel.ts';
import {
  NO_LOAD, NOTHING_HANDED_OVER,
  type FinishedRequest, type Handover, type LoadPlan, type RemoteSource, type Transfer, type TransferContext, type TransferRequest,
} from './transfer.ts';

/** What the first generation reads without asking whether it is there (2026-01-09 to 2026-04-23). */
const V1_KEYS = [
  'remote_host', 'remote_port', 'remote_handshake_port', 'remote_notify_port', 'remote_engine_id', 'remote_block_ids', 'remote_dp_size',
  'remote_tp_size',
] as const;
/** defer_timeout. */
const DEFER_TIMEOUT_MS = 60_000;

function transferIdOf({ params, baseId }: TransferRequest): string {
  return readId(params['transfer_id']) ?? `sidecar-${baseId}`;
}

export class Moriio implements Transfer {
  readonly mode: string;
  readonly #context: TransferContext;
  readonly #isRead: boolean;

  constructor(context: TransferContext) {
    this.#context = context;
    this.#isRead = context.options.moriio.mode === 'READ';
    this.mode = this.#isRead ? 'moriio-read' : 'moriio-write';
  }

  plan(request: TransferRequest): LoadPlan {
    const { params, promptTokens } = request;
    const isDecode = params['do_remote_prefill'] === true;
    if (!isDecode && params['do_remote_decode'] !== true) return NO_LOAD;
    const keyError = this.#missingKey(request);
    if (keyError !== undefined) return { kind: 'raise', reason: `KeyError: '${keyError}'` };
    const address = this.#peerOf(request, isDecode ? 'prefill' : 'decode');
    if (address === undefined) return { kind: 'raise', reason: 'ValueError: no peer address in the request id or in kv_transfer_params' };
    if (!isDecode) return NO_LOAD;
    const blockIds = this.#isRead ? readBlockIds(params['remote_block_ids']) : [];
    if (this.#isRead && blockIds.length === 0) return { kind: 'wait-forever', reason: 'READ mode without remote_block_ids' };
    const rank = readNumber(params['remote_dp_rank']) ?? 0;
    return { kind: 'fetch', source: this.#source(transferIdOf(request), { address, rank, blockIds }), tokens: promptTokens, minGain: 0 };
  }

  finish(request: FinishedRequest): Handover {
    const { params, reason, blockIds } = request;
    if (params['do_remote_decode'] !== true || params['do_remote_prefill'] === true || reason !== 'length') return NOTHING_HANDED_OVER;
    const { host, port, notifyPort, rank, options } = this.#context;
    const handshakePort = port - rank;
    const key = transferIdOf(request);
    return {
      keep: { key, forMs: this.#timeoutMs },
      params: {
        do_remote_prefill: true,
        do_remote_decode: false,
        remote_block_ids: blockIds,
        remote_engine_id: `${host}:${handshakePort}`,
        remote_host: host,
        remote_handshake_port: handshakePort,
        remote_notify_port: notifyPort - rank,
        remote_dp_rank: rank,
        remote_dp_rank_override: true,
        remote_dp_size: options.dpSize,
        remote_dp_size_local: options.dpSize,
        tp_size: 1,
        transfer_id: key,
      },
    };
  }

  #missingKey({ params }: TransferRequest): string | undefined {
    const schema = this.#context.options.moriio.schema ?? 'v2';
    if (schema === 'v2') return undefined;
    // Present with a null value is enough; transfer_id is read since 2026-03-16.
    return [...V1_KEYS, ...(schema === 'v1b' ? ['transfer_id'] : [])].find((key) => !(key in params));
  }

  #peerOf({ params, id }: TransferRequest, peer: 'prefill' | 'decode'): MoriioAddress | undefined {
    if ((this.#context.options.moriio.schema ?? 'v2') !== 'v2') return peerInParams(params);
    return peerInRequestId(id, peer) ?? peerInParams(params);
  }

  #source(key: string, from: { readonly address: MoriioAddress; readonly rank: number; readonly blockIds: readonly number[] }): RemoteSource {
    const { address, rank, blockIds } = from;
    const peer = (port: number): Peer => ({ host: address.host, port: port + rank, engineId: undefined, mode: this.mode });
    const waitMs = this.#isRead ? 0 : this.#timeoutMs;
    return {
      open: (check, signal) =>
        openPatiently(
          () => openRemote(peer(address.handshakePort), { key, blockIds, check, waitMs, isRegistration: !this.#isRead }, signal),
          waitMs,
          signal,
        ),
      done: () => tellRemote(peer(address.notifyPort), 'done', key),
    };
  }

  get #timeoutMs(): number {
    return this.#context.options.transferTimeoutMs ?? DEFER_TIMEOUT_MS;
  }
}

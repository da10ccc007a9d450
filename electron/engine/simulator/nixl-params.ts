/** kv_transfer_params of the NIXL pull connector (protocol facts: nixl/pull_scheduler.py), read and written. */

export interface RemoteReference {
  readonly blockIds: readonly number[];
  readonly engineId: string;
  readonly requestId: string;
  readonly host: string;
  readonly port: number;
  /** Without tp_size the decode side sends no heartbeats. */
  readonly hasHeartbeat: boolean;
  readonly remoteTokens: number | undefined;
}

export type KvTransferRequest =
  /** Keep the blocks for another instance when this one-token request ends. */
  | { readonly kind: 'keep' }
  /** Fetch the prompt's blocks from another instance first. */
  | { readonly kind: 'pull'; readonly reference: RemoteReference }
  /** do_remote_prefill with fields missing: vLLM logs and recomputes. */
  | { readonly kind: 'incomplete'; readonly missing: readonly string[] };

const REQUIRED = ['remote_block_ids', 'remote_engine_id', 'remote_request_id', 'remote_host', 'remote_port'] as const;

/** Flat (before 2026-03-06) or one list per KV group; the simulator has one group. */
function readBlockIds(value: unknown): number[] {
  if (!Array.isArray(value)) return [];
  return value.flat().filter((id): id is number => typeof id === 'number');
}

/** undefined: nothing asked of the connector. */
export function readKvTransferParams(value: unknown): KvTransferRequest | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const params = value as Readonly<Record<string, unknown>>;
  if (params['do_remote_prefill'] === true) {
    const missing = REQUIRED.filter((key) => params[key] === undefined || params[key] === null);
    if (missing.length > 0) return { kind: 'incomplete', missing };
    return {
      kind: 'pull',
      reference: {
        blockIds: readBlockIds(params['remote_block_ids']),
        engineId: String(params['remote_engine_id']),
        requestId: String(params['remote_request_id']),
        host: String(params['remote_host']),
        port: Number(params['remote_port']),
        hasHeartbeat: params['tp_size'] !== undefined && params['tp_size'] !== null,
        remoteTokens: typeof params['remote_num_tokens'] === 'number' ? params['remote_num_tokens'] : undefined,
      },
    };
  }
  return params['do_remote_decode'] === true ? { kind: 'keep' } : undefined;
}

export interface KeptBlocks {
  readonly blockIds: readonly number[];
  readonly engineId: string;
  readonly requestId: string;
  readonly host: string;
  readonly port: number;
  readonly tokens: number;
}

/** What a prefill instance answers after `do_remote_decode`. */
export function writeKvTransferParams(kept: KeptBlocks): object {
  return {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_block_ids: [kept.blockIds],
    remote_engine_id: kept.engineId,
    remote_request_id: kept.requestId,
    remote_host: kept.host,
    remote_port: kept.port,
    tp_size: 1,
    remote_num_tokens: kept.tokens,
    remote_blocks_expiry_time: null,
    transfer_mode: 'pull',
  };
}

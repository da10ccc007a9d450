/**
 * The kv_transfer_params with which a decode instance of `bidirectional_kv_xfer` says what it holds
 * (vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py): only small members are read, the rest is opaque.
 */
import { memberValue, scanMembers } from '../../json-members.ts';

export interface HeldParams {
  /** A copy of the JSON text, which would otherwise keep the whole answer in memory. */
  readonly params: Buffer;
  readonly tokens: number | undefined;
  /** Without the `_dp<rank>` of the engine process. */
  readonly engineId: string | undefined;
}

/** undefined: not an object that a prefill instance could read blocks by. */
export function readHeldParams(params: Buffer | undefined): HeldParams | undefined {
  const members = params === undefined ? undefined : scanMembers(params);
  if (params === undefined || members === undefined) return undefined;
  const valueOf = (key: string): string | undefined => memberValue(params, members, key)?.toString('utf8', 0, 512);
  if (valueOf('do_remote_decode') !== 'true' || valueOf('remote_block_ids')?.startsWith('[') !== true) return undefined;
  const tokens = Number(valueOf('remote_num_tokens') ?? 'none');
  const engineId = /^"([^"\\]*)"$/.exec(valueOf('remote_engine_id') ?? '')?.[1];
  const copy = Buffer.allocUnsafeSlow(params.length);
  params.copy(copy);
  return { params: copy, tokens: Number.isInteger(tokens) ? tokens : undefined, engineId: engineId?.replace(/_dp\d+$/, '') };
}

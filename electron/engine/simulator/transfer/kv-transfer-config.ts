/** What /server_info tells about the connector (protocol facts: vllm/config/kv_transfer.py and each connector's extra config). */
import type { ResolvedSimOptions, SimTransfer } from '../sim-options.ts';

const CONNECTORS: Readonly<Record<Exclude<SimTransfer, 'none'>, string>> = {
  nixl: 'NixlConnector',
  'nixl-push': 'NixlPushConnector',
  mooncake: 'MooncakeConnector',
  moriio: 'MoRIIOConnector',
};

export interface TransferPorts {
  /** Base port for peers; rank r uses port + r. */
  readonly port: number;
  readonly notifyPort: number;
  readonly bootstrapPort: number | undefined;
}

function extraConfig(options: ResolvedSimOptions, ports: TransferPorts): object {
  switch (options.transfer) {
    case 'nixl':
      return {
        kv_lease_duration: options.leaseMs / 1000,
        kv_recompute_threshold: options.recomputeThreshold,
        bidirectional_kv_xfer: options.bidirectional,
        decoder_kv_blocks_ttl: options.decoderBlocksTtlMs / 1000,
      };
    case 'nixl-push':
      return { kv_lease_duration: options.leaseMs / 1000 };
    case 'moriio': {
      const [host, port] = splitAddress(options.moriio.proxy);
      return {
        ...(host !== undefined && { proxy_ip: host, proxy_ping_port: port }),
        handshake_port: ports.port,
        notify_port: ports.notifyPort,
        read_mode: options.moriio.mode === 'READ',
      };
    }
    default:
      return {};
  }
}

function splitAddress(address: string | undefined): readonly [string | undefined, number] {
  if (address === undefined) return [undefined, 0];
  const colon = address.lastIndexOf(':');
  return [address.slice(0, colon), Number(address.slice(colon + 1))];
}

/** `kv_transfer_config` of vllm_config; null without a connector. The engine id is the API server's view, without a rank. */
export function kvTransferConfig(options: ResolvedSimOptions, engineId: string, ports: TransferPorts): object | null {
  if (options.transfer === 'none') return null;
  return {
    kv_connector: CONNECTORS[options.transfer],
    engine_id: engineId,
    kv_buffer_device: 'cuda',
    kv_role: options.kvRole,
    kv_rank: null,
    kv_parallel_size: 1,
    kv_ip: '127.0.0.1',
    kv_port: 14579,
    kv_load_failure_policy: options.kvLoadFailurePolicy,
    kv_connector_extra_config: extraConfig(options, ports),
    kv_connector_module_path: null,
  };
}

/** The part of `vllm_env` that says where peers are. */
export function transferEnv(options: ResolvedSimOptions, ports: TransferPorts): object {
  if (options.transfer === 'nixl' || options.transfer === 'nixl-push') {
    return { VLLM_NIXL_SIDE_CHANNEL_HOST: options.host, VLLM_NIXL_SIDE_CHANNEL_PORT: ports.port };
  }
  return options.transfer === 'mooncake' && ports.bootstrapPort !== undefined ? { VLLM_MOONCAKE_BOOTSTRAP_PORT: ports.bootstrapPort } : {};
}

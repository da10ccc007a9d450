/** How the demo's instances are started for each P/D protocol: what the README's table tells users to give to vLLM. */
import type { ProtocolOptions } from '#shared/protocol.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { DEMO_BLOCKS_TTL_MS } from './demo-defaults.ts';
import type { InstanceFlags } from './simulator/sim-cluster.ts';
import { createSharedStore } from './simulator/shared-store.ts';
import type { SimTransfer } from './simulator/sim-options.ts';

const TRANSFERS: Readonly<Record<ConnectorName, SimTransfer>> = {
  plain: 'none',
  nixl: 'nixl',
  'nixl-bidirectional': 'nixl',
  'nixl-push': 'nixl-push',
  mooncake: 'mooncake',
  moriio: 'moriio',
  render: 'nixl',
  aggregated: 'none',
};

/** Blocks of a decode instance that keeps them for the next turn. */
const KEEPING_BLOCKS = 8192;

/** @param registration `host:port` where MoRIIO engines register. */
export function demoFlags(connector: ConnectorName, options: ProtocolOptions, registration: string): InstanceFlags {
  const transfer = TRANSFERS[connector];
  const isBidirectional = connector === 'nixl-bidirectional';
  const sharedStore = connector === 'plain' ? createSharedStore() : undefined;
  return (role) => {
    if (role === 'encode') return { profiler: true };
    return {
      transfer,
      profiler: true,
      ...(sharedStore !== undefined && { sharedStore }),
      ...(isBidirectional && { bidirectional: true, decoderBlocksTtlMs: DEMO_BLOCKS_TTL_MS }),
      ...(isBidirectional && role === 'decode' && { blocks: KEEPING_BLOCKS }),
      ...(connector === 'moriio' && { moriio: { proxy: registration, mode: options.moriioMode ?? 'WRITE' } }),
    };
  };
}

/** The modes of the conformance suite: how each is set up, and what its legs must carry. */
import { expect } from 'vitest';
import { createSharedStore } from '#engine/simulator/shared-store.ts';
import type { SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { ConnectorName, LegKind, Role } from '#shared/vocabulary.ts';

export type Json = Readonly<Record<string, unknown>>;
export type ConformanceApi = 'chat' | 'completions';

export interface Mode {
  readonly name: string;
  readonly connector: ConnectorName;
  readonly roles: readonly Role[];
  /** Options of the simulated engines. */
  readonly sim: () => Partial<SimInstanceOptions>;
  /** `one`: no handoff. `together`: decode is sent before prefill has answered. */
  readonly legs: 'serial' | 'together' | 'one';
  /** A request that goes before the one under test, so that what the connector keeps between requests is in play. */
  readonly hasFirstTurn?: boolean;
  /** Fields of every client body that are pdscope's and must not reach an engine. */
  readonly privateFields?: Json;
  /** Chat requests carry media, and encode legs come first. */
  readonly hasMedia?: boolean;
  /** Legs go to /inference/v1/generate with token ids. */
  readonly isTokenDriven?: boolean;
  /** What `kv_transfer_params` must be on each leg; undefined: none may be there. */
  readonly prefillParams?: Json;
  readonly decodeParams?: Json;
  /** Both legs must carry one X-Request-Id of this form; undefined: the client's own. */
  readonly requestId?: RegExp;
  /** A whole answer is read by pdscope before it goes on, so a cut one is an error and not a cut body. */
  readonly isReadWhole?: (api: ConformanceApi, isStream: boolean) => boolean;
}

const text = expect.any(String) as unknown as string;
const count = expect.any(Number) as unknown as number;
const ids = expect.any(Array) as unknown as unknown[];

const KEEP = { do_remote_decode: true, do_remote_prefill: false };
const KEEP_NIXL = { ...KEEP, remote_engine_id: null, remote_block_ids: null, remote_host: null, remote_port: null };
const PULL = {
  do_remote_prefill: true, do_remote_decode: false, remote_engine_id: text, remote_block_ids: ids, remote_request_id: text, remote_host: '127.0.0.1',
  remote_port: count, tp_size: 1, remote_num_tokens: count, remote_blocks_expiry_time: null, transfer_mode: 'pull',
};
const PAIR = ['prefill', 'decode'] as const satisfies readonly Role[];
const MORIIO_ID = /^___prefill_addr_host:[^,]+,handshake:\d+,notify:\d+___decode_addr_host:[^,]+,handshake:\d+,notify:\d+_[0-9a-f]{32}$/u;

export const MODES = {
  plain: { name: 'plain', connector: 'plain', roles: PAIR, sim: () => ({ transfer: 'none', sharedStore: createSharedStore() }), legs: 'serial' },
  nixl: { name: 'nixl', connector: 'nixl', roles: PAIR, sim: () => ({ transfer: 'nixl' }), legs: 'serial', prefillParams: KEEP_NIXL, decodeParams: PULL },
  'nixl-bidirectional': {
    name: 'nixl-bidirectional', connector: 'nixl-bidirectional', roles: PAIR, sim: () => ({ transfer: 'nixl', bidirectional: true, decoderBlocksTtlMs: 500 }),
    legs: 'serial', hasFirstTurn: true, privateFields: { conversation_id: 'c-1' },
    prefillParams: { ...KEEP, remote_engine_id: text, remote_block_ids: ids, remote_request_id: text, remote_host: '127.0.0.1', remote_port: count },
    decodeParams: PULL,
  },
  'nixl-push': {
    name: 'nixl-push', connector: 'nixl-push', roles: PAIR, sim: () => ({ transfer: 'nixl-push' }), legs: 'together', hasFirstTurn: true, prefillParams: KEEP,
    decodeParams: { do_remote_prefill: true, do_remote_decode: false, remote_engine_id: text, remote_host: '127.0.0.1', remote_port: count, tp_size: 1 },
  },
  mooncake: {
    name: 'mooncake', connector: 'mooncake', roles: PAIR, sim: () => ({ transfer: 'mooncake' }), legs: 'together',
    prefillParams: { ...KEEP, transfer_id: text },
    decodeParams: { do_remote_prefill: true, do_remote_decode: false, transfer_id: text, remote_engine_id: text, remote_bootstrap_addr: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/u) },
  },
  'moriio-read': {
    name: 'moriio READ', connector: 'moriio', roles: PAIR, sim: () => ({ transfer: 'moriio', moriio: { mode: 'READ' } }), legs: 'serial', requestId: MORIIO_ID,
    prefillParams: { ...KEEP, transfer_id: text, remote_dp_size: 1, remote_tp_size: 1 },
    decodeParams: { do_remote_prefill: true, do_remote_decode: false, transfer_id: text, remote_engine_id: text, remote_block_ids: ids },
  },
  'moriio-write': {
    name: 'moriio WRITE', connector: 'moriio', roles: PAIR, sim: () => ({ transfer: 'moriio', moriio: { mode: 'WRITE' } }), legs: 'together', requestId: MORIIO_ID,
    prefillParams: { ...KEEP, transfer_id: text, remote_dp_size: 1, remote_tp_size: 1 },
    decodeParams: { do_remote_prefill: true, do_remote_decode: false, transfer_id: text, remote_engine_id: null, remote_block_ids: null },
  },
  render: {
    name: 'render', connector: 'render', roles: PAIR, sim: () => ({ transfer: 'nixl' }), legs: 'serial', isTokenDriven: true, prefillParams: KEEP_NIXL, decodeParams: PULL,
    isReadWhole: (_api, isStream) => !isStream,
  },
  aggregated: { name: 'aggregated', connector: 'aggregated', roles: ['both'], sim: () => ({ transfer: 'none' }), legs: 'one' },
  'encode-nixl': {
    name: 'encode + nixl', connector: 'nixl', roles: ['encode', ...PAIR], sim: () => ({ transfer: 'nixl' }), legs: 'serial', hasMedia: true,
    prefillParams: KEEP_NIXL, decodeParams: PULL,
  },
  'encode-aggregated': {
    name: 'encode + aggregated (E+PD)', connector: 'aggregated', roles: ['encode', 'both'], sim: () => ({ transfer: 'none' }), legs: 'one', hasMedia: true,
  },
} as const satisfies Record<string, Mode>;

/** Kinds of the legs of a request that goes well, in the order of their start. */
export function legKinds(mode: Mode, api: ConformanceApi, mediaItems: number): readonly LegKind[] {
  const encode: LegKind[] = mode.hasMedia === true && api === 'chat' ? Array.from({ length: mediaItems }, () => 'encode') : [];
  return [...encode, ...(mode.isTokenDriven === true ? (['render'] as const) : []), ...(mode.legs === 'one' ? [] : (['prefill'] as const)), 'decode'];
}

/** The modes of the conformance suite: how each is set up, what its legs must carry, and where it differs from the rest. */
import { expect } from 'vitest';
import { createSharedStore } from '#engine/simulator/shared-store.ts';
import type { SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { ProtocolSettings } from '#shared/protocol.ts';
import type { ConnectorName, LegKind, Role } from '#shared/vocabulary.ts';
import type { CaseName, Expected } from './cases.ts';

export type Json = Readonly<Record<string, unknown>>;
export type ConformanceApi = 'chat' | 'completions';

/** Where a mode's outcome of a case is another than cases.ts says, and why that is right. */
export interface Difference {
  readonly expected?: Expected;
  /** How often prefill is tried. */
  readonly prefillTries?: number;
  /** How many retries of the request are counted. */
  readonly retries?: number;
  readonly why: string;
}

export interface Mode {
  readonly name: string;
  readonly connector: ConnectorName;
  readonly roles: readonly Role[];
  /** Options of the simulated engines. */
  readonly sim: () => Partial<SimInstanceOptions>;
  /** `one`: no handoff. `together`: decode is sent before prefill has answered. */
  readonly legs: 'serial' | 'together' | 'one';
  /** Data-parallel ranks of every instance. Default 1. */
  readonly ranks?: 2;
  /** Requests that go before the one under test, so that what the connector keeps between requests is in play. Default 0. */
  readonly firstTurns?: number;
  readonly settings?: Partial<ProtocolSettings>;
  /** Fields of every client body that are pdscope's and must not reach an engine. */
  readonly privateFields?: Json;
  /** Chat requests carry media, and encode legs come first. */
  readonly hasMedia?: boolean;
  /** Legs go to /inference/v1/generate with token ids, and the client's bytes are made of the tokens. */
  readonly isTokenDriven?: boolean;
  /** pdscope reads the decode answer whole before it answers: a broken one is an error status, or is repeated. */
  readonly isReadWhole?: (isStream: boolean) => boolean;
  /** Decode legs are sent without `stream`, whatever the client asked. */
  readonly isDecodedWhole?: boolean;
  /** Prefill's one token must end by length, or the engine keeps no KV. */
  readonly mustEndByLength?: boolean;
  /** What `kv_transfer_params` must hold on each leg; undefined: none may be there. */
  readonly prefillParams?: Json;
  readonly decodeParams?: Json;
  /** X-Request-Id of both legs of a try. Default: the client's own. */
  readonly requestId?: RegExp;
  /** The same for tries after the first. Default: `requestId`. */
  readonly repeatedRequestId?: RegExp;
  readonly differences?: Partial<Record<CaseName, Difference>>;
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
/** Longer than a test. */
const DECODER_TTL_MS = 120_000;

const NOT_REPEATED_ON_SAME: Difference = {
  expected: { kind: 'refused', status: 500, code: 'upstream_status' },
  why: 'without a handoff a 500 speaks against the instance itself, and there is no other',
};
const WITHOUT_HANDOFF = { 'decode answers 500 once, and is the only one': NOT_REPEATED_ON_SAME } as const;

/** What can be lost while both legs run. */
const TOGETHER = {
  'prefill restarts between the legs': {
    expected: { kind: 'right-or-refused' },
    why: 'decode waits for KV that will not come: its engine gives up with 500, unless pdscope learns of the restart before and ends the wait with 502',
  },
  'decode restarts between the legs': { expected: { kind: 'right-or-refused' }, why: 'decode was asked before, and broke off' },
} as const satisfies Mode['differences'];

const NIXL: Mode = { name: 'nixl', connector: 'nixl', roles: PAIR, sim: () => ({ transfer: 'nixl' }), legs: 'serial', prefillParams: KEEP_NIXL, decodeParams: PULL };

const BIDIRECTIONAL: Mode = {
  name: 'nixl-bidirectional', connector: 'nixl-bidirectional', roles: PAIR, sim: () => ({ transfer: 'nixl', bidirectional: true, decoderBlocksTtlMs: DECODER_TTL_MS }),
  legs: 'serial', firstTurns: 1, privateFields: { conversation_id: 'c-1' },
  prefillParams: { ...KEEP, remote_engine_id: text, remote_block_ids: ids, remote_request_id: text, remote_host: '127.0.0.1', remote_port: count },
  decodeParams: PULL,
  differences: {
    'prefill answers 500': { prefillTries: 2, why: 'the blocks of the last turn may have been what failed: once more without them' },
    'prefill answers 500, another one does not': { retries: 0, why: 'it is tried without the blocks of the last turn before anything counts as a retry, and the next instance has its turn' },
  },
};

const PUSH: Mode = {
  name: 'nixl-push', connector: 'nixl-push', roles: PAIR, sim: () => ({ transfer: 'nixl-push' }), legs: 'together', firstTurns: 1, prefillParams: KEEP_NIXL,
  decodeParams: { do_remote_prefill: true, do_remote_decode: false, remote_engine_id: text, remote_host: '127.0.0.1', remote_port: count, tp_size: 1 },
  repeatedRequestId: /^conformance-1-try2$/u, differences: TOGETHER,
};

const MOONCAKE: Mode = {
  name: 'mooncake', connector: 'mooncake', roles: PAIR, sim: () => ({ transfer: 'mooncake' }), legs: 'together', mustEndByLength: true,
  prefillParams: { ...KEEP, transfer_id: text },
  decodeParams: { do_remote_prefill: true, do_remote_decode: false, transfer_id: text, remote_engine_id: text, remote_bootstrap_addr: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/u) },
  differences: TOGETHER,
};

function moriio(mode: 'READ' | 'WRITE', ranks?: 2): Mode {
  const peer = { remote_dp_size: ranks ?? 1, remote_tp_size: 1 };
  const fetch = { do_remote_prefill: true, do_remote_decode: false, transfer_id: text, ...peer, remote_dp_rank: count };
  return {
    name: `moriio ${mode}${ranks === undefined ? '' : ', 2 ranks'}`, connector: 'moriio', roles: PAIR, sim: () => ({ transfer: 'moriio', moriio: { mode } }),
    ...(mode === 'READ' ? { legs: 'serial' } : { legs: 'together', differences: TOGETHER }), requestId: MORIIO_ID, mustEndByLength: true, ...(ranks !== undefined && { ranks }),
    prefillParams: { ...KEEP, transfer_id: text, remote_engine_id: null, remote_block_ids: null, ...peer },
    decodeParams: mode === 'READ' ? { ...fetch, remote_engine_id: text, remote_block_ids: ids } : { ...fetch, remote_engine_id: null, remote_block_ids: null },
  };
}

export const MODES = {
  plain: {
    name: 'plain', connector: 'plain', roles: PAIR, sim: () => ({ transfer: 'none', sharedStore: createSharedStore() }), legs: 'serial',
    differences: {
      ...WITHOUT_HANDOFF,
      'prefill restarts between the legs': { expected: { kind: 'right' }, why: 'the shared store outlives the instance' },
    },
  },
  nixl: NIXL,
  'nixl-ranks': { ...NIXL, name: 'nixl, 2 ranks', ranks: 2 },
  'nixl-bidirectional': BIDIRECTIONAL,
  'nixl-bidirectional-reemit': {
    ...BIDIRECTIONAL, name: 'nixl-bidirectional, re-emitted streams', settings: { reemitStreams: true }, isReadWhole: (isStream) => isStream, isDecodedWhole: true,
  },
  'nixl-push': PUSH,
  'nixl-push-ranks': { ...PUSH, name: 'nixl-push, 2 ranks', ranks: 2, firstTurns: 2 },
  mooncake: MOONCAKE,
  'mooncake-ranks': { ...MOONCAKE, name: 'mooncake, 2 ranks', ranks: 2 },
  'moriio-read': moriio('READ'),
  'moriio-read-ranks': moriio('READ', 2),
  'moriio-write': moriio('WRITE'),
  'moriio-write-ranks': moriio('WRITE', 2),
  render: {
    ...NIXL, name: 'render', connector: 'render', isTokenDriven: true, isReadWhole: (isStream) => !isStream,
  },
  aggregated: { name: 'aggregated', connector: 'aggregated', roles: ['both'], sim: () => ({ transfer: 'none' }), legs: 'one', differences: WITHOUT_HANDOFF },
  'encode-nixl': { ...NIXL, name: 'encode + nixl', roles: ['encode', ...PAIR], hasMedia: true },
  'encode-aggregated': {
    name: 'encode + aggregated (E+PD)', connector: 'aggregated', roles: ['encode', 'both'], sim: () => ({ transfer: 'none' }), legs: 'one', hasMedia: true, differences: WITHOUT_HANDOFF,
  },
} as const satisfies Record<string, Mode>;

/** Kinds of the legs of a request up to and with decode, in the order of their start. */
export function legKinds(mode: Mode, api: ConformanceApi, mediaItems: number): readonly LegKind[] {
  const encode: LegKind[] = mode.hasMedia === true && api === 'chat' ? Array.from({ length: mediaItems }, () => 'encode') : [];
  return [...encode, ...(mode.isTokenDriven === true ? (['render'] as const) : []), ...(mode.legs === 'one' ? [] : (['prefill'] as const)), 'decode'];
}

/** The role of the instance that serves a leg. */
export function roleOf(kind: LegKind, mode: Mode): Role {
  if (kind === 'encode') return 'encode';
  if (kind === 'render' || kind === 'prefill') return 'prefill';
  return mode.legs === 'one' ? 'both' : 'decode';
}

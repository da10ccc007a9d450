/** What a simulated instance can be told, and the defaults. */
import { createHash } from 'node:crypto';
import { PdscopeError } from '#shared/errors.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { Logger } from '../log.ts';
import { silentLogger } from '../log.ts';
import type { EncoderStore } from './media-cache.ts';
import type { ReceivedRequest } from './received-log.ts';
import type { SharedStore } from './shared-store.ts';

export interface SimKvEventsOptions {
  /** PUB port of rank 0 (rank r: port + r). Default 0 = choose. */
  readonly port?: number;
  /** Frame 0 of every message. Default `kv-events`. */
  readonly topic?: string;
  /** Default `map`. */
  readonly encoding?: 'array' | 'map';
  /** Default `int`. */
  readonly hashForm?: 'int' | 'bytes';
  /** Whether a replay ROUTER runs beside it. Default true. */
  readonly replay?: boolean;
  /** Port of the replay ROUTER of rank 0. Default 0 = choose. */
  readonly replayPort?: number;
  /** Batches kept for replay. Default 10,000. */
  readonly bufferSteps?: number;
  /** Replies of the replay ROUTER: with a topic frame (vLLM since 2026-07-07) or `bare`, as before. Default `topic`. */
  readonly replayLayout?: 'topic' | 'bare';
}

/** Milliseconds of simulated work before `speed` is applied; the defaults resemble an 8B model on one large GPU. */
export interface SimTiming {
  /** Fixed cost of a step that prefills. Default 12. */
  readonly prefillBaseMs: number;
  /** Per uncached prompt token. Default 0.09. */
  readonly prefillMsPerToken: number;
  /** A decode step with one running request. Default 11. */
  readonly decodeStepMs: number;
  /** Added per further running request. Default 0.12. */
  readonly decodeStepMsPerRunning: number;
  /** Fixed cost of a KV transfer. Default 3. */
  readonly transferBaseMs: number;
  /** Per block pulled from another instance. Default 0.15. */
  readonly transferMsPerBlock: number;
  /** Per media item on an encode instance. Default 40. */
  readonly encodeMsPerItem: number;
  /** Relative spread of step times, 0..1. Default 0.06. */
  readonly jitter: number;
}

export const SIM_TRANSFERS = ['none', 'nixl', 'nixl-push', 'mooncake', 'moriio'] as const;
export type SimTransfer = (typeof SIM_TRANSFERS)[number];

export interface SimMoriioOptions {
  /** `host:port` of the proxy's ROUTER. Undefined: no registration. */
  readonly proxy?: string;
  /** Generation of the registration message. Default `v2`. */
  readonly schema?: 'v1' | 'v1b' | 'v2';
  /** Default `WRITE`. */
  readonly mode?: 'READ' | 'WRITE';
  /** Between registrations, real milliseconds. Default 3000. */
  readonly pingMs?: number;
}

export interface SimInstanceOptions {
  readonly role: Role;
  /** Default: the role. */
  readonly name?: string;
  /** Address to listen on, also the NIXL side channel's. Default 127.0.0.1. */
  readonly host?: string;
  /** HTTP port. Default 0 = choose. */
  readonly port?: number;
  /** Default `sim/Qwen3-8B`. */
  readonly model?: string;
  /** LoRA adapters served beside the model. Default none. */
  readonly loras?: readonly string[];
  /** Default `0.29.0+sim`. */
  readonly version?: string;
  /** Same seed, same behaviour. Default 1. */
  readonly seed?: number;
  /** Tokens per KV block. Default 16. */
  readonly blockSize?: number;
  /** KV blocks per rank. Default 2048. */
  readonly blocks?: number;
  /** Default 32768, and never more than the cache can hold. */
  readonly maxModelLen?: number;
  /** Default false: no events are published. */
  readonly kvEvents?: false | SimKvEventsOptions;
  /** Data-parallel ranks. Default 1. */
  readonly dpSize?: number;
  readonly timing?: Partial<SimTiming>;
  /** Divides all simulated times. Default 1. */
  readonly speed?: number;
  /** Requests running at once per rank. Default 256. */
  readonly maxNumSeqs?: number;
  /** Tokens per step. Default 8192. */
  readonly maxBatchedTokens?: number;
  /** How long finished prefill blocks wait for a decode instance with NIXL (`kv_lease_duration`), real milliseconds. Default 30,000. */
  readonly leaseMs?: number;
  /** How the engine hands KV over (`kv_connector`). Default `nixl`, and `none` on encode instances. */
  readonly transfer?: SimTransfer;
  /** `bidirectional_kv_xfer`: decode instances keep their blocks too and say so in non-streaming answers. NIXL pull only. Default false. */
  readonly bidirectional?: boolean;
  /** How long a decode instance keeps blocks for the next turn (`decoder_kv_blocks_ttl`), real milliseconds. Default 480,000. */
  readonly decoderBlocksTtlMs?: number;
  /** Tokens that a pull of a decode instance's blocks must gain (`kv_recompute_threshold`). Default 64. */
  readonly recomputeThreshold?: number;
  /** A patched engine that puts kv_transfer_params on the last chunk of a stream. Default false. */
  readonly paramsInStream?: boolean;
  /** Strict role of the connector (`kv_role`); a leg of the other kind makes the engine assert and die. Default by role for Mooncake and MoRIIO, which want it strict, else `kv_both`. */
  readonly kvRole?: 'kv_producer' | 'kv_consumer' | 'kv_both';
  /** Mooncake bootstrap server of a prefill instance (VLLM_MOONCAKE_BOOTSTRAP_PORT). Default 0 = choose. */
  readonly bootstrapPort?: number;
  /**
   * How long a decode instance waits for a producer that does not deliver, and (Mooncake, MoRIIO) how long a producer holds what nobody
   * fetches, real milliseconds. Default by protocol: Mooncake and push 480,000, MoRIIO 60,000.
   */
  readonly transferTimeoutMs?: number;
  /** MoRIIO: where to register, and how. Default: no registration. */
  readonly moriio?: SimMoriioOptions;
  /** Whether a profiler is configured: `/start_profile`, `/stop_profile` exist. Default false. */
  readonly profiler?: boolean;
  /** Port of rank 0 for peers (NIXL side channel, Mooncake worker, MoRIIO handshake); rank r: port + r. Default 0 = choose. */
  readonly peerPort?: number;
  /** What happens when pulling KV fails (`kv_load_failure_policy`). Default `fail`. */
  readonly kvLoadFailurePolicy?: 'fail' | 'recompute';
  /** Where encode instances leave encoder outputs for others (`ec_connector`). Default none: everyone encodes for itself. */
  readonly encoderStore?: EncoderStore;
  /** A pooling model: `/v1/embeddings` and no generation. Default false. */
  readonly pooling?: boolean;
  /** Whether /tokenize, /detokenize and the render routes exist; older engines and gateways in front of them lack some. Default true. */
  readonly textRoutes?: boolean;
  /** A store shared by several instances, for P/D without transfer parameters. Default none. */
  readonly sharedStore?: SharedStore;
  /** Bearer token asked for under /v1. Default none. */
  readonly apiKey?: string;
  /** `--enable-per-request-metrics`. Default true. */
  readonly perRequestMetrics?: boolean;
  /** `--enable-prompt-tokens-details`. Default true. */
  readonly promptTokensDetails?: boolean;
  /** `--enable-request-id-headers`. Default false. */
  readonly requestIdHeaders?: boolean;
  /** Metric families that this engine does not have, as an older one: e.g. `vllm:prompt_tokens_by_source_total`. Default none. */
  readonly hiddenMetrics?: readonly string[];
  /** VLLM_SERVER_DEV_MODE: /server_info and /reset_prefix_cache. Default true. */
  readonly devMode?: boolean;
  /** Received requests kept for inspection. Default 256 (and 4 MB of bodies). */
  readonly keepReceived?: number;
  /** Holds a request back until it resolves, after its body was read; for tests that need things to happen in between. Default: nothing waits. */
  readonly gate?: (request: ReceivedRequest) => Promise<void>;
  readonly logger?: Logger;
}

type OptionalOption = 'apiKey' | 'gate' | 'sharedStore' | 'encoderStore' | 'timing' | 'loras' | 'transferTimeoutMs';

/** Options with every default filled in. */
export type ResolvedSimOptions = Required<Omit<SimInstanceOptions, OptionalOption>> & {
  readonly apiKey: string | undefined;
  readonly sharedStore: SharedStore | undefined;
  readonly encoderStore: EncoderStore | undefined;
  readonly transferTimeoutMs: number | undefined;
  readonly gate: ((request: ReceivedRequest) => Promise<void>) | undefined;
  readonly timing: SimTiming;
  readonly loras: readonly string[];
};

const DEFAULT_TIMING: SimTiming = {
  prefillBaseMs: 12,
  prefillMsPerToken: 0.09,
  decodeStepMs: 11,
  decodeStepMsPerRunning: 0.12,
  transferBaseMs: 3,
  transferMsPerBlock: 0.15,
  encodeMsPerItem: 40,
  jitter: 0.06,
};

function defaultRole({ transfer, role }: SimInstanceOptions): 'kv_producer' | 'kv_consumer' | 'kv_both' {
  if (transfer !== 'mooncake' && transfer !== 'moriio') return 'kv_both';
  return role === 'prefill' ? 'kv_producer' : role === 'decode' ? 'kv_consumer' : 'kv_both';
}

/** Throws `sim-option-invalid` on what an engine refuses at start. */
export function resolveSimOptions(options: SimInstanceOptions): ResolvedSimOptions {
  if (options.bidirectional === true && (options.transfer ?? 'nixl') !== 'nixl') {
    throw new PdscopeError('sim-option-invalid', `bidirectional works with transfer nixl only, not with ${String(options.transfer)}: leave one of them out.`);
  }
  const blockSize = options.blockSize ?? 16;
  const blocks = options.blocks ?? 2048;
  return {
    name: options.role,
    host: '127.0.0.1',
    port: 0,
    model: 'sim/Qwen3-8B',
    version: '0.29.0+sim',
    seed: 1,
    kvEvents: false,
    dpSize: 1,
    speed: 1,
    maxNumSeqs: 256,
    maxBatchedTokens: 8192,
    leaseMs: 30_000,
    transfer: 'nixl',
    bidirectional: false,
    decoderBlocksTtlMs: 480_000,
    recomputeThreshold: 64,
    paramsInStream: false,
    kvRole: defaultRole(options),
    bootstrapPort: 0,
    moriio: {},
    profiler: false,
    textRoutes: true,
    pooling: false,
    peerPort: 0,
    kvLoadFailurePolicy: 'fail',
    perRequestMetrics: true,
    promptTokensDetails: true,
    hiddenMetrics: [],
    requestIdHeaders: false,
    devMode: true,
    keepReceived: 256,
    logger: silentLogger,
    ...options,
    // Encoder-only instances have no KV to hand over, whatever their neighbours speak.
    ...(options.role === 'encode' && { transfer: 'none' as const }),
    blockSize,
    blocks,
    maxModelLen: Math.min(options.maxModelLen ?? 32_768, blockSize * blocks),
    timing: { ...DEFAULT_TIMING, ...options.timing },
    loras: options.loras ?? [],
    apiKey: options.apiKey,
    sharedStore: options.sharedStore,
    encoderStore: options.encoderStore,
    transferTimeoutMs: options.transferTimeoutMs,
    gate: options.gate,
  };
}

/** vLLM's default fingerprint: `vllm-<version>-<8 hex>`. */
export function systemFingerprint(options: ResolvedSimOptions): string {
  const digest = createHash('sha256').update(`${options.model}/${options.seed}`).digest('hex');
  return `vllm-${options.version}-${digest.slice(0, 8)}`;
}

/** One sequence in an engine core: what was asked, and how far it has come. n > 1 or several prompts make several. */
import type { BlockHash, ExtraKey } from './block-hash.ts';
import type { EngineFinishReason } from './engine-metrics.ts';
import type { Block } from './kv-cache.ts';
import type { OutputPlan } from './output-plan.ts';
import { NO_LOAD, type LoadPlan, type TransferParams } from './transfer/transfer.ts';

export interface FinishResult {
  readonly reason: EngineFinishReason;
  /** The stop string or token id that ended it; undefined for EOS and length. */
  readonly stopReason: string | number | undefined;
  /** For the response body; undefined when the connector has nothing to say. */
  readonly kvTransferParams: object | undefined;
}

/** Called by the core at step ends. None may throw. */
export interface SequenceListener {
  token(tokenId: number): void;
  /** The last token comes with the end; undefined when it was EOS, which is never shown. */
  finished(tokenId: number | undefined, result: FinishResult): void;
  /** The engine gave up on it (`finish_reason` error inside vLLM): HTTP 500 or an SSE error object. */
  failed(message: string): void;
}

/** A media item inside the prompt. */
export interface MediaItem {
  readonly hash: string;
  readonly modality: 'image' | 'audio' | 'video';
  /** Index of its first placeholder token. */
  readonly start: number;
  readonly length: number;
}

export interface SequenceSpec {
  /** Internal request id, with vLLM's random suffix. */
  readonly id: string;
  readonly promptTokens: readonly number[];
  readonly media: readonly MediaItem[];
  readonly cacheSalt: string | undefined;
  readonly lora: { readonly id: number; readonly name: string } | undefined;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly ignoreEos: boolean;
  readonly n: number;
  readonly plan: OutputPlan;
  readonly kvTransfer: TransferParams | undefined;
  /** `vllm_xargs: {"kv_cache_report_mode": "full"}`: blocks found in the cache are published too (since 2026-07-09). */
  readonly isFullReport: boolean;
  readonly listener: SequenceListener;
}

export class Sequence {
  readonly spec: SequenceSpec;
  /** Prompt and output. */
  readonly tokens: number[];
  readonly arrivedMs: number;
  state: 'waiting' | 'loading' | 'running' | 'finished' = 'waiting';
  blocks: Block[] = [];
  /** Hashes of the full blocks of `tokens`. */
  readonly hashes: BlockHash[] = [];
  readonly extraKeys: (readonly ExtraKey[] | undefined)[] = [];
  /** Blocks already published and findable. */
  storedBlocks = 0;
  /** Tokens whose KV is there. */
  computed = 0;
  localHitTokens = 0;
  externalTokens = 0;
  /** What the transfer protocol made of `kvTransfer`; set once, when the core takes the sequence. */
  load: LoadPlan = NO_LOAD;
  /** Remote KV was handled: pulled, found missing, or not asked for. */
  isRemoteDone = true;
  /** Its KV is another prompt's, so what it says is noise. Nobody but the simulation knows. */
  isGarbage = false;
  scheduledMs: number | undefined;
  firstTokenMs: number | undefined;
  lastTokenMs: number | undefined;
  /** Text tail, kept only when stop strings were given. */
  stopTail = '';

  constructor(spec: SequenceSpec, nowMs: number) {
    this.spec = spec;
    this.tokens = [...spec.promptTokens];
    this.arrivedMs = nowMs;
  }

  get promptLength(): number {
    return this.spec.promptTokens.length;
  }

  get outputLength(): number {
    return this.tokens.length - this.promptLength;
  }

  /** What usage reports: prompt tokens that were not computed here. */
  get cachedTokens(): number {
    return this.localHitTokens + this.externalTokens;
  }
}

/**
 * What a P/D transfer protocol is to an engine core: it reads a request's `kv_transfer_params` into a plan, and at the end
 * of a request says which blocks stay for a peer and what the answer carries. One file per protocol implements it.
 * Invariant: a protocol decides, it holds nothing. Pinned blocks live in the core's LeaseStore, peers are reached through
 * the side channel, and waiting is the remote loader's.
 */
import type { EngineFinishReason } from '../engine-metrics.ts';
import type { ResolvedSimOptions } from '../sim-options.ts';
import type { CopyCheck, OpenAnswer, StoreAnswer } from './lease-store.ts';

export type TransferParams = Readonly<Record<string, unknown>>;

/** One sequence's side of a handoff. */
export interface TransferRequest {
  readonly params: TransferParams;
  /** Internal request id, with the random suffix that each engine adds for itself. */
  readonly id: string;
  /** The same without the suffix: what a peer that got the same X-Request-Id on the same path knows too. */
  readonly baseId: string;
  readonly promptTokens: number;
}

/** KV that another instance holds, or will hold. */
export interface RemoteSource {
  /** Resolves when the KV may be copied, or with the reason why it never can be. An abort of `signal` ends the wait. */
  open(check: CopyCheck, signal: AbortSignal): Promise<OpenAnswer>;
  /** Copied, or not wanted any more: the producer may free its blocks. */
  done(): Promise<StoreAnswer>;
  /** Renews the producer's lease while the request waits in the queue; absent where the protocol has no heartbeat. */
  readonly heartbeat?: () => void;
}

export type LoadPlan =
  /** Nothing to fetch: the prompt is computed here. */
  | { readonly kind: 'none' }
  | {
      readonly kind: 'fetch';
      readonly source: RemoteSource;
      /** Tokens from the start of the prompt that the producer has; capped to the prompt less one. */
      readonly tokens: number;
      /** Fewer tokens than this over the local cache are not worth it: computed here instead. */
      readonly minGain: number;
    }
  /** The scheduler counts on remote KV that nobody was asked for: WAITING_FOR_REMOTE_KVS until the client leaves. */
  | { readonly kind: 'wait-forever'; readonly reason: string }
  /** An exception that fails this request only. */
  | { readonly kind: 'raise'; readonly reason: string }
  /** An assertion in the scheduler: the whole engine dies. */
  | { readonly kind: 'assert'; readonly reason: string };

export interface FinishedRequest extends TransferRequest {
  readonly reason: EngineFinishReason;
  readonly blockIds: readonly number[];
  /** Tokens whose KV is in those blocks. */
  readonly computedTokens: number;
}

export interface Handover {
  /** Pins the blocks under `key` for at most `forMs`; undefined: they are freed. */
  readonly keep: { readonly key: string; readonly forMs: number } | undefined;
  /** kv_transfer_params of the answer; undefined: null on the wire. */
  readonly params: object | undefined;
}

export const NOTHING_HANDED_OVER: Handover = { keep: undefined, params: undefined };
export const NO_LOAD: LoadPlan = { kind: 'none' };

export interface Transfer {
  /** What both ends must share for their handshake; goes with every message. */
  readonly mode: string;
  plan(request: TransferRequest): LoadPlan;
  finish(request: FinishedRequest): Handover;
}

/** What a protocol knows about the engine core it serves. */
export interface TransferContext {
  readonly options: ResolvedSimOptions;
  readonly rank: number;
  /** With `_dp<rank>` when there are several ranks. */
  readonly engineId: string;
  /** This rank's side channel. */
  readonly host: string;
  readonly port: number;
  /** This rank's second port, for MoRIIO notifications. */
  readonly notifyPort: number;
}

/**
 * The renderer's only door to an engine. Views know this interface; whether a WebSocket or an Electron MessagePort is
 * behind it is decided once, in `main.tsx`.
 *
 * Invariants: a subscription survives reconnects (it subscribes again by itself); its handler sees a snapshot before
 * any delta; a hole in the sequence is never papered over: the subscription starts again and counts a resync.
 */
import type { PdscopeError } from '#shared/errors.ts';
import type { OperationInput, OperationName, OperationOutputs } from '#shared/operations.ts';
import type { Channel, ChannelData } from '#shared/wire.ts';

/** Where the session stands. `waiting` counts down to the next attempt; `refused` does not try again by itself. */
export type ConnectionState =
  | { readonly phase: 'connecting'; readonly attempt: number }
  | { readonly phase: 'open'; readonly host: 'headless' | 'desktop'; readonly version: string; readonly isSimulated: boolean }
  | { readonly phase: 'waiting'; readonly attempt: number; readonly retryAtUnixMs: number; readonly reason: string }
  | { readonly phase: 'refused'; readonly reason: string };

/** A value that tells its listeners when it changed; the shape `useSyncExternalStore` wants. */
export interface Observable<T> {
  readonly get: () => T;
  /** Calls `listener` after each change; answers the function that stops it. */
  readonly subscribe: (listener: () => void) => () => void;
}

/** What a subscription was told, in the order the host said it. */
export interface SubscriptionHandler<C extends Channel> {
  /** Replaces everything held so far. `skipped`: deltas the host left out because this side was slow, since subscribing. */
  onSnapshot(data: ChannelData[C], info: { readonly skipped: number }): void;
  onDelta(data: ChannelData[C]): void;
  /** The host would not serve it, e.g. a filter that does not parse. The subscription stays closed. */
  onRejected(error: PdscopeError): void;
  /** The connection went away (`disconnected`) or a hole was found (`resync`); a snapshot follows when it can. */
  onStale(why: 'disconnected' | 'resync'): void;
}

export interface SubscribeOptions {
  /** Filter expression; default '' = everything. */
  readonly filter?: string;
  /** Rows kept by this side; the snapshot never holds more. */
  readonly limit?: number;
}

export interface Subscription {
  close(): void;
}

export interface CallOptions {
  /** Milliseconds until the call fails with code `call_timeout`. Default 30,000. */
  readonly timeoutMs?: number;
}

export interface Transport {
  readonly connection: Observable<ConnectionState>;
  /** Rejects with PdscopeError: the engine's own, `not_connected`, `call_timeout` or `connection_lost`. */
  call<N extends OperationName>(name: N, input: OperationInput<N>, options?: CallOptions): Promise<OperationOutputs[N]>;
  subscribe<C extends Channel>(channel: C, options: SubscribeOptions, handler: SubscriptionHandler<C>): Subscription;
  /** Tries to connect at once instead of waiting out the backoff. */
  retryNow(): void;
  close(): void;
}

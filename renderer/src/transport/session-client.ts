/**
 * The renderer's half of the session protocol (shared/wire.ts) over any duplex.
 *
 * Invariants: calls are matched by id and settle exactly once; a subscription id is never reused, so a late frame of an
 * abandoned subscription cannot be taken for the new one's; deltas are applied only in unbroken sequence after a
 * snapshot. Reconnecting re-subscribes everything; calls in flight are NOT repeated, because the engine may have run them.
 */
import { PdscopeError } from '#shared/errors.ts';
import type { OperationInput, OperationName, OperationOutputs } from '#shared/operations.ts';
import { PROTOCOL_VERSION, type Channel, type ChannelData, type ClientMessage, type HostMessage } from '#shared/wire.ts';
import { backoffMs } from './backoff.ts';
import type { Connect, Duplex } from './duplex.ts';
import { ObservableValue } from './observable-value.ts';
import type { CallOptions, ConnectionState, SubscribeOptions, Subscription, SubscriptionHandler, Transport } from './transport.ts';

const DEFAULT_CALL_TIMEOUT_MS = 30_000;

interface PendingCall {
  settle(outcome: { readonly value: unknown } | { readonly error: PdscopeError }): void;
}

interface LiveSubscription {
  readonly channel: Channel;
  readonly options: SubscribeOptions;
  readonly onSnapshot: (data: ChannelData[Channel], skipped: number) => void;
  readonly onDelta: (data: ChannelData[Channel]) => void;
  readonly onRejected: (error: PdscopeError) => void;
  readonly onStale: (why: 'disconnected' | 'resync') => void;
  /** The sequence number of the last frame applied; undefined until the first snapshot. */
  lastSeq: number | undefined;
  sub: number;
}

export class SessionClient implements Transport {
  readonly connection = new ObservableValue<ConnectionState>({ phase: 'connecting', attempt: 1 });
  readonly #connect: Connect;
  readonly #calls = new Map<number, PendingCall>();
  readonly #subscriptions = new Map<number, LiveSubscription>();
  #duplex: Duplex | undefined;
  #isOpen = false;
  #nextId = 1;
  #attempt = 1;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(connect: Connect) {
    this.#connect = connect;
    this.#open();
  }

  call<N extends OperationName>(name: N, input: OperationInput<N>, options: CallOptions = {}): Promise<OperationOutputs[N]> {
    if (!this.#isOpen) {
      return Promise.reject(new PdscopeError('not_connected', 'Not connected to the engine; nothing was sent.', { retryable: true }));
    }
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const timeoutMs = options.timeoutMs ?? DEFAULT_CALL_TIMEOUT_MS;
      const timer = setTimeout(() => {
        this.#settle(id, {
          error: new PdscopeError('call_timeout', `${name} was not answered within ${timeoutMs / 1000} s; it may still take effect.`, { retryable: true }),
        });
      }, timeoutMs);
      this.#calls.set(id, {
        settle: (outcome) => {
          clearTimeout(timer);
          if ('error' in outcome) reject(outcome.error);
          else resolve(outcome.value as OperationOutputs[N]);
        },
      });
      this.#send({ t: 'call', id, op: name, input });
    });
  }

  subscribe<C extends Channel>(channel: C, options: SubscribeOptions, handler: SubscriptionHandler<C>): Subscription {
    const live: LiveSubscription = {
      channel,
      options,
      onSnapshot: (data, skipped) => handler.onSnapshot(data as ChannelData[C], { skipped }),
      onDelta: (data) => handler.onDelta(data as ChannelData[C]),
      onRejected: (error) => handler.onRejected(error),
      onStale: (why) => handler.onStale(why),
      lastSeq: undefined,
      sub: 0,
    };
    this.#start(live);
    return {
      close: () => {
        if (!this.#subscriptions.delete(live.sub)) return;
        if (this.#isOpen) this.#send({ t: 'unsubscribe', sub: live.sub });
      },
    };
  }

  retryNow(): void {
    if (this.connection.get().phase === 'waiting' || this.connection.get().phase === 'refused') this.#open();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    this.#dropConnection('closed by this page');
    this.#subscriptions.clear();
  }

  #open(): void {
    clearTimeout(this.#retryTimer);
    this.connection.set({ phase: 'connecting', attempt: this.#attempt });
    // Handlers of an attempt that was given up must not touch the state of its successor.
    let isCurrent = true;
    const duplex = this.#connect({
      onMessage: (message) => {
        if (isCurrent) this.#receive(message);
      },
      onClose: (reason, isFinal = false) => {
        if (!isCurrent) return;
        isCurrent = false;
        this.#lost(reason, isFinal);
      },
    });
    if (isCurrent) this.#duplex = duplex;
  }

  #lost(reason: string, isFinal: boolean): void {
    if (this.#isClosed) return;
    this.#dropConnection(reason);
    if (isFinal) {
      this.connection.set({ phase: 'refused', reason });
      return;
    }
    const delayMs = backoffMs(this.#attempt);
    this.connection.set({ phase: 'waiting', attempt: this.#attempt, retryAtUnixMs: Date.now() + delayMs, reason });
    this.#attempt += 1;
    this.#retryTimer = setTimeout(() => this.#open(), delayMs);
  }

  #dropConnection(reason: string): void {
    const duplex = this.#duplex;
    this.#duplex = undefined;
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    duplex?.close();
    for (const id of this.#calls.keys()) {
      this.#settle(id, {
        error: new PdscopeError('connection_lost', `The connection to the engine was lost (${reason}); the command may or may not have taken effect.`, {
          retryable: true,
        }),
      });
    }
    if (!wasOpen) return;
    for (const live of this.#subscriptions.values()) {
      live.lastSeq = undefined;
      live.onStale('disconnected');
    }
  }

  #receive(message: HostMessage): void {
    switch (message.t) {
      case 'hello': {
        this.#welcome(message);
        return;
      }
      case 'result': {
        this.#settle(message.id, message.ok ? { value: message.value } : { error: PdscopeError.fromBody(message.error) });
        return;
      }
      case 'rejected': {
        const live = this.#subscriptions.get(message.sub);
        this.#subscriptions.delete(message.sub);
        live?.onRejected(PdscopeError.fromBody(message.error));
        return;
      }
      case 'snapshot': {
        const live = this.#subscriptions.get(message.sub);
        if (live === undefined) return;
        live.lastSeq = message.seq;
        live.onSnapshot(message, message.skipped);
        return;
      }
      case 'delta': {
        this.#applyDelta(message.sub, message.seq, message);
      }
    }
  }

  #welcome(hello: Extract<HostMessage, { t: 'hello' }>): void {
    if (hello.protocol !== PROTOCOL_VERSION) {
      this.#dropConnection('protocol mismatch');
      this.connection.set({
        phase: 'refused',
        reason: `This page speaks session protocol ${PROTOCOL_VERSION}, the engine ${hello.protocol} (version ${hello.version}). Reload the page.`,
      });
      return;
    }
    this.#isOpen = true;
    this.#attempt = 1;
    this.connection.set({ phase: 'open', host: hello.host, version: hello.version, isSimulated: hello.isSimulated });
    const subscriptions = Array.from(this.#subscriptions.values());
    this.#subscriptions.clear();
    for (const live of subscriptions) this.#start(live);
  }

  #applyDelta(sub: number, seq: number, data: ChannelData[Channel]): void {
    const live = this.#subscriptions.get(sub);
    if (live === undefined) return;
    if (live.lastSeq === undefined || seq !== live.lastSeq + 1) {
      this.#send({ t: 'unsubscribe', sub });
      live.onStale('resync');
      this.#restart(live);
      return;
    }
    live.lastSeq = seq;
    live.onDelta(data);
  }

  #restart(live: LiveSubscription): void {
    this.#subscriptions.delete(live.sub);
    this.#start(live);
  }

  #start(live: LiveSubscription): void {
    live.sub = this.#nextId++;
    live.lastSeq = undefined;
    this.#subscriptions.set(live.sub, live);
    if (this.#isOpen) this.#send({ t: 'subscribe', sub: live.sub, channel: live.channel, ...live.options });
  }

  #send(message: ClientMessage): void {
    this.#duplex?.send(message);
  }

  #settle(id: number, outcome: { readonly value: unknown } | { readonly error: PdscopeError }): void {
    const pending = this.#calls.get(id);
    this.#calls.delete(id);
    pending?.settle(outcome);
  }
}

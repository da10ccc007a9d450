/**
 * Bound SUB sockets that several streams share. Engines whose publisher connects may all be pointed at one endpoint
 * (llm-d's centralized mode: the indexer binds, topics are `kv@<pod>@<model>`); each stream then takes the messages whose
 * topic begins with its own prefix, as libzmq would have chosen for a socket of its own.
 *
 * Which peer sent what is not told by ZeroMQ, so all streams of an endpoint share one state of the connection, and every
 * new peer may be anyone's engine that started anew. Topics that no stream takes are remembered, the first few, for the
 * reason that streams show.
 */
import { decodeTopic } from './decode-batch.ts';
import { SubSocket, type SocketPhase, type SubSocketOptions } from './sub-socket.ts';

/** What a stream holds. */
export type Subscription = Pick<SubSocket, 'open' | 'close'>;

const MAX_UNCLAIMED = 8;

export class SharedBindings {
  readonly #bindings = new Map<string, Binding>();

  /** A subscription to what arrives at `options.endpoint` under `options.topic`. */
  subscribe(options: SubSocketOptions): Subscription {
    return {
      open: () => {
        let binding = this.#bindings.get(options.endpoint);
        if (binding === undefined) {
          binding = new Binding(options);
          this.#bindings.set(options.endpoint, binding);
          binding.add(options);
          binding.open();
        } else binding.add(options);
      },
      close: async () => {
        const binding = this.#bindings.get(options.endpoint);
        if (binding?.remove(options) !== true) return;
        this.#bindings.delete(options.endpoint);
        await binding.close();
      },
    };
  }

  /** Topics that arrived at the endpoint and that no stream takes, the first few. */
  unclaimed(endpoint: string): readonly string[] {
    return Array.from(this.#bindings.get(endpoint)?.unclaimed ?? []);
  }
}

class Binding {
  readonly unclaimed = new Set<string>();
  readonly #socket: SubSocket;
  readonly #subscribers = new Map<SubSocketOptions, Buffer>();
  #phase: SocketPhase = 'connecting';
  #reason: string | undefined;

  constructor({ endpoint, intake }: SubSocketOptions) {
    this.#socket = new SubSocket({
      endpoint,
      mode: 'bind',
      topic: '',
      intake,
      onMessage: (frames) => this.#onMessage(frames),
      onPhase: (phase, reason) => {
        this.#phase = phase;
        this.#reason = reason;
        for (const subscriber of this.#subscribers.keys()) subscriber.onPhase(phase, reason);
      },
      onHandshake: () => {
        for (const subscriber of this.#subscribers.keys()) subscriber.onHandshake?.();
      },
    });
  }

  add(subscriber: SubSocketOptions): void {
    this.#subscribers.set(subscriber, Buffer.from(subscriber.topic));
    this.unclaimed.clear();
    if (this.#phase !== 'connecting' || this.#reason !== undefined) subscriber.onPhase(this.#phase, this.#reason);
  }

  /** Answers whether nobody is left. */
  remove(subscriber: SubSocketOptions): boolean {
    return this.#subscribers.delete(subscriber) && this.#subscribers.size === 0;
  }

  open(): void {
    this.#socket.open();
  }

  close(): Promise<void> {
    return this.#socket.close();
  }

  #onMessage(frames: readonly Uint8Array[]): void {
    const [topic] = frames;
    let isClaimed = false;
    for (const [subscriber, prefix] of this.#subscribers) {
      if (topic === undefined || !startsWith(topic, prefix)) continue;
      isClaimed = true;
      subscriber.onMessage(frames);
    }
    if (!isClaimed && topic !== undefined && this.unclaimed.size < MAX_UNCLAIMED) this.unclaimed.add(decodeTopic(topic));
  }
}

function startsWith(bytes: Uint8Array, prefix: Buffer): boolean {
  return bytes.length >= prefix.length && prefix.equals(bytes.subarray(0, prefix.length));
}

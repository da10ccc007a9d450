/** A stand-in for an engine's publisher: a real publishing socket that sends whatever frames a test wants. */
import { encode } from '@msgpack/msgpack';
import { XPublisher } from 'zeromq';
import { InstanceIdSchema } from '#shared/ids.ts';
import { KvEventsConfigSchema, type KvEventsConfig } from '#shared/instance.ts';
import type { KvObserver } from '#engine/kv-events/kv-observer.ts';
import { IndexObserver } from '#engine/kv-index/index-observer.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';

export { reservePort as freePort, reservePorts as freePorts } from '../../support/reserved-ports.ts';

export class TestPublisher implements AsyncDisposable {
  readonly #socket = new XPublisher({ linger: 0, sendHighWaterMark: 100_000 });
  #subscriptions = 0;

  constructor() {
    this.#socket.verbosity = 'allSubs';
    void this.#countSubscriptions();
  }

  static async bound(endpoint: string): Promise<TestPublisher> {
    const publisher = new TestPublisher();
    // A port that was just closed may be taken for a moment longer.
    await until(async () => publisher.#socket.bind(endpoint).then(() => true, () => false), `bind ${endpoint}`);
    return publisher;
  }

  static connected(endpoint: string): TestPublisher {
    const publisher = new TestPublisher();
    publisher.#socket.connect(endpoint);
    return publisher;
  }

  /**
   * Resolves when `count` subscriptions have come since the start. A subscriber that is connected may not have told its
   * subscription yet, and what is sent until then is lost.
   */
  subscribed(count = 1): Promise<void> {
    return until(() => this.#subscriptions >= count, `subscription ${count}`);
  }

  /** Sends a message to whoever subscribed; waits for the first subscriber. */
  async send(frames: readonly Uint8Array[]): Promise<void> {
    if (this.#subscriptions === 0) await this.subscribed();
    await this.#socket.send(frames.map((frame) => Buffer.from(frame)));
  }

  /** Sends one batch of events as an engine would. */
  async batch(seq: number, events: readonly unknown[], options: { readonly ts?: unknown; readonly rank?: number; readonly topic?: string } = {}): Promise<void> {
    await this.send(batchFrames(seq, events, options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    await Promise.resolve();
  }

  async #countSubscriptions(): Promise<void> {
    for await (const [message] of this.#socket) if (message?.[0] === 1) this.#subscriptions += 1;
  }
}

export function batchFrames(seq: number, events: readonly unknown[], { ts = 1000 + seq, rank = 0, topic = '' }: { readonly ts?: unknown; readonly rank?: number; readonly topic?: string } = {}): Buffer[] {
  const sequence = Buffer.alloc(8);
  sequence.writeBigUInt64BE(BigInt(seq));
  return [Buffer.from(topic), sequence, Buffer.from(encode([ts, events, rank], { useBigInt64: true, forceFloat32: false }))];
}

/** A store of one block of two tokens. */
export function stored(hash: number | bigint, parent: number | bigint | null = null): readonly unknown[] {
  return ['BlockStored', [hash], parent, [Number(hash), Number(hash) + 1], 2, null, 'GPU'];
}

export function removed(hash: number | bigint): readonly unknown[] {
  return ['BlockRemoved', [hash], 'GPU'];
}

/** An index of blocks for streams, and what feeds it, as their options. */
export function indexed(capacity = 10_000): { readonly books: KvIndex; readonly observer: KvObserver } {
  const books = new KvIndex({ capacity });
  return { books, observer: new IndexObserver(books) };
}

/** Waits for a state. */
export async function until(isThere: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + WAIT_LIMIT_MS;
  while (!(await isThere())) {
    if (performance.now() > deadline) throw new Error(`still waiting for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export const P0 = { id: InstanceIdSchema.parse('p0'), name: 'P0' };

export function config(input: { readonly endpoint: string } & Partial<KvEventsConfig>): KvEventsConfig {
  return KvEventsConfigSchema.parse(input);
}

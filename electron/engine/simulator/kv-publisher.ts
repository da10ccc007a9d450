/**
 * The ZMQ side of one data-parallel rank: a PUB socket with numbered batches and, if asked for, a ROUTER that replays the
 * last ones (protocol facts: vllm/distributed/kv_events.py). Publishing never waits: libzmq drops for slow subscribers,
 * as it does for vLLM. Numbers start at 0 with each publisher.
 */
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { Router, XPublisher } from 'zeromq';
import { PdscopeError } from '#shared/errors.ts';
import { encodeKvBatch, type KvEvent, type KvWireFormat } from './kv-event.ts';

/** vLLM's default high-water mark and replay buffer. */
const HIGH_WATER_MARK = 100_000;
const DEFAULT_BUFFER_STEPS = 10_000;
const END_SEQ = Buffer.alloc(8, 0xff);
const EMPTY = Buffer.alloc(0);
/** First byte of what a subscriber sends to subscribe; 0 takes it back (ZMTP 3). */
const SUBSCRIBE = 1;
const BIND_ATTEMPTS = 50;
const REPLAYED_PER_TURN = 64;

export interface KvPublisherOptions {
  /** Endpoint to bind, e.g. `tcp://127.0.0.1:5557`; port `*` for any. */
  readonly endpoint: string;
  /** Endpoint of the replay ROUTER; absent = no replay. */
  readonly replayEndpoint?: string;
  readonly topic: string;
  readonly format: KvWireFormat;
  readonly rank: number;
  /** Batches kept for replay. Default 10,000. */
  readonly bufferSteps?: number;
  /** Replies with a topic frame (vLLM since 2026-07-07) or `bare`, as before. Default `topic`. */
  readonly replayLayout?: 'topic' | 'bare';
  /** Tries, 20 ms apart, while the port is taken. Default 50. */
  readonly bindAttempts?: number;
}

export interface PublishCounters {
  batches: number;
  events: number;
  bytes: number;
  /** Batches kept back by the `event-gap` fault; they are still in the replay buffer. */
  skipped: number;
  replayRequests: number;
  replayedBatches: number;
  /** Subscriptions that arrived. What was published before went past that subscriber. */
  subscriptions: number;
}

export interface KvPublisher {
  /** Bound endpoint with its real port. */
  readonly endpoint: string;
  readonly replayEndpoint: string | undefined;
  readonly counters: Readonly<PublishCounters>;
  /** Batches still to be kept back. */
  readonly pendingGap: number;
  publish(events: readonly KvEvent[]): void;
  /** Keeps the next `batches` batches off the PUB socket. */
  skipNext(batches: number): void;
  close(): void;
}

/** What a replay needs. The number, not its frame: ten thousand small frames would each keep a pool page alive. */
interface Sent {
  readonly seq: number;
  readonly payload: Uint8Array;
}

function seqFrame(seq: number): Buffer {
  const frame = Buffer.allocUnsafe(8);
  frame.writeBigUInt64BE(BigInt(seq));
  return frame;
}

function readSeq(frame: Buffer): bigint {
  // The start number is read big-endian from however many bytes arrive (golden vector with-topic/short-seq).
  return frame.length === 0 ? 0n : BigInt(`0x${frame.toString('hex')}`);
}

/** A port that was just released may still be held by libzmq's reaper thread, so binding is tried for a while. */
async function bindWithRetry(socket: XPublisher | Router, endpoint: string, attempts: number): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await socket.bind(endpoint);
      return socket.lastEndpoint ?? endpoint;
    } catch (error) {
      if (attempt >= attempts || endpoint.endsWith(':*')) {
        throw new PdscopeError('sim-bind-failed', `Cannot bind ${endpoint} for KV events: choose another port.`, { cause: error });
      }
      await delay(20);
    }
  }
}

class ZmqKvPublisher implements KvPublisher {
  readonly counters: PublishCounters = { batches: 0, events: 0, bytes: 0, skipped: 0, replayRequests: 0, replayedBatches: 0, subscriptions: 0 };
  endpoint = '';
  replayEndpoint: string | undefined;
  pendingGap = 0;
  /** As PUB, which vLLM has, to whoever subscribes; only this one tells that somebody did. */
  readonly #pub: XPublisher;
  readonly #router: Router | undefined;
  readonly #options: KvPublisherOptions;
  readonly #topic: Buffer;
  readonly #bufferSteps: number;
  readonly #sent: Sent[] = [];
  #sentStart = 0;
  readonly #outbox: Uint8Array[][] = [];
  #isSending = false;
  #seq = 0;
  #isClosed = false;

  constructor(options: KvPublisherOptions) {
    this.#options = options;
    this.#topic = Buffer.from(options.topic, 'utf8');
    this.#bufferSteps = options.bufferSteps ?? DEFAULT_BUFFER_STEPS;
    const common = { linger: 0, ipv6: options.endpoint.includes('[') };
    this.#pub = new XPublisher({ ...common, sendHighWaterMark: HIGH_WATER_MARK });
    this.#pub.verbosity = 'allSubs';
    // An unlimited mark: a replay may be longer than libzmq's default of 1,000 messages.
    if (options.replayEndpoint !== undefined) this.#router = new Router({ ...common, sendHighWaterMark: 0 });
  }

  async open(): Promise<void> {
    const attempts = this.#options.bindAttempts ?? BIND_ATTEMPTS;
    try {
      this.endpoint = await bindWithRetry(this.#pub, this.#options.endpoint, attempts);
      void this.#countSubscriptions();
      if (this.#router !== undefined && this.#options.replayEndpoint !== undefined) {
        this.replayEndpoint = await bindWithRetry(this.#router, this.#options.replayEndpoint, attempts);
        void this.#serveReplay(this.#router);
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  publish(events: readonly KvEvent[]): void {
    if (this.#isClosed || events.length === 0) return;
    const payload = encodeKvBatch({ ts: Date.now() / 1000, events, rank: this.#options.rank }, this.#options.format);
    const seq = this.#seq;
    this.#seq += 1;
    this.#remember({ seq, payload });
    if (this.pendingGap > 0) {
      this.pendingGap -= 1;
      this.counters.skipped += 1;
      return;
    }
    this.counters.batches += 1;
    this.counters.events += events.length;
    this.counters.bytes += payload.length;
    this.#outbox.push([this.#topic, seqFrame(seq), payload]);
    if (!this.#isSending) void this.#send();
  }

  /**
   * A PUB socket queues or drops at once, but zeromq.js lets a send wait for the event loop now and then, and refuses
   * a second one meanwhile (EBUSY): one sender empties the outbox in order.
   */
  async #send(): Promise<void> {
    this.#isSending = true;
    for (let frames = this.#outbox.shift(); frames !== undefined && !this.#isClosed; frames = this.#outbox.shift()) {
      try {
        await this.#pub.send(frames);
      } catch (error) {
        if (!this.#isClosed) throw error;
      }
    }
    this.#isSending = false;
  }

  skipNext(batches: number): void {
    this.pendingGap += batches;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#pub.close();
    this.#router?.close();
  }

  #remember(sent: Sent): void {
    this.#sent.push(sent);
    if (this.#sent.length - this.#sentStart <= this.#bufferSteps) return;
    this.#sentStart += 1;
    // Compacts now and then instead of shifting 10,000 entries per batch.
    if (this.#sentStart > this.#bufferSteps) {
      this.#sent.splice(0, this.#sentStart);
      this.#sentStart = 0;
    }
  }

  async #countSubscriptions(): Promise<void> {
    try {
      for await (const [message] of this.#pub) if (message?.[0] === SUBSCRIBE) this.counters.subscriptions += 1;
    } catch (error) {
      if (!this.#isClosed) throw error;
    }
  }

  async #serveReplay(router: Router): Promise<void> {
    try {
      for await (const frames of router) {
        const [client, delimiter, start] = frames;
        // Without the delimiter vLLM logs and stays silent.
        if (client === undefined || delimiter === undefined || start === undefined || delimiter.length > 0) continue;
        await this.#replay(router, client, readSeq(start));
      }
    } catch (error) {
      if (!this.#isClosed) throw error;
    }
  }

  async #replay(router: Router, client: Buffer, start: bigint): Promise<void> {
    this.counters.replayRequests += 1;
    const isBare = this.#options.replayLayout === 'bare';
    for (const { seq, payload } of this.#sent.slice(this.#sentStart)) {
      if (seq < start) continue;
      await router.send([client, EMPTY, ...(isBare ? [] : [this.#topic]), seqFrame(seq), payload]);
      this.counters.replayedBatches += 1;
      // Sends resolve at once: a long buffer would keep everything else in this process waiting.
      if (this.counters.replayedBatches % REPLAYED_PER_TURN === 0) await nextTurn();
      if (this.#isClosed) return;
    }
    await router.send([client, EMPTY, ...(isBare ? [] : [EMPTY]), END_SEQ, EMPTY]);
  }
}

/** Binds the sockets. Throws `sim-bind-failed`. */
export async function openKvPublisher(options: KvPublisherOptions): Promise<KvPublisher> {
  const publisher = new ZmqKvPublisher(options);
  await publisher.open();
  return publisher;
}

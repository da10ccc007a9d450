/** One life of an engine on real sockets: a PUB and a replay ROUTER over the same bounded buffer, told what to do wrong. */
import { Router, XPublisher } from 'zeromq';
import { batchFrames, freePorts, stored, until } from './publisher.ts';

export interface ScriptedEngineOptions {
  readonly pubPort: number;
  readonly replayPort: number;
  readonly layout?: 'topic' | 'bare';
  readonly bufferSteps?: number;
  /** Default ''. */
  readonly topic?: string;
  /** First timestamp, seconds; later batches count up. Default: now. */
  readonly ts?: number;
  /** Replies before the ROUTER says no more, end marker included. Default: all. */
  readonly stopsAfter?: number;
}

const EMPTY = Buffer.alloc(0);
const END = Buffer.alloc(8, 0xff);

export class ScriptedEngine implements AsyncDisposable {
  readonly questions: number[] = [];
  stopsAfter: number;

  readonly #options: ScriptedEngineOptions;
  readonly #pub = new XPublisher({ linger: 0 });
  #subscriptions = 0;
  readonly #router = new Router({ linger: 0, sendHighWaterMark: 0 });
  readonly #sent: Buffer[][] = [];
  readonly #startedAt: number;
  #seq = 0;
  #loop: Promise<void> = Promise.resolve();
  #listening: Promise<void> = Promise.resolve();

  constructor(options: ScriptedEngineOptions) {
    this.#options = options;
    this.#startedAt = options.ts ?? Date.now() / 1000;
    this.stopsAfter = options.stopsAfter ?? Number.POSITIVE_INFINITY;
  }

  static async started(options: ScriptedEngineOptions): Promise<ScriptedEngine> {
    const engine = new ScriptedEngine(options);
    // A port of the life before may be taken for a moment longer.
    const bind = (socket: XPublisher | Router, port: number) => until(async () => socket.bind(`tcp://127.0.0.1:${port}`).then(() => true, () => false), `port ${port}`);
    await bind(engine.#router, options.replayPort);
    engine.#loop = engine.#serve();
    engine.#pub.verbosity = 'allSubs';
    await bind(engine.#pub, options.pubPort);
    engine.#listening = engine.#countSubscriptions();
    return engine;
  }

  /** Resolves when `count` subscriptions have come: a batch that is published before goes past that subscriber. */
  subscribed(count = 1): Promise<void> {
    return until(() => this.#subscriptions >= count, `subscription ${count}`);
  }

  /** Sends the next batch, which stores the block `hash`; not when it is to be missed. */
  async publish(hash: number, { isMissed = false } = {}): Promise<number> {
    const seq = this.#seq;
    const frames = batchFrames(seq, [stored(hash)], { ts: this.#startedAt + seq / 1000, topic: this.#options.topic ?? '' });
    this.#seq += 1;
    this.#sent.push(frames);
    if (this.#sent.length > (this.#options.bufferSteps ?? 10_000)) this.#sent.shift();
    if (!isMissed) await this.#pub.send(frames);
    return seq;
  }

  /** The live message of a batch that the buffer still has. */
  framesOf(seq: number): readonly Uint8Array[] {
    const found = this.#sent.find(([, sequence]) => Number(sequence?.readBigUInt64BE() ?? -1n) === seq);
    if (found === undefined) throw new Error(`batch ${seq} is no longer kept`);
    return found;
  }

  async #countSubscriptions(): Promise<void> {
    for await (const [message] of this.#pub) if (message?.[0] === 1) this.#subscriptions += 1;
  }

  async #serve(): Promise<void> {
    for await (const [client, , start] of this.#router) {
      const from = Number(start?.readBigUInt64BE() ?? 0n);
      this.questions.push(from);
      const isBare = this.#options.layout === 'bare';
      const replies = this.#sent
        .filter(([, sequence]) => Number(sequence?.readBigUInt64BE() ?? 0n) >= from)
        .map(([topic = EMPTY, sequence = EMPTY, payload = EMPTY]) => [EMPTY, ...(isBare ? [] : [topic]), sequence, payload]);
      replies.push([EMPTY, ...(isBare ? [] : [EMPTY]), END, EMPTY]);
      for (const reply of replies.slice(0, this.stopsAfter)) await this.#router.send([client ?? EMPTY, ...reply]);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#pub.close();
    this.#router.close();
    await Promise.all([this.#loop, this.#listening]);
  }
}

/** Two ports for an engine, and its configuration. */
export async function enginePorts(): Promise<{ readonly pubPort: number; readonly replayPort: number; readonly endpoint: string; readonly replayEndpoint: string }> {
  const base = await freePorts(2);
  return { pubPort: base, replayPort: base + 1, endpoint: `tcp://127.0.0.1:${base}`, replayEndpoint: `tcp://127.0.0.1:${base + 1}` };
}

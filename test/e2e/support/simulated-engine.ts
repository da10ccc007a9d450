/** A simulated engine that a test drives: killed, started again at the same address, and told to keep batches back. */
import { expect } from '@playwright/test';
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';
import { reservePorts } from '../../support/reserved-ports.ts';

export interface SimulatedEngineOptions {
  readonly name: string;
  readonly model: string;
  /** Whether it has a replay socket. */
  readonly hasReplay: boolean;
}

const BLOCK_SIZE = 16;

export class SimulatedEngine implements AsyncDisposable {
  readonly #options: SimulatedEngineOptions;
  #instance: SimInstance;
  #prompts = 0;

  constructor(options: SimulatedEngineOptions, instance: SimInstance) {
    this.#options = options;
    this.#instance = instance;
  }

  static async started(options: SimulatedEngineOptions): Promise<SimulatedEngine> {
    // Addresses that nobody else gets while it is down.
    const port = await reservePorts(3);
    return new SimulatedEngine(options, await start(options, port));
  }

  get url(): string {
    return this.#instance.url;
  }

  get kvEvents(): NonNullable<SimInstance['kvEvents']> {
    const { kvEvents } = this.#instance;
    if (kvEvents === undefined) throw new Error('the simulated engine publishes nothing');
    return kvEvents;
  }

  /** Resolves when somebody subscribed to its events: what it publishes before is heard by nobody. */
  async subscribed(): Promise<void> {
    await expect.poll(() => this.#instance.publish.subscriptions).toBeGreaterThan(0);
  }

  /** Sends prompts of its own that differ from the first token on, so that each publishes batches. */
  async work(requests = 1): Promise<void> {
    for (let left = requests; left > 0; left -= 1) {
      this.#prompts += 1;
      const prompt = `Number ${this.#prompts} ${this.#options.name}: ${'words that fill blocks of a prompt, one after the other. '.repeat(6)}`;
      const response = await fetch(`${this.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: this.#options.model, prompt, max_tokens: 2 }),
      });
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
      await response.text();
    }
  }

  /** Keeps the next batches off the publishing socket, and sends others after them. */
  async loseBatches(count: number): Promise<void> {
    await this.#instance.setFault('event-gap', count);
    while (this.#instance.fault === 'event-gap') await this.work();
    await this.work();
  }

  /** Ends it as a process that dies does: its sockets close without a word. */
  async kill(): Promise<void> {
    await this.#instance.close();
  }

  /** A new life at the same address, with an empty cache and sequence numbers from 0. */
  async startAgain(): Promise<void> {
    this.#instance = await start(this.#options, Number(new URL(this.url).port));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#instance.close();
  }
}

/** @param port For HTTP; its neighbours are for KV events and their replay. */
function start({ name, model, hasReplay }: SimulatedEngineOptions, port: number): Promise<SimInstance> {
  return startSimInstance({ role: 'prefill', name, model, port, speed: 50, blockSize: BLOCK_SIZE, kvEvents: { port: port + 1, replay: hasReplay, ...(hasReplay && { replayPort: port + 2 }) } });
}

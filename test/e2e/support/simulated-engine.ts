/** A simulated engine that a test drives: killed, started again at the same address, and told to keep batches back. */
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';

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
    return new SimulatedEngine(options, await start(options, {}));
  }

  get url(): string {
    return this.#instance.url;
  }

  get kvEvents(): NonNullable<SimInstance['kvEvents']> {
    const { kvEvents } = this.#instance;
    if (kvEvents === undefined) throw new Error('the simulated engine publishes nothing');
    return kvEvents;
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
    const port = (endpoint: string | undefined): number => Number(endpoint?.slice(endpoint.lastIndexOf(':') + 1) ?? 0);
    const { endpoint, replayEndpoint } = this.kvEvents;
    this.#instance = await start(this.#options, { port: port(this.url), eventsPort: port(endpoint), replayPort: port(replayEndpoint) });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#instance.close();
  }
}

function start({ name, model, hasReplay }: SimulatedEngineOptions, ports: { readonly port?: number; readonly eventsPort?: number; readonly replayPort?: number }): Promise<SimInstance> {
  const { port = 0, eventsPort = 0, replayPort = 0 } = ports;
  return startSimInstance({ role: 'prefill', name, model, port, speed: 50, blockSize: BLOCK_SIZE, kvEvents: { port: eventsPort, replay: hasReplay, ...(hasReplay && { replayPort }) } });
}

/** A replay socket that does what a script says, whatever an engine would do. */
import { setTimeout as delay } from 'node:timers/promises';
import { Router } from 'zeromq';
import { until } from './publisher.ts';

export interface Question {
  /** Counted from 1. */
  readonly question: number;
  /** The sequence asked for. */
  readonly from: number;
  /** Sends frames as they are, delimiter and all. */
  readonly send: (frames: readonly Uint8Array[]) => Promise<void>;
  /** Sends the end marker. */
  readonly end: () => Promise<void>;
  /** Resolves after `ms`; rejects once the router is closed, which ends scripts without end. */
  readonly pause: (ms: number) => Promise<void>;
}

/** Answers one question; `reset` closes the socket and binds it again. */
export type Script = (question: Question) => Promise<'reset' | void>;

const EMPTY = Buffer.alloc(0);

/** The frames of a batch as one reply with a topic frame. */
export function reply([topic = EMPTY, sequence = EMPTY, payload = EMPTY]: readonly Uint8Array[]): Uint8Array[] {
  return [EMPTY, topic, sequence, payload];
}

export class HostileRouter implements AsyncDisposable {
  readonly questions: number[] = [];
  readonly #endpoint: string;
  readonly #script: Script;
  readonly #closing = new AbortController();
  #socket = new Router({ linger: 0, sendHighWaterMark: 0 });
  #loop: Promise<void> = Promise.resolve();

  constructor(endpoint: string, script: Script) {
    this.#endpoint = endpoint;
    this.#script = script;
  }

  static async bound(endpoint: string, script: Script): Promise<HostileRouter> {
    const router = new HostileRouter(endpoint, script);
    await router.#bind();
    return router;
  }

  async #bind(): Promise<void> {
    await until(async () => this.#socket.bind(this.#endpoint).then(() => true, () => false), `bind ${this.#endpoint}`);
    this.#loop = this.#serve();
  }

  async #serve(): Promise<void> {
    const socket = this.#socket;
    for await (const [client = EMPTY, , start] of socket) {
      const from = Number(start?.readBigUInt64BE() ?? 0n);
      this.questions.push(from);
      const answered = await this.#answer(client, from);
      if (answered !== 'reset') continue;
      socket.close();
      this.#socket = new Router({ linger: 0, sendHighWaterMark: 0 });
      await this.#bind();
      return;
    }
  }

  async #answer(client: Buffer, from: number): Promise<'reset' | undefined> {
    const send = async (frames: readonly Uint8Array[]): Promise<void> => {
      await this.#socket.send([client, ...frames.map((frame) => Buffer.from(frame))]);
    };
    try {
      const answer = await this.#script({
        question: this.questions.length,
        from,
        send,
        end: () => send([EMPTY, EMPTY, Buffer.alloc(8, 0xff), EMPTY]),
        pause: (ms) => delay(ms, undefined, { signal: this.#closing.signal }),
      });
      return answer === 'reset' ? answer : undefined;
    } catch (error) {
      if (this.#closing.signal.aborted) return undefined;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    this.#socket.close();
    await this.#loop;
  }
}

/**
 * Text of token ids, through `/detokenize` of an instance of the fleet. Answers of views wait for it a moment only: what
 * is not there by then is absent, comes later into the cache, and is there when the view asks again. Bounded: entries,
 * characters, questions at once and questions waiting; an instance that cannot tell is not asked for a while.
 */
import type { InstanceId } from '#shared/ids.ts';
import type { Instance } from '../fleet/instance.ts';
import { asJsonObject } from '../proxy/client-request.ts';
import type { EngineCall } from './engine-call.ts';

export interface TokenTextOptions {
  readonly call: EngineCall;
  readonly instances: () => readonly Instance[];
  readonly authorization: string | undefined;
  /** Texts kept. Default 5000. */
  readonly capacity?: number;
  /** Longest wait of one answer for its texts, ms. Default 700. */
  readonly patienceMs?: number;
}

/** What is asked for: token ids, and the instances that hold them, whose tokenizer they are of. */
export interface TextQuestion {
  readonly tokens: readonly number[];
  readonly holders?: readonly InstanceId[];
}

const PATH = '/detokenize';
const AT_ONCE = 4;
const MAX_WAITING = 500;
const MAX_CHARS = 1000;
/** After a failure that may pass, an instance is left alone for this long. */
const PAUSE_MS = 5000;

interface Waiting {
  readonly key: string;
  readonly question: TextQuestion;
  readonly done: () => void;
}

export class TokenText {
  readonly #options: TokenTextOptions;
  readonly #texts = new Map<string, string>();
  readonly #asked = new Map<string, Promise<void>>();
  readonly #paused = new Map<InstanceId, number>();
  #queue: Waiting[] = [];
  #running = 0;

  constructor(options: TokenTextOptions) {
    this.#options = options;
  }

  /** Texts in the order of the questions; undefined where none could be had in time. Never rejects. */
  async decode(questions: readonly TextQuestion[]): Promise<(string | undefined)[]> {
    const waits: Promise<void>[] = [];
    for (const question of questions) {
      if (question.tokens.length === 0 || this.#known(question) !== undefined) continue;
      const wait = this.#ask(question);
      if (wait !== undefined) waits.push(wait);
    }
    if (waits.length > 0) await withPatience(Promise.all(waits), this.#options.patienceMs ?? 700);
    return questions.map((question) => this.#known(question));
  }

  #known({ tokens }: TextQuestion): string | undefined {
    const key = tokens.join();
    const text = this.#texts.get(key);
    if (text === undefined) return undefined;
    this.#texts.delete(key);
    this.#texts.set(key, text);
    return text;
  }

  /** Undefined: nobody can be asked, or too many are waiting. */
  #ask(question: TextQuestion): Promise<void> | undefined {
    const key = question.tokens.join();
    const asked = this.#asked.get(key);
    if (asked !== undefined) return asked;
    if (this.#queue.length >= MAX_WAITING || this.#target(question) === undefined) return undefined;
    const promise = new Promise<void>((done) => {
      this.#queue.push({ key, question, done });
    });
    this.#asked.set(key, promise);
    this.#next();
    return promise;
  }

  #next(): void {
    while (this.#running < AT_ONCE) {
      const waiting = this.#queue.shift();
      if (waiting === undefined) return;
      this.#running += 1;
      void this.#run(waiting).finally(() => {
        this.#running -= 1;
        this.#asked.delete(waiting.key);
        waiting.done();
        this.#next();
      });
    }
  }

  async #run({ key, question }: Waiting): Promise<void> {
    const instance = this.#target(question);
    if (instance === undefined) return;
    const { call, authorization, capacity = 5000 } = this.#options;
    const [model] = instance.models;
    const body = JSON.stringify({ ...(model !== undefined && { model }), tokens: question.tokens });
    const answer = await call.post(instance, PATH, { body, authorization });
    if (!answer.ok) {
      if (answer.why !== 'missing') this.#paused.set(instance.id, performance.now() + PAUSE_MS);
      return;
    }
    const text = asJsonObject(answer.json)?.['prompt'];
    if (typeof text !== 'string') return;
    this.#texts.set(key, text.slice(0, MAX_CHARS));
    for (const oldest of this.#texts.keys()) {
      if (this.#texts.size <= capacity) break;
      this.#texts.delete(oldest);
    }
  }

  #target({ holders }: TextQuestion): Instance | undefined {
    const nowMs = performance.now();
    const able = this.#options.instances().filter(({ id, state, role }) => state === 'up' && role !== 'encode' && (this.#paused.get(id) ?? 0) <= nowMs)
      .filter((instance) => !this.#options.call.lacks(instance, PATH));
    const holding = able.filter(({ id }) => holders?.includes(id) === true);
    // Another model's tokenizer would tell another text.
    const model = this.#options.instances().find(({ id }) => holders?.includes(id) === true)?.models[0];
    const others = able.filter(({ models }) => model === undefined || models.includes(model));
    return leastBusy(holding) ?? leastBusy(others);
  }
}

function leastBusy(instances: readonly Instance[]): Instance | undefined {
  return instances.toSorted((a, b) => a.inFlight - b.inFlight)[0];
}

async function withPatience(work: Promise<unknown>, patienceMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise((resolve) => {
    timer = setTimeout(resolve, patienceMs);
  });
  await Promise.race([work, patience]);
  clearTimeout(timer);
}

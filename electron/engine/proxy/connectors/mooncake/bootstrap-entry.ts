/**
 * What one prefill instance's bootstrap server told, and when it is asked again: until complete, and whenever somebody has
 * a reason to doubt it. Questions never overlap and keep a distance, so any number of doubts costs one question.
 *
 * Invariants: an engine id is handed out only as long as nothing speaks against it; a question that was already under way
 * when a doubt arose is followed by another.
 */
import type { Dispatcher } from 'undici';
import type { Instance } from '../../../fleet/instance.ts';
import { queryBootstrap, type BootstrapAnswer, type BootstrapRank } from './bootstrap-query.ts';

export interface BootstrapTiming {
  /** For one question. */
  readonly queryMs: number;
  /** Between questions while the table grows; doubled up to `maxPollMs` while nobody answers. */
  readonly pollMs: number;
  readonly maxPollMs: number;
  /** Least distance between two questions, whatever the reason. */
  readonly minGapMs: number;
}

export interface BootstrapEntryInit {
  readonly instance: Instance;
  /** `http://host:port` */
  readonly address: string;
  readonly dispatcher: Dispatcher;
  readonly timing: BootstrapTiming;
  /** After every answer and every failed question. */
  onAsked(entry: BootstrapEntry): void;
}

/** Where a prefill leg goes, by the table. */
export interface BootstrapSlot {
  /** Key in the table. */
  readonly rank: number;
  readonly engineId: string;
  /** To be sent as X-data-parallel-rank; undefined when the instance has one rank only. */
  readonly pinned: number | undefined;
}

/** After so many failed questions in a row the last answer is too old to use. */
const STRIKES = 3;

export class BootstrapEntry {
  readonly instance: Instance;
  readonly address: string;
  ranks: readonly BootstrapRank[] = [];
  /** Why the last question had no answer, in words. */
  problem: string | undefined;
  /** The last question found nobody listening. */
  isGone = false;
  askedAtUnixMs: number | undefined;
  answeredAtUnixMs: number | undefined;
  /** Questions in a row without an answer. */
  strikes = 0;
  questions = 0;
  readonly #init: BootstrapEntryInit;
  readonly #stop = new AbortController();
  #isPolling = true;
  #isDoubted = false;
  /** The last two answers were the same: all that can be known where the sizes are not. */
  #isStable = false;
  #lastAskedMs = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;
  #isWantedAgain = false;
  #timer: NodeJS.Timeout | undefined;
  #wake: (() => void) | undefined;
  #next = 0;

  constructor(init: BootstrapEntryInit) {
    this.#init = init;
    this.instance = init.instance;
    this.address = init.address;
  }

  /** All ranks and workers are in, as far as their numbers are known. */
  get isComplete(): boolean {
    const { dpSize, dpSizeSource, transfer } = this.instance;
    const hasRanks = dpSizeSource === 'default' ? this.#isStable : this.ranks.length >= dpSize;
    const hasWorkers = transfer?.tpSize !== undefined || this.#isStable;
    return this.ranks.length > 0 && hasRanks && hasWorkers && this.ranks.every((rank) => this.#isReady(rank));
  }

  /** Asks now, or as soon as the distance allows; resolves when the answer to a question begun after this call is in. */
  ask(): Promise<void> {
    if (this.#stop.signal.aborted) return Promise.resolve();
    if (this.#asking !== undefined) {
      this.#isWantedAgain = true;
      return this.#asking;
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#asking = this.#askAll().finally(() => {
      this.#asking = undefined;
      if (this.#isWantedAgain) void this.ask();
      else this.#plan();
    });
    return this.#asking;
  }

  /** A leg failed with what this entry told, or the instance may have restarted: the next legs wait for a new answer. */
  doubt(): void {
    this.#isDoubted = true;
    void this.ask();
  }

  /** The instance is down: what it told belongs to a life that may be over. */
  forget(): void {
    this.ranks = [];
    this.#isStable = false;
    void this.ask();
  }

  /** Resolves at once unless the entry is in doubt. */
  async settled(): Promise<void> {
    if (this.#isDoubted) await this.#asking;
  }

  /** Whether it is asked again by itself while incomplete. */
  setPolling(isPolling: boolean): void {
    this.#isPolling = isPolling;
    if (isPolling) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  close(): void {
    this.setPolling(false);
    this.#stop.abort();
    this.#wake?.();
  }

  /** Why no prefill leg can go there; undefined when one can. */
  get refusal(): string | undefined {
    if (this.ranks.some((rank) => this.#isReady(rank))) return undefined;
    return `bootstrap not answered yet: ${this.#reason()}`;
  }

  /** The engine id that a rank has now; undefined when it is not (or no longer) in the table. */
  engineIdOf(rank: number): string | undefined {
    return this.ranks.find((candidate) => candidate.rank === rank)?.engineId;
  }

  /** @param wanted the rank chosen, by its X-data-parallel-rank. A rank that has not registered yet is replaced by one that has. */
  pick(wanted: number | undefined): BootstrapSlot | undefined {
    const ready = this.ranks.filter((rank) => this.#isReady(rank));
    const [only] = ready;
    if (only === undefined) return undefined;
    const isSingle = this.ranks.length === 1 && this.instance.dpSize < 2;
    if (isSingle) return { rank: only.rank, engineId: only.engineId, pinned: undefined };
    const offset = this.#offset;
    const chosen = ready.find(({ rank }) => rank - offset === wanted) ?? ready[this.#next++ % ready.length] ?? only;
    return { rank: chosen.rank, engineId: chosen.engineId, pinned: chosen.rank - offset };
  }

  /**
   * Hybrid and external balancing: a bootstrap server per node, with the node's ranks by their global number, while the
   * header counts the node's own from 0 (vllm/entrypoints/openai/generate/base/serving.py). Certain only when all are in.
   */
  get #offset(): number {
    const first = this.ranks[0]?.rank ?? 0;
    const last = this.ranks.at(-1)?.rank ?? 0;
    const { dpSize, dpSizeSource } = this.instance;
    const isAll = dpSizeSource !== 'default' && this.ranks.length === dpSize && last - first === dpSize - 1;
    return isAll ? first : 0;
  }

  #isReady({ tp, pp }: BootstrapRank): boolean {
    const { tpSize = 1, ppSize = 1 } = this.instance.transfer ?? {};
    return tp >= tpSize && pp >= ppSize;
  }

  #reason(): string {
    if (this.problem !== undefined) return `${this.address}/query: ${this.problem}`;
    if (this.answeredAtUnixMs === undefined) return `${this.address}/query was not asked yet`;
    return `${this.address}/query names no engine whose workers are all registered`;
  }

  async #askAll(): Promise<void> {
    do {
      if (this.#stop.signal.aborted) return;
      const restMs = this.#lastAskedMs + this.#init.timing.minGapMs - performance.now();
      if (restMs > 0) await this.#sleep(restMs);
      if (this.#stop.signal.aborted) return;
      this.#isWantedAgain = false;
      this.#lastAskedMs = performance.now();
      this.askedAtUnixMs = Date.now();
      this.questions += 1;
      const { dispatcher, timing } = this.#init;
      const answer = await queryBootstrap(this.address, { dispatcher, timeoutMs: timing.queryMs, signal: this.#stop.signal });
      if (this.#stop.signal.aborted) return;
      this.#take(answer);
      this.#init.onAsked(this);
    } while (this.#isWantedAgain);
    this.#isDoubted = false;
  }

  #take(answer: BootstrapAnswer): void {
    if ('ranks' in answer) {
      this.#isStable = answer.ranks.length > 0 && JSON.stringify(answer.ranks) === JSON.stringify(this.ranks);
      this.ranks = answer.ranks;
      this.problem = undefined;
      this.isGone = false;
      this.strikes = 0;
      this.answeredAtUnixMs = this.askedAtUnixMs;
      return;
    }
    this.problem = answer.problem;
    this.isGone = answer.isGone;
    this.strikes += 1;
    // A busy process may answer late once; one that is gone has lost its engine id.
    if (answer.isGone || this.strikes >= STRIKES) this.ranks = [];
  }

  #plan(): void {
    if (!this.#isPolling || this.#stop.signal.aborted || this.#timer !== undefined || (this.isComplete && this.problem === undefined)) return;
    const { pollMs, maxPollMs } = this.#init.timing;
    const waitMs = Math.min(maxPollMs, pollMs * 2 ** Math.min(Math.max(0, this.strikes - 1), 10));
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.ask();
    }, waitMs).unref();
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/**
 * One choice of a token stream on its way to text. Calls are conflated: while one is under way, tokens that arrive
 * accumulate and go with the next.
 */
import type { Detokenizer } from './detokenizer.ts';
import { StopHold, type StopRules } from './stop-text.ts';

export interface ChoiceFinish {
  readonly reason: string;
  /** undefined: the engine said nothing about it. */
  readonly stopReason: unknown;
}

export interface ChoicePiece {
  readonly text: string;
  readonly finish: ChoiceFinish | undefined;
}

export class ChoiceText {
  readonly index: number;
  isStarted = false;
  isBusy = false;
  readonly #detokenizer: Detokenizer;
  readonly #stop: StopRules;
  readonly #hold: StopHold;
  #waiting: number[] = [];
  #finish: ChoiceFinish | undefined;
  #isDone = false;
  #isEnding = false;

  constructor(index: number, detokenizer: Detokenizer, stop: StopRules) {
    this.index = index;
    this.#detokenizer = detokenizer;
    this.#stop = stop;
    this.#hold = new StopHold(stop);
  }

  /** Tokens that wait for a call. */
  get waiting(): number {
    return this.#waiting.length;
  }

  add(tokens: readonly number[], finish: ChoiceFinish | undefined): void {
    for (const token of tokens) this.#waiting.push(token);
    if (finish !== undefined) this.#finish ??= finish;
  }

  /** The stream ended: what is held back goes out even if no finish reason came. */
  end(): void {
    this.#isEnding = true;
  }

  get hasWork(): boolean {
    return !this.#isDone && (this.#waiting.length > 0 || this.#finish !== undefined || this.#isEnding);
  }

  /** The next piece of text. One call at a time, while `hasWork`. */
  async next(): Promise<ChoicePiece> {
    const tokens = this.#waiting;
    this.#waiting = [];
    const finish = this.#finish;
    if (finish === undefined && !this.#isEnding) return { text: this.#hold.push(await this.#detokenizer.push(tokens, false)), finish };
    this.#isDone = true;
    if (finish?.reason === 'stop') return this.#lastOfStop(tokens, finish);
    // No stop string ended it, or the engine would say so: what looks like one is text.
    return { text: this.#hold.flush() + (await this.#detokenizer.push(tokens, true)), finish };
  }

  /**
   * The end of an answer that stopped: at a stop string, which is cut off, or at a stop token such as EOS, whose text is
   * no part of the answer. Older engines do not say which of the two.
   */
  async #lastOfStop(tokens: readonly number[], finish: ChoiceFinish): Promise<ChoicePiece> {
    const before = await this.#detokenizer.push(tokens.slice(0, -1), false);
    const mayBeString = this.#stop.strings.length > 0 && (finish.stopReason === undefined || finish.stopReason === null || typeof finish.stopReason === 'string');
    if (!mayBeString && !this.#stop.isIncluded) return { text: this.#hold.flush() + before + (await this.#detokenizer.push([], true)), finish };
    const last = await this.#detokenizer.push(tokens.slice(-1), true);
    const { text, stop } = this.#hold.match(before + last);
    if (stop !== undefined) return { text, finish: { ...finish, stopReason: finish.stopReason ?? stop } };
    return { text: this.#hold.flush() + before + (this.#stop.isIncluded ? last : ''), finish };
  }
}

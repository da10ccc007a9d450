/** Turns output tokens into text as it may be shown: whole characters only, and nothing of a stop string. */
import { StringDecoder } from 'node:string_decoder';
import { EOS_TOKEN, tokenText } from './tokenizer.ts';

export class TextAssembler {
  /** Everything released so far. */
  text = '';
  readonly #decoder = new StringDecoder('utf8');
  readonly #stop: readonly string[];
  readonly #holdBack: number;
  #held = '';
  #isCut = false;

  /** While `stop` strings are possible, as many characters as the longest has, less one, are held back (as vLLM does). */
  constructor(stop: readonly string[]) {
    this.#stop = stop;
    this.#holdBack = stop.reduce((longest, text) => Math.max(longest, text.length - 1), 0);
  }

  /** The text that may be shown after this token. */
  push(token: number): string {
    if (token === EOS_TOKEN) return '';
    return this.#release(token < 256 ? this.#decoder.write(Buffer.of(token)) : tokenText(token), false);
  }

  /** What was held back and is still to be shown. */
  end(): string {
    return this.#release(this.#decoder.end(), true);
  }

  #release(added: string, isEnd: boolean): string {
    if (this.#isCut) return '';
    this.#held += added;
    for (const stop of this.#stop) {
      const found = this.#held.indexOf(stop);
      if (found < 0) continue;
      this.#held = this.#held.slice(0, found);
      this.#isCut = true;
    }
    const keep = isEnd || this.#isCut ? 0 : Math.min(this.#holdBack, this.#held.length);
    const shown = this.#held.slice(0, this.#held.length - keep);
    this.#held = this.#held.slice(this.#held.length - keep);
    this.text += shown;
    return shown;
  }
}

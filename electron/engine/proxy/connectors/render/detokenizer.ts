/**
 * Text of a growing list of tokens, piece by piece, by asking an engine to decode short windows of it.
 *
 * A token's text depends on its neighbours (leading spaces, characters of several tokens), so what is decoded is always
 * a window that begins with tokens already shown; the new text is what its decoding has more than theirs. Text that ends
 * in an incomplete character is held back. The method, the length of the overlap and the look at the prompt's last tokens
 * are those of vLLM's own detokenizer (vllm/tokenizers/detokenizer_utils.py), with a service call in the place of a
 * tokenizer: one call a step, two when the window begins anew.
 */

/** INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET of vLLM: tokens of the prompt, or already shown, that a window begins with. */
export const OVERLAP_TOKENS = 5;
/** Beyond this a window begins anew, so that a call costs the same at the end of an answer as at its start. */
const MAX_WINDOW_TOKENS = 96;
/** A window that never ends in a complete character is shown all the same. */
const MAX_HELD_TOKENS = 256;
const REPLACEMENT = '\uFFFD';

export class Detokenizer {
  readonly #decode: (tokens: readonly number[]) => Promise<string>;
  #window: readonly number[];
  /** Text of the window up to what was shown; undefined: not asked for yet. */
  #shown: string | undefined;

  /** @param promptTail the prompt's last tokens, OVERLAP_TOKENS or fewer. */
  constructor(decode: (tokens: readonly number[]) => Promise<string>, promptTail: readonly number[]) {
    this.#decode = decode;
    this.#window = promptTail;
    this.#shown = promptTail.length === 0 ? '' : undefined;
  }

  /**
   * The text that `tokens` add; empty while it ends in an incomplete character. One call at a time.
   * @param isLast nothing follows: incomplete characters are shown as they are.
   */
  async push(tokens: readonly number[], isLast: boolean): Promise<string> {
    const before = this.#window;
    const window = tokens.length === 0 ? before : [...before, ...tokens];
    const isUnchanged = tokens.length === 0 && !isLast;
    if (isUnchanged || window.length === 0) return '';
    const [shown, text] = await Promise.all([this.#shown ?? this.#decode(before), this.#decode(window)]);
    this.#window = window;
    this.#shown = shown;
    if (!isLast && text.endsWith(REPLACEMENT) && window.length < MAX_HELD_TOKENS) return '';
    if (window.length > MAX_WINDOW_TOKENS) {
      this.#window = window.slice(-OVERLAP_TOKENS);
      this.#shown = undefined;
    } else {
      this.#shown = text;
    }
    return text.slice(shown.length);
  }
}

/**
 * Stop strings in text that pdscope decodes itself. The engine ends a token answer at a stop string too, but its tokens
 * still contain it; cutting it off is the detokenizer's part (vllm/v1/engine/detokenizer.py).
 */
export interface StopRules {
  readonly strings: readonly string[];
  /** `include_stop_str_in_output`. */
  readonly isIncluded: boolean;
}

export interface StopMatch {
  /** Where the text ends because of it. */
  readonly end: number;
  /** The stop string: an answer's `stop_reason`. */
  readonly stop: string;
}

/** The first stop string in `text`; undefined when there is none. */
export function findStop(text: string, { strings, isIncluded }: StopRules): StopMatch | undefined {
  let found: StopMatch | undefined;
  let first = Infinity;
  for (const stop of strings) {
    const at = text.indexOf(stop);
    if (at < 0 || at >= first) continue;
    first = at;
    found = { end: isIncluded ? at + stop.length : at, stop };
  }
  return found;
}

/** Keeps back as much text as may turn out to be the beginning of a stop string. */
export class StopHold {
  readonly #rules: StopRules;
  readonly #length: number;
  #held = '';

  constructor(rules: StopRules) {
    this.#rules = rules;
    this.#length = Math.max(0, ...rules.strings.map((stop) => stop.length - 1));
  }

  /** What may be shown now. */
  push(text: string): string {
    if (this.#length === 0) return text;
    const all = this.#held + text;
    const shown = Math.max(0, all.length - this.#length);
    this.#held = all.slice(shown);
    return all.slice(0, shown);
  }

  /** What is held back and `text`, up to the stop string in them; holds on to it when there is none. */
  match(text: string): { readonly text: string; readonly stop: string | undefined } {
    const all = this.#held + text;
    const match = findStop(all, this.#rules);
    return { text: all.slice(0, match?.end), stop: match?.stop };
  }

  /** What is held back, which is no stop string after all. */
  flush(): string {
    const held = this.#held;
    this.#held = '';
    return held;
  }
}

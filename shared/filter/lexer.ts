/**
 * Character-level reading of filter text: blanks, runs and quoted phrases, each with its offset. Knows nothing of
 * fields or terms. A problem is a value (`FilterProblem`), never a throw: half-typed text is the normal case.
 */

export interface FilterProblem {
  readonly error: string;
  /** Offset into the text, UTF-16 units. */
  readonly at: number;
}

const BLANK = /\s/u;

export class Lexer {
  readonly text: string;
  position = 0;

  constructor(text: string) {
    this.text = text;
  }

  get isAtEnd(): boolean {
    return this.position >= this.text.length;
  }

  peek(): string {
    return this.text.charAt(this.position);
  }

  /** Whether a term ends here. */
  isAtBreak(): boolean {
    return this.isAtEnd || BLANK.test(this.peek());
  }

  skipBlanks(): void {
    while (!this.isAtEnd && BLANK.test(this.peek())) this.position += 1;
  }

  /** Takes `literal` when it comes next. */
  take(literal: string): boolean {
    if (!this.text.startsWith(literal, this.position)) return false;
    this.position += literal.length;
    return true;
  }

  /** The match of a sticky pattern at the position, taken; `undefined` when it does not match. */
  takePattern(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.position;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.position += found.length;
    return found;
  }

  /** Everything up to the next blank or the first of `stops`. */
  takeRun(stops = ''): string {
    const start = this.position;
    while (!this.isAtBreak() && !stops.includes(this.peek())) this.position += 1;
    return this.text.slice(start, this.position);
  }

  /** A phrase in double quotes; `\"` and `\\` stand for themselves. The position must be at the opening quote. */
  takeQuoted(): string | FilterProblem {
    const start = this.position;
    this.position += 1;
    let value = '';
    while (!this.isAtEnd) {
      const char = this.peek();
      this.position += 1;
      if (char === '"') return value;
      if (char === '\\' && (this.peek() === '"' || this.peek() === '\\')) {
        value += this.peek();
        this.position += 1;
      } else {
        value += char;
      }
    }
    return { error: 'This quote is not closed. Add a " at the end of the phrase.', at: start };
  }
}

/** Writes a phrase so that `takeQuoted` reads it back. */
export function quote(value: string): string {
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

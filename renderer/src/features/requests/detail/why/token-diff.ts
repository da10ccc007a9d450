/** Two sides of a divergence, cut where they part. */

export interface DivergentSide {
  readonly tokens: readonly number[];
  readonly text?: string;
}

/** One side in three parts: what is alike, what differs first, what follows. */
export interface MarkedSide {
  readonly alike: string;
  readonly differs: string;
  readonly rest: string;
  readonly isText: boolean;
}

const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Text side by side when both were decoded, marked from the first character that differs to the end of its word; else token ids, with the one token marked. */
export function markDivergence(asked: DivergentSide, held: DivergentSide): readonly [MarkedSide, MarkedSide] {
  if (asked.text !== undefined && held.text !== undefined && asked.text !== held.text) return [markText(asked.text, held.text), markText(held.text, asked.text)];
  return [markTokens(asked.tokens, held.tokens), markTokens(held.tokens, asked.tokens)];
}

function markText(text: string, other: string): MarkedSide {
  let at = 0;
  // By graphemes, so that an accent is not parted from its letter.
  for (const { segment, index } of GRAPHEMES.segment(text)) {
    if (!other.startsWith(segment, index)) break;
    at = index + segment.length;
  }
  // A space or sign that differs is marked alone; a word to its end.
  const word = /^(?:[\p{L}\p{N}_]+|[\s\S])/u.exec(text.slice(at))?.[0] ?? '';
  return { alike: text.slice(0, at), differs: word, rest: text.slice(at + word.length), isText: true };
}

function markTokens(tokens: readonly number[], other: readonly number[]): MarkedSide {
  let at = 0;
  while (at < tokens.length && tokens[at] === other[at]) at += 1;
  const words = (part: readonly number[]): string => part.join(', ');
  return { alike: words(tokens.slice(0, at)), differs: words(tokens.slice(at, at + 1)), rest: words(tokens.slice(at + 1)), isText: false };
}

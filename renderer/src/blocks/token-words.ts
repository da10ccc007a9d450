/** Tokens for people: their text where an instance could decode them, else the ids. */

/** What a run of tokens is shown as in one line. */
export interface TokenWords {
  readonly isText: boolean;
  readonly words: string;
}

/** White space that would be invisible, or break the line, is drawn as a sign. */
export function visibleSpace(text: string): string {
  return text.replaceAll(/\r\n|\n|\r/gu, '⏎').replaceAll('\t', '⇥');
}

/** `151644, 8948, …`. */
export function tokenIds(tokens: readonly number[], most: number): string {
  return `${tokens.slice(0, most).join(', ')}${tokens.length > most ? ', …' : ''}`;
}

/** Text in quotes, cut to `mostText` characters; without text the first `mostTokens` ids. */
export function tokenWords({ tokens, text }: { readonly tokens: readonly number[]; readonly text?: string }, mostText = 96, mostTokens = 12): TokenWords {
  if (text === undefined) return { isText: false, words: tokens.length === 0 ? 'no tokens known' : tokenIds(tokens, mostTokens) };
  const shown = visibleSpace(text);
  // No half of a surrogate pair at the cut: it would be drawn as a box.
  const cut = shown.slice(0, mostText).replace(/[\uD800-\uDBFF]$/, '');
  return { isText: true, words: shown.length > mostText ? `“${cut}…”` : `“${shown}”` };
}

/** Digits of a hash in lists: enough to tell apart what is on screen, and a prefix that the filter takes as it is. */
const SHOWN_DIGITS = 8;

/** `9f3ac4d1…`; shorter ones whole. */
export function shortHash(hash: string): string {
  return hash.length <= SHOWN_DIGITS ? hash : `${hash.slice(0, SHOWN_DIGITS)}…`;
}

/** First token ids in a line: `151644, 8948, …`. */
export function tokenPreview(tokens: readonly number[], most: number): string {
  return `${tokens.slice(0, most).join(', ')}${tokens.length > most ? ', …' : ''}`;
}

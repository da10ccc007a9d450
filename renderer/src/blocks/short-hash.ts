/** Digits of a hash in lines: enough to tell apart what is on screen, and a prefix that the filter takes as it is. */
const SHOWN_DIGITS = 8;

/** `9f3ac4d1…`; shorter ones whole. */
export function shortHash(hash: string): string {
  return hash.length <= SHOWN_DIGITS ? hash : `${hash.slice(0, SHOWN_DIGITS)}…`;
}

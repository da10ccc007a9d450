/** What was typed into the tree's search box: text, or token ids. */
import type { OperationInput } from '#shared/operations.ts';

const MOST_TOKENS = 10_000;
const MOST_TEXT = 100_000;
const MOST_MATCHES = 100;

export interface TreeQuery {
  readonly input: OperationInput<'cache.search'>;
  /** How it was read, for the line below the box. */
  readonly reading: string;
}

/**
 * Two or more whole numbers, or any after `tokens:`, are token ids; all else is text, and `text:` says so for text made
 * of numbers. Undefined when there is nothing to search for.
 */
export function readTreeQuery(typed: string): TreeQuery | undefined {
  const forced = /^(text|tokens):/u.exec(typed)?.[1];
  const rest = forced === undefined ? typed : typed.slice(forced.length + 1);
  const isNumbers = /^\s*\[?\s*\d+(?:[\s,]+\d+)*\s*,?\s*\]?\s*$/u.test(rest);
  const tokens = isNumbers ? (rest.match(/\d+/gu) ?? []).map(Number) : [];
  const isTokens = forced === 'tokens' ? tokens.length > 0 : forced === undefined && tokens.length > 1;
  if (isTokens) {
    const kept = tokens.slice(0, MOST_TOKENS);
    return { input: { tokens: kept, limit: MOST_MATCHES }, reading: `${kept.length.toLocaleString('en-US')} token ${kept.length === 1 ? 'id' : 'ids'}` };
  }
  if (forced === 'tokens' || rest.trim() === '') return undefined;
  // Line ends and tabs as the tree draws them (token-words.ts): the box has one line, and text is copied from the tree.
  const text = rest.replaceAll('⏎', '\n').replaceAll('⇥', '\t').slice(0, MOST_TEXT);
  return { input: { text, limit: MOST_MATCHES }, reading: 'text, made into tokens by an instance' };
}

import type { MissRange, MissReport } from '#shared/cache.ts';

/** How the prompt's tokens were had, after "blocks of 16 tokens,". */
export const TOKENS_FROM: Readonly<Record<NonNullable<MissReport['tokensFrom']>, string>> = {
  render: 'rendered by an instance', tokenize: 'tokenised by an instance', events: 'read from the events that followed', request: 'sent as token ids',
};

/** Tokens that the index expected to be found. */
export function hitTokens(ranges: readonly MissRange[]): number {
  return ranges.reduce((sum, { kind, tokens }) => sum + (kind === 'hit' ? tokens : 0), 0);
}

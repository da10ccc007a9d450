/** Missed tokens of one request by cause, from its ranges. Pure. */
import type { MissRange } from '#shared/cache.ts';
import type { MissShare } from './kept-report.ts';

/** Tokens before a difference that tell what it is, e.g. `Current time: `. */
const LEAD_TOKENS = 16;
const SHOWN_TOKENS = 24;

/**
 * What misses after a first miss is the consequence of it: engines use blocks from the first on, up to the first one
 * missing. It counts under the first one's cause, except for the last partial block, which is never reused.
 */
export function missShares(ranges: readonly MissRange[], tokens: Uint32Array): MissShare[] {
  const shares = new Map<string, MissShare>();
  let first: MissShare | undefined;
  for (const range of ranges) {
    if (range.kind === 'hit' || range.tokens === 0) continue;
    const own = shareOf(range, tokens);
    const isConsequence = first?.kind === range.kind && range.kind !== 'partial-block';
    const share: MissShare = isConsequence && first !== undefined ? { ...first, tokens: range.tokens } : own;
    first ??= range.kind === 'partial-block' ? undefined : share;
    const known = shares.get(share.key);
    shares.set(share.key, known === undefined ? share : { ...known, tokens: known.tokens + share.tokens });
  }
  return Array.from(shares.values());
}

function shareOf(range: MissRange, tokens: Uint32Array): MissShare {
  const { kind, diverges, key } = range;
  const base = { kind, tokens: range.tokens };
  switch (kind) {
    case 'diverges': {
      if (diverges === undefined) return { ...base, key: kind, title: 'differs from what is held' };
      const { token } = diverges;
      const lead = Array.from(tokens.subarray(Math.max(0, token - LEAD_TOKENS), token));
      const inBlock = Math.max(0, diverges.asked.tokens.findIndex((asked, at) => asked !== diverges.held.tokens[at]));
      return {
        ...base, key: `${kind} ${token} ${lead.join()}`, title: `differs after ${token} tokens`,
        place: { token, lead, asked: Array.from(tokens.subarray(token, token + SHOWN_TOKENS)), held: diverges.held.tokens.slice(inBlock, inBlock + SHOWN_TOKENS) },
      };
    }
    case 'other-key': {
      const name = { salt: 'cache salt', lora: 'LoRA adapter', media: 'media', other: 'block key' }[key?.what ?? 'other'];
      return { ...base, key: `${kind} ${key?.what ?? 'other'}`, title: `stored under another ${name}` };
    }
    case 'evicted': return { ...base, key: kind, title: 'evicted before it was needed again' };
    case 'elsewhere': return { ...base, key: kind, title: 'held by another instance than the one chosen' };
    case 'never-stored': return { ...base, key: kind, title: 'never seen before' };
    case 'partial-block': return { ...base, key: kind, title: 'end of the prompt, never reusable' };
    case 'reset': return { ...base, key: kind, title: 'cache cleared or engine restarted' };
    case 'unknown': return range.gap === undefined ? { ...base, key: kind, title: 'not known' } : { ...base, key: `${kind} gap`, title: 'not known: events are missing' };
    case 'hit': return { ...base, key: kind, title: 'hit' };
  }
  return kind;
}

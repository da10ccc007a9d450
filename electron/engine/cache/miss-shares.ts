/** Missed tokens of one request by cause, from its ranges. Pure. */
import type { MissRange } from '#shared/cache.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { MissShare } from './kept-report.ts';

/** Tokens before a difference that tell what it is, e.g. `Current time: 2026-11-22T02:55:`, where each digit may be a token. */
const LEAD_TOKENS = 32;
const SHOWN_TOKENS = 24;

/**
 * What misses after a first miss is the consequence of it: engines use blocks from the first on, up to the first one
 * missing. It counts under the first one's cause, except for the last partial block, which is never reused.
 * @param role of the instance that computed the prompt.
 */
export function missShares(ranges: readonly MissRange[], tokens: Uint32Array, role: Role = 'prefill'): MissShare[] {
  const shares: MissShare[] = [];
  let first: MissShare | undefined;
  for (const range of ranges) {
    if (range.kind === 'hit' || range.tokens === 0) continue;
    const isConsequence = first?.kind === range.kind && range.kind !== 'partial-block';
    const share: MissShare = isConsequence && first !== undefined ? { ...first, tokens: range.tokens } : shareOf(range, tokens, role);
    first ??= range.kind === 'partial-block' ? undefined : share;
    shares.push(share);
  }
  return joined(shares);
}

/** One share per key. */
export function joined(shares: readonly MissShare[]): MissShare[] {
  const byKey = new Map<string, MissShare>();
  for (const share of shares) {
    const known = byKey.get(share.key);
    byKey.set(share.key, known === undefined ? share : { ...known, tokens: known.tokens + share.tokens });
  }
  return Array.from(byKey.values());
}

function shareOf(range: MissRange, tokens: Uint32Array, role: Role): MissShare {
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
    case 'elsewhere': {
      // Another choice of an instance would have found them, or none could: decode holds the answers of earlier turns.
      const isChoice = range.elsewhere === undefined || range.elsewhere.some((holder) => holder.role === role || holder.role === 'both');
      if (isChoice) return { ...base, key: kind, title: 'held by another instance than the one chosen' };
      return { ...base, key: `${kind} roles`, title: `held by ${Array.from(new Set(range.elsewhere.map((holder) => holder.role))).sort().join(' and ')} instances only, where no ${role} leg goes` };
    }
    case 'never-stored': return { ...base, key: kind, title: 'never seen before' };
    case 'partial-block': return { ...base, key: kind, title: 'end of the prompt, never reusable' };
    case 'reset': return { ...base, key: kind, title: 'cache cleared or engine restarted' };
    case 'unknown': return range.gap === undefined ? { ...base, key: kind, title: 'not known' } : { ...base, key: `${kind} gap`, title: 'not known: events are missing' };
    case 'hit': return { ...base, key: kind, title: 'hit' };
  }
  return kind;
}

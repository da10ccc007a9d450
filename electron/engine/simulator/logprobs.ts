/** Plausible log probabilities: right in shape, seeded by the token, meaningless in value. */
import { createPrng, type Prng } from './prng.ts';
import { tokenText } from './tokenizer.ts';

interface Alternative {
  readonly id: number;
  readonly text: string;
  readonly logprob: number;
}

export interface TokenLogprobs {
  readonly id: number;
  readonly text: string;
  readonly logprob: number;
  /** The sampled token first. */
  readonly top: readonly Alternative[];
}

function round(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}

function otherWord(prng: Prng): number {
  return 256 + prng.int(600);
}

export function sampleLogprobs(token: number, position: number, alternatives: number): TokenLogprobs {
  const prng = createPrng(token * 31 + position);
  const text = tokenText(token);
  const logprob = round(-prng.next() * 0.9);
  const top: Alternative[] = [{ id: token, text, logprob }];
  for (let rank = 1; rank < alternatives; rank += 1) {
    const id = otherWord(prng);
    top.push({ id, text: tokenText(id), logprob: round(logprob - rank * (0.7 + prng.next())) });
  }
  return { id: token, text, logprob, top: top.slice(0, alternatives) };
}

function bytesOf(text: string): number[] {
  return [...Buffer.from(text, 'utf8')];
}

/** `choices[].logprobs` of chat. */
export function chatLogprobs(entries: readonly TokenLogprobs[]): object {
  return {
    content: entries.map(({ text, logprob, top }) => ({
      token: text,
      logprob,
      bytes: bytesOf(text),
      top_logprobs: top.map((other) => ({ token: other.text, logprob: other.logprob, bytes: bytesOf(other.text) })),
    })),
  };
}

/** `choices[].logprobs` of completions; `offset` is where the first token's text begins. */
export function completionLogprobs(entries: readonly TokenLogprobs[], offset: number): object {
  let at = offset;
  const offsets = entries.map(({ text }) => {
    const start = at;
    at += text.length;
    return start;
  });
  return {
    text_offset: offsets,
    token_logprobs: entries.map((entry) => entry.logprob),
    tokens: entries.map((entry) => entry.text),
    top_logprobs: entries.map(({ top }) => Object.fromEntries(top.map((other) => [other.text, other.logprob]))),
  };
}

/** `choices[].logprobs` of the token endpoint, which has no tokenizer: `token_id:<n>` in place of text. */
export function tokenIdLogprobs(entries: readonly TokenLogprobs[]): object {
  return {
    content: entries.map(({ id, logprob, top }) => ({
      token: `token_id:${id}`,
      logprob,
      bytes: null,
      top_logprobs: top.map((other) => ({ token: `token_id:${other.id}`, logprob: other.logprob, bytes: null })),
    })),
  };
}

/** `prompt_logprobs`: nothing for the first token, then one map from token id to its log probability per token. */
export function promptLogprobs(tokens: readonly number[], alternatives: number): (object | null)[] {
  return tokens.map((token, index) => {
    if (index === 0) return null;
    const { top, id, logprob, text } = sampleLogprobs(token, index, alternatives);
    const all = top.length === 0 ? [{ id, logprob, text }] : top;
    return Object.fromEntries(all.map((entry, rank) => [entry.id, { logprob: entry.logprob, rank: rank + 1, decoded_token: entry.text }]));
  });
}

/** What a divergence is called, from the decoded text around it. Pure; says what it sees, and nothing when that is not plain. */

const MONTHS = '(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*';
const TIME = new RegExp(String.raw`\b(?:19|20)\d\d-\d\d|\d{1,2}:\d\d|\b${MONTHS}\.? \d|\d (?:${MONTHS}) (?:19|20)\d\d|\b1[5-9]\d{8,11}\b`, 'iu');
const TIME_WORDS = /\b(?:time|date|now|today|timestamp|clock|datetime)\b[^\n]{0,24}$/iu;
const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}|\b[0-9a-f]{12,}\b/iu;
const ID_WORDS = /\b(?:id|uuid|session|request|trace|nonce|user)\b[^\n]{0,16}$/iu;
/** Characters of the text before that are shown. */
const SHOWN = 48;

export interface DivergenceText {
  /** Text before the first token that differs. */
  readonly lead: string;
  readonly asked: string;
  readonly held: string;
  /** In which message of the prompt it stands, e.g. `the system prompt`, where that is known. */
  readonly where?: string | undefined;
}

/**
 * E.g. `timestamp in the system prompt, after 96 tokens: "Current time: "`. Without a position, of divergences at several:
 * `different text in a user message`, as what stands before them differs too.
 */
export function divergenceTitle(token: number | undefined, text: DivergenceText): string {
  const { lead, where } = text;
  const what = differenceOf(text);
  const shown = lead.replaceAll(/\s+/gu, ' ').trimStart();
  const before = shown === '' ? '' : `: "${shown.length > SHOWN ? `…${shown.slice(-SHOWN)}` : shown}"`;
  const place = where === undefined ? '' : ` in ${where}`;
  if (token === undefined) return what === undefined ? `different text${place}` : `${what}${place}${before}`;
  return what === undefined && where === undefined ? `differs after ${token} tokens${before}` : `${what ?? 'different text'}${place}, after ${token} tokens${before}`;
}

/** What differs. Both sides must look like it: a number may differ anywhere. */
export function differenceOf({ lead, asked, held }: DivergenceText): string | undefined {
  const tail = lead.slice(-24);
  const looks = (pattern: RegExp): boolean => pattern.test(tail + asked.slice(0, 32)) && pattern.test(tail + held.slice(0, 32));
  const startsWithDigit = /^[\s:.\-/T]*\d/u.test(asked) && /^[\s:.\-/T]*\d/u.test(held);
  if (startsWithDigit && (looks(TIME) || TIME_WORDS.test(lead))) return 'timestamp';
  if (looks(UUID) || (ID_WORDS.test(lead) && /^[\s:="]*[\w-]*\d/u.test(asked) && /^[\s:="]*[\w-]*\d/u.test(held))) return 'identifier';
  if (startsWithDigit) return 'number';
  return undefined;
}

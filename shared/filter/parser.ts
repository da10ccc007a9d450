/**
 * Filter text to terms and back. All terms must hold (and); commas inside a value mean or.
 *
 *   filter := term (blank term)*
 *   term   := '-'? ( key op value (',' value)* | phrase | word )
 *   op     := ':' | '>' | '>=' | '<' | '<='        `key:>5` is read as `key>5`
 *   value  := phrase | run without blank or comma
 *
 * Parsing does not know which keys exist: that is `compile.ts`. `printTerms` writes the canonical text, and
 * parse(print(terms)) gives the same terms again.
 */
import { Lexer, quote, type FilterProblem } from './lexer.ts';

export const COMPARISONS = ['>=', '<=', '>', '<'] as const;
export type Comparison = (typeof COMPARISONS)[number];
export type FilterOperator = ':' | Comparison;

export interface FilterValue {
  readonly text: string;
  /** A quoted value is literal: `"*"` is an asterisk, not `present`. */
  readonly isQuoted: boolean;
  /** Offset in the text it was parsed from. */
  readonly at: number;
}

interface TermPlace {
  readonly isNegated: boolean;
  /** Offsets of the whole term, `-` included. */
  readonly at: number;
  readonly end: number;
}

export type FilterTerm =
  | (TermPlace & { readonly kind: 'text'; readonly text: string })
  | (TermPlace & { readonly kind: 'field'; readonly key: string; readonly op: FilterOperator; readonly values: readonly FilterValue[] });

export interface ParsedFilter {
  /** The terms before the problem, or all of them. */
  readonly terms: readonly FilterTerm[];
  readonly problem?: FilterProblem;
}

/** The sticky pattern is anchored by the lexer. Keys start with a letter, so `14:02` and `-1` stay words. */
const KEY_AND_OPERATOR = /([a-z][a-z0-9_.-]*)(:(?:>=|<=|>|<)|>=|<=|>|<|:)/iuy;
const STARTS_LIKE_FIELD = /^[a-z][a-z0-9_.-]*[:<>]/iu;

/** Reads filter text; never throws. Empty text has no terms and matches everything. */
export function parseFilter(text: string): ParsedFilter {
  const lexer = new Lexer(text);
  const terms: FilterTerm[] = [];
  for (;;) {
    lexer.skipBlanks();
    if (lexer.isAtEnd) return { terms };
    const term = parseTerm(lexer);
    if ('error' in term) return { terms, problem: term };
    terms.push(term);
  }
}

function parseTerm(lexer: Lexer): FilterTerm | FilterProblem {
  const at = lexer.position;
  const isNegated = lexer.take('-');
  if (isNegated && lexer.isAtBreak()) {
    return { error: 'Nothing to leave out after "-". Write a term right behind it, e.g. -status:200.', at };
  }
  if (lexer.peek() === '"') {
    const phrase = lexer.takeQuoted();
    if (typeof phrase !== 'string') return phrase;
    if (phrase === '') return { error: 'Empty quotes find nothing. Write the phrase between them.', at };
    return { kind: 'text', text: phrase, isNegated, at, end: lexer.position };
  }
  const head = lexer.takePattern(KEY_AND_OPERATOR);
  if (head === undefined) return { kind: 'text', text: lexer.takeRun(), isNegated, at, end: lexer.position };

  const key = /^[a-z0-9_.-]+/iu.exec(head)?.[0] ?? head;
  const written = head.slice(key.length);
  const op = (written.length > 1 && written.startsWith(':') ? written.slice(1) : written) as FilterOperator;
  const values: FilterValue[] = [];
  do {
    const value = parseValue(lexer, key + op);
    if ('error' in value) return value;
    values.push(value);
  } while (lexer.take(','));
  if (!lexer.isAtBreak()) {
    return { error: 'Put a blank or a comma after the closing quote.', at: lexer.position };
  }
  return { kind: 'field', key: key.toLowerCase(), op, values, isNegated, at, end: lexer.position };
}

function parseValue(lexer: Lexer, head: string): FilterValue | FilterProblem {
  const at = lexer.position;
  if (lexer.peek() === '"') {
    const text = lexer.takeQuoted();
    if (typeof text !== 'string') return text;
    return text === '' ? { error: `Empty quotes after ${head}: write a value between them.`, at } : { text, isQuoted: true, at };
  }
  if (/[<>=]/u.test(lexer.peek())) {
    return { error: `Write a value after ${head}, or put it in quotes when it begins with ${lexer.peek()}`, at };
  }
  const text = lexer.takeRun(',');
  return text === '' ? { error: `Write a value after ${head}`, at } : { text, isQuoted: false, at };
}

/** The canonical text of terms: one blank between them, quotes only where needed. */
export function printTerms(terms: readonly FilterTerm[]): string {
  return terms.map(printTerm).join(' ');
}

/** The canonical text of one term. */
export function printTerm(term: FilterTerm): string {
  const sign = term.isNegated ? '-' : '';
  if (term.kind === 'text') return sign + (isPlainWord(term.text) ? term.text : quote(term.text));
  const values = term.values.map((value) => (value.isQuoted || !isPlainValue(value.text) ? quote(value.text) : value.text));
  return `${sign}${term.key}${term.op}${values.join(',')}`;
}

function isPlainWord(text: string): boolean {
  return !/\s/u.test(text) && !text.startsWith('"') && !text.startsWith('-') && !STARTS_LIKE_FIELD.test(text);
}

function isPlainValue(text: string): boolean {
  return !/[\s,]/u.test(text) && !/^["<>=]/u.test(text);
}

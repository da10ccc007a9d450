/**
 * What can be typed next in a filter: keys at the start of a term, values after an operator. Pure: text, caret and seen
 * values in, replacements out.
 */
import { indexFields, type FilterField } from '#shared/filter/field.ts';
import { quote } from '#shared/filter/lexer.ts';

export interface Suggestion {
  /** What is shown. */
  readonly label: string;
  /** One line beside it. */
  readonly hint: string;
  /** What replaces `from..to` of the text. */
  readonly insert: string;
}

export interface Suggestions {
  readonly from: number;
  readonly to: number;
  readonly items: readonly Suggestion[];
}

/** Values of a field seen in rows, most frequent first. */
export type SeenValues = (key: string) => readonly string[];

const MOST = 14;
const HEAD = /^([a-z][a-z0-9_.-]*)(:(?:>=|<=|>|<)|>=|<=|>|<|:)/iu;

/** Suggestions for the term that the caret is in. */
export function suggest<Row>(text: string, caret: number, fields: readonly FilterField<Row>[], seen: SeenValues): Suggestions {
  const start = termStart(text, caret);
  const signed = text.slice(start, caret);
  const offset = signed.startsWith('-') ? 1 : 0;
  const term = signed.slice(offset);
  const head = HEAD.exec(term);
  const field = head?.[1] === undefined ? undefined : indexFields(fields).get(head[1].toLowerCase());
  if (head === null || field === undefined) {
    return { from: start + offset, to: caret, items: suggestKeys(term, fields) };
  }
  const valueStart = head[0].length + lastComma(term.slice(head[0].length));
  return { from: start + offset + valueStart, to: caret, items: suggestValues(term.slice(valueStart), field, seen(field.key)) };
}

/** Applies a suggestion: the new text and where the caret goes. */
export function applySuggestion(text: string, at: Pick<Suggestions, 'from' | 'to'>, suggestion: Suggestion): { readonly text: string; readonly caret: number } {
  return { text: text.slice(0, at.from) + suggestion.insert + text.slice(at.to), caret: at.from + suggestion.insert.length };
}

/** Where the term under the caret begins: after the last blank that is not inside quotes. */
function termStart(text: string, caret: number): number {
  let start = 0;
  let isQuoted = false;
  for (let index = 0; index < caret; index += 1) {
    const char = text[index];
    if (char === '\\' && isQuoted) index += 1;
    else if (char === '"') isQuoted = !isQuoted;
    else if (!isQuoted && char !== undefined && /\s/u.test(char)) start = index + 1;
  }
  return start;
}

/** Offset of the value being typed in a comma list. */
function lastComma(values: string): number {
  let after = 0;
  let isQuoted = false;
  for (let index = 0; index < values.length; index += 1) {
    if (values[index] === '"') isQuoted = !isQuoted;
    else if (values[index] === ',' && !isQuoted) after = index + 1;
  }
  return after;
}

function suggestKeys<Row>(typed: string, fields: readonly FilterField<Row>[]): readonly Suggestion[] {
  const wanted = typed.toLowerCase();
  const rank = (field: FilterField<Row>): number => {
    if (field.key.startsWith(wanted)) return 0;
    if (field.aliases?.some((alias) => alias.startsWith(wanted)) === true) return 1;
    return wanted.length >= 3 && (field.key.includes(wanted) || field.says.toLowerCase().includes(wanted)) ? 2 : 3;
  };
  return fields
    .map((field) => ({ field, rank: rank(field) }))
    .filter((candidate) => candidate.rank < 3)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MOST)
    .map(({ field }) => {
      const operator = field.type === 'number' && field.hasClasses !== true ? '>' : ':';
      return { label: `${field.key}${operator}`, hint: field.summary, insert: `${field.key}${operator}` };
    });
}

function suggestValues<Row>(typed: string, field: FilterField<Row>, seen: readonly string[]): readonly Suggestion[] {
  const wanted = typed.replace(/^"/u, '').toLowerCase();
  const known = knownValues(field);
  const values = [...known, ...seen.filter((value) => !known.includes(value))];
  return values
    .filter((value) => value.toLowerCase() !== wanted && value.toLowerCase().includes(wanted))
    .slice(0, MOST)
    .map((value) => ({
      label: value,
      hint: known.includes(value) ? '' : 'seen',
      insert: `${/[\s,"]/u.test(value) || value === '*' ? quote(value) : value} `,
    }));
}

function knownValues<Row>(field: FilterField<Row>): readonly string[] {
  if (field.type === 'enum') return field.values;
  if (field.type === 'boolean') return ['yes', 'no'];
  return field.type === 'number' && field.hasClasses === true ? ['2xx', '4xx', '5xx'] : [];
}

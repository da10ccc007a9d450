/**
 * Filter text + fields -> a predicate over rows, its reading in plain words, or an error with a position.
 *
 * Meaning of absence: a field that was not observed satisfies nothing, neither `ttft>5` nor `-ttft>5`; only `-key:*`
 * finds it. `-key:value` is a plain complement (`-error:refused` keeps rows without an error), because there the
 * person hides something.
 */
import { indexFields, type FilterField } from './field.ts';
import { nearest } from './near.ts';
import { parseFilter, type FilterTerm } from './parser.ts';
import { compileValues, goesOnFrom } from './predicate.ts';
import { readFieldTerm, readTextTerm } from './reading.ts';

export type CompiledFilter<Row> =
  | {
      readonly ok: true;
      readonly matches: (row: Row) => boolean;
      /** Plain words, e.g. `decode, first token after 150 ms`; empty for an empty filter. */
      readonly reading: string;
      readonly terms: readonly FilterTerm[];
    }
  | {
      readonly ok: false;
      /** What is wrong and what to write instead. */
      readonly error: string;
      /** Offset of the problem in the text. */
      readonly at: number;
      /** Reading of the terms before the problem; absent when there is none. */
      readonly reading?: string;
    };

interface CompiledTerm<Row> {
  readonly matches: (row: Row) => boolean;
  readonly reading: string;
}

/** Compiles a filter; never throws. Cost per row is one closure call per term. */
export function compileFilter<Row>(text: string, fields: readonly FilterField<Row>[]): CompiledFilter<Row> {
  const { terms, problem } = parseFilter(text);
  const byKey = indexFields(fields);
  const compiled: CompiledTerm<Row>[] = [];
  const failure = (error: string, at: number): CompiledFilter<Row> => ({
    ok: false,
    error,
    at,
    ...(compiled.length > 0 && { reading: compiled.map((term) => term.reading).join(', ') }),
  });
  for (const term of terms) {
    const result = compileTerm(term, fields, byKey);
    if ('error' in result) return failure(result.error, result.at);
    compiled.push(result);
  }
  if (problem !== undefined) return failure(problem.error, problem.at);
  return {
    ok: true,
    matches: (row) => compiled.every((term) => term.matches(row)),
    reading: compiled.map((term) => term.reading).join(', '),
    terms,
  };
}

function compileTerm<Row>(
  term: FilterTerm,
  fields: readonly FilterField<Row>[],
  byKey: ReadonlyMap<string, FilterField<Row>>,
): CompiledTerm<Row> | { readonly error: string; readonly at: number } {
  if (term.kind === 'text') return compileText(term, fields, byKey);
  const field = byKey.get(term.key);
  if (field === undefined) return { error: unknownKey(term.key, byKey.keys()), at: term.at };

  const [first] = term.values;
  if (term.op === ':' && term.values.length === 1 && first?.text === '*' && !first.isQuoted) {
    const isWanted = !term.isNegated;
    return { matches: (row) => isPresent(field.get(row)) === isWanted, reading: readFieldTerm(field, term, []) };
  }
  const values = compileValues(field, term);
  if ('error' in values) return values;
  const { test, labels } = values;
  const reading = readFieldTerm(field, term, labels);
  if (!term.isNegated) return { matches: test, reading };
  if (term.op === ':') return { matches: (row) => !test(row), reading };
  return { matches: (row) => isPresent(field.get(row)) && !test(row), reading };
}

function compileText<Row>(
  term: FilterTerm & { readonly kind: 'text' },
  fields: readonly FilterField<Row>[],
  byKey: ReadonlyMap<string, FilterField<Row>>,
): CompiledTerm<Row> | { readonly error: string; readonly at: number } {
  // `status=200` would silently look for that text and find nothing; say how it is written instead.
  const equals = /^([a-z][a-z0-9_.-]*)=+(.+)$/iu.exec(term.text);
  const key = equals?.[1]?.toLowerCase();
  if (equals !== null && key !== undefined && byKey.has(key)) {
    return { error: `Write ${key}:${equals[2]} with a colon.`, at: term.at };
  }
  const wanted = term.text.toLowerCase();
  const texts = fields.filter((field) => field.isText === true);
  const test = (row: Row): boolean => texts.some((field) => containsText(field.get(row), wanted, field.type === 'string' && field.match === 'hex'));
  return {
    matches: term.isNegated ? (row) => !test(row) : test,
    reading: readTextTerm(term),
  };
}

function unknownKey(key: string, known: Iterable<string>): string {
  const near = nearest(key, known);
  const hint = near === undefined ? '' : ` Did you mean ${near}?`;
  return `There is no field "${key}".${hint} To look for the text itself, put it in quotes.`;
}

type FieldValue = string | number | boolean | readonly (string | number)[] | undefined;

function isPresent(value: FieldValue): boolean {
  return value !== undefined && (!Array.isArray(value) || value.length > 0);
}

function containsText(value: FieldValue, wanted: string, isHex: boolean): boolean {
  if (value === undefined) return false;
  if (typeof value === 'object') return value.some((item) => containsText(item, wanted, isHex));
  const text = String(value).toLowerCase();
  return text.includes(wanted) || (isHex && goesOnFrom(text, wanted));
}

/** The values of one field term, bound to the field's type: a test over rows and the words that say it. */
import type { BooleanField, EnumField, FilterField, NumberField, NumbersField, StringField } from './field.ts';
import type { FilterProblem } from './lexer.ts';
import { nearest } from './near.ts';
import type { FilterTerm, FilterValue } from './parser.ts';
import { parseQuantity, UNIT_HINTS } from './quantity.ts';

export interface CompiledValues<Row> {
  readonly test: (row: Row) => boolean;
  /** One label per value, for the reading. */
  readonly labels: readonly string[];
}

type FieldTerm = FilterTerm & { readonly kind: 'field' };

/** Binds a term's values to its field, or says what is wrong with them. */
export function compileValues<Row>(field: FilterField<Row>, term: FieldTerm): CompiledValues<Row> | FilterProblem {
  if (term.op !== ':' && field.type !== 'number') {
    return { error: `${field.key} has no order: write ${field.key}:value instead of ${field.key}${term.op}value.`, at: term.at };
  }
  switch (field.type) {
    case 'number':
      return compileNumber(field, term);
    case 'string':
      return compileString(field, term.values);
    case 'enum':
      return compileEnum(field, term.values);
    case 'boolean':
      return compileBoolean(field, term.values);
    default:
      return compileNumbers(field, term.values);
  }
}

/** Compiles each value alone and joins them with or. */
function anyOf<Row, Value>(
  values: readonly FilterValue[],
  get: (row: Row) => Value | undefined,
  compile: (value: FilterValue) => { readonly test: (value: Value) => boolean; readonly label: string } | FilterProblem,
): CompiledValues<Row> | FilterProblem {
  const tests: ((value: Value) => boolean)[] = [];
  const labels: string[] = [];
  for (const value of values) {
    const one = compile(value);
    if ('error' in one) return one;
    tests.push(one.test);
    labels.push(one.label);
  }
  return {
    test: (row) => {
      const value = get(row);
      return value !== undefined && tests.some((test) => test(value));
    },
    labels,
  };
}

function compileNumber<Row>(field: NumberField<Row>, term: FieldTerm): CompiledValues<Row> | FilterProblem {
  const bad = (value: FilterValue): FilterProblem => ({
    error: `${field.key} needs a number${field.hasClasses === true ? ' or a class such as 5xx' : ''}, "${value.text}" is none. Units: ${UNIT_HINTS[field.unit]}.`,
    at: value.at,
  });
  const { op } = term;
  if (op === ':') return anyOf(term.values, field.get, (value) => compileEquality(field, value) ?? bad(value));

  const [value, second] = term.values;
  if (value === undefined || second !== undefined) {
    return { error: `${field.key}${op} compares with one value. For several write ${field.key}:a,b.`, at: second?.at ?? term.at };
  }
  const quantity = parseQuantity(value.text, field.unit);
  if (quantity === undefined) return bad(value);
  const limit = quantity.value;
  const compare = {
    '>': (n: number) => n > limit,
    '>=': (n: number) => n >= limit,
    '<': (n: number) => n < limit,
    '<=': (n: number) => n <= limit,
  }[op];
  return {
    test: (row) => {
      const n = field.get(row);
      return n !== undefined && compare(n);
    },
    labels: [quantity.label],
  };
}

function compileEquality<Row>(
  field: NumberField<Row>,
  value: FilterValue,
): { readonly test: (n: number) => boolean; readonly label: string } | undefined {
  const digit = field.hasClasses === true ? /^([1-5])xx$/iu.exec(value.text)?.[1] : undefined;
  if (digit !== undefined) return { test: (n) => Math.floor(n / 100) === Number(digit), label: `${digit}xx` };

  const [fromText, toText, rest] = value.text.split('..');
  if (fromText !== undefined && toText !== undefined && rest === undefined) {
    const from = parseQuantity(fromText, field.unit);
    const to = parseQuantity(toText, field.unit);
    if (from === undefined || to === undefined) return undefined;
    return { test: (n) => n >= from.value && n <= to.value, label: `${from.label} to ${to.label}` };
  }
  const quantity = parseQuantity(value.text, field.unit);
  if (quantity === undefined) return undefined;
  return { test: (n) => Math.abs(n - quantity.value) < quantity.tolerance, label: quantity.label };
}

function compileString<Row>(field: StringField<Row>, values: readonly FilterValue[]): CompiledValues<Row> | FilterProblem {
  return anyOf(values, field.get, (value) => {
    let wanted = value.text.toLowerCase();
    if (field.match === 'hex') {
      wanted = wanted.replace(/^0x/u, '').replace(/(?:…|\.\.\.)$/u, '');
      if (!/^[0-9a-f]+$/u.test(wanted)) {
        return { error: `${field.key} is written in hex (0-9, a-f), from its beginning; "${value.text}" is not.`, at: value.at };
      }
    }
    const one = !value.isQuoted && wanted.includes('*') ? globTest(wanted) : stringTest(field.match, wanted);
    return {
      test: (found: string | readonly string[]) =>
        typeof found === 'string' ? one(found.toLowerCase()) : found.some((item) => one(item.toLowerCase())),
      label: value.text,
    };
  });
}

function stringTest(match: StringField<never>['match'], wanted: string): (text: string) => boolean {
  if (match === 'substring') return (text) => text.includes(wanted);
  if (match === 'exact') return (text) => text === wanted;
  return match === 'hex' ? (text) => text.startsWith(wanted) || goesOnFrom(text, wanted) : (text) => text.startsWith(wanted);
}

/** Whether a row's text is cut short, and what is wanted begins with what there is of it. */
export function goesOnFrom(text: string, wanted: string): boolean {
  return text.endsWith('…') && wanted.startsWith(text.slice(0, -1));
}

/** `*` stands for any run of characters; pieces are searched left to right, so it stays linear where a regex may not. */
function globTest(pattern: string): (text: string) => boolean {
  const pieces = pattern.split('*');
  const head = pieces[0] ?? '';
  const tail = pieces.at(-1) ?? '';
  const middle = pieces.slice(1, -1);
  return (text) => {
    if (text.length < head.length + tail.length || !text.startsWith(head) || !text.endsWith(tail)) return false;
    let from = head.length;
    for (const piece of middle) {
      const found = text.indexOf(piece, from);
      if (found < 0) return false;
      from = found + piece.length;
    }
    return from <= text.length - tail.length;
  };
}

function compileEnum<Row>(field: EnumField<Row>, values: readonly FilterValue[]): CompiledValues<Row> | FilterProblem {
  return anyOf(values, field.get, (value) => {
    const wanted = value.text.toLowerCase();
    if (!field.values.includes(wanted)) {
      const near = nearest(wanted, field.values);
      const hint = near === undefined ? '' : ` Did you mean ${near}?`;
      return { error: `${field.key} is one of ${field.values.join(', ')}.${hint}`, at: value.at };
    }
    return {
      test: (found: string | readonly string[]) => (typeof found === 'string' ? found === wanted : found.includes(wanted)),
      label: wanted,
    };
  });
}

const BOOLEAN_WORDS: Readonly<Record<string, boolean>> = { yes: true, true: true, on: true, no: false, false: false, off: false };

function compileBoolean<Row>(field: BooleanField<Row>, values: readonly FilterValue[]): CompiledValues<Row> | FilterProblem {
  return anyOf(values, field.get, (value) => {
    const word = value.text.toLowerCase();
    const wanted = Object.hasOwn(BOOLEAN_WORDS, word) ? BOOLEAN_WORDS[word] : undefined;
    if (wanted === undefined) return { error: `${field.key} is yes or no.`, at: value.at };
    return { test: (found: boolean) => found === wanted, label: wanted ? 'yes' : 'no' };
  });
}

function compileNumbers<Row>(field: NumbersField<Row>, values: readonly FilterValue[]): CompiledValues<Row> | FilterProblem {
  return anyOf(values, field.get, (value) => {
    const wanted = /^\d{1,15}$/u.test(value.text) ? Number(value.text) : undefined;
    if (wanted === undefined) return { error: `${field.key} needs a whole number, "${value.text}" is none.`, at: value.at };
    return { test: (found: readonly number[]) => found.includes(wanted), label: value.text };
  });
}

/**
 * What a filter can ask about a row: one `FilterField` per key. Fields only read; they never compute over other rows,
 * so a filter is evaluated where the history lives, one row at a time. `get` answers `undefined` for what was not
 * observed, and nothing unobserved ever satisfies a comparison: absent is not 0.
 */

/** How a number is written and which suffixes it takes. Values are kept in the base unit: ms, bytes, a count, percent. */
export type QuantityUnit = 'ms' | 'bytes' | 'count' | 'percent';

/**
 * How text given by the person meets the row's text; case never matters. `hex` is a prefix match that ignores `0x`; a row's
 * text that ends with `…` is the beginning of a longer one, and is met by what goes on from it, too.
 */
export type StringMatch = 'substring' | 'prefix' | 'exact' | 'hex';

interface FieldBase {
  /** What the person writes before the operator, lower case. */
  readonly key: string;
  readonly aliases?: readonly string[];
  /** The noun used when the filter is read aloud, e.g. `first token`. */
  readonly says: string;
  /** One line for suggestions and help. */
  readonly summary: string;
  /** Whether bare words are looked for in this field too. Default false. */
  readonly isText?: boolean;
}

export interface StringField<Row> extends FieldBase {
  readonly type: 'string';
  readonly match: StringMatch;
  readonly get: (row: Row) => string | readonly string[] | undefined;
}

/** A closed set of words: any other word is an error with a suggestion. */
export interface EnumField<Row> extends FieldBase {
  readonly type: 'enum';
  readonly values: readonly string[];
  /** Read aloud with its noun, because other fields have the same words. Default false. */
  readonly isNamed?: boolean;
  readonly get: (row: Row) => string | readonly string[] | undefined;
}

export interface NumberField<Row> extends FieldBase {
  readonly type: 'number';
  readonly unit: QuantityUnit;
  /** Words for `>` and `<` in the reading. Default `over` and `under`. */
  readonly words?: { readonly over: string; readonly under: string };
  /** Accept `5xx` for 500..599 (HTTP status). Default false. */
  readonly hasClasses?: boolean;
  readonly get: (row: Row) => number | undefined;
}

export interface BooleanField<Row> extends FieldBase {
  readonly type: 'boolean';
  readonly get: (row: Row) => boolean | undefined;
}

/** A list of numbers of which one must be the given one (token ids). */
export interface NumbersField<Row> extends FieldBase {
  readonly type: 'numbers';
  readonly get: (row: Row) => readonly number[] | undefined;
}

export type FilterField<Row> = StringField<Row> | EnumField<Row> | NumberField<Row> | BooleanField<Row> | NumbersField<Row>;

/** Fields by key and alias. */
export function indexFields<Row>(fields: readonly FilterField<Row>[]): ReadonlyMap<string, FilterField<Row>> {
  const byKey = new Map<string, FilterField<Row>>();
  for (const field of fields) {
    byKey.set(field.key, field);
    for (const alias of field.aliases ?? []) byKey.set(alias, field);
  }
  return byKey;
}

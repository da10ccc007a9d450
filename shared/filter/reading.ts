/** A filter read back in plain words, so that a person sees what the machine understood. */
import type { FilterField } from './field.ts';
import type { Comparison, FilterTerm } from './parser.ts';

/** Words of a field term; `labels` are its values as understood, empty for `key:*`. */
export function readFieldTerm<Row>(
  field: FilterField<Row>,
  term: FilterTerm & { readonly kind: 'field' },
  labels: readonly string[],
): string {
  const { says } = field;
  if (labels.length === 0) return term.isNegated ? `${says} absent` : `${says} present`;
  const values = joinOr(labels);
  if (term.op !== ':') return `${says} ${comparisonWords(field, term.op, term.isNegated)} ${values}`;
  switch (field.type) {
    case 'enum':
      // A closed set mostly speaks for itself: "decode", not "role decode".
      return `${term.isNegated ? 'not ' : ''}${field.isNamed === true ? `${says} ` : ''}${values}`;
    case 'boolean':
      return (values === 'yes') === term.isNegated ? `not ${says}` : says;
    case 'string': {
      const verb = { substring: 'contains', prefix: 'starts with', hex: 'starts with', exact: '' }[field.match];
      const hasGlob = term.values.some((value) => !value.isQuoted && value.text.includes('*'));
      const relation = hasGlob || verb === '' ? '' : `${verb} `;
      return term.isNegated ? `not ${says} ${relation}${values}` : `${says} ${relation}${values}`;
    }
    default:
      return term.isNegated ? `${says} not ${values}` : `${says} ${values}`;
  }
}

/** Words of a bare word or phrase. */
export function readTextTerm(term: FilterTerm & { readonly kind: 'text' }): string {
  return `${term.isNegated ? 'without' : 'with'} the text "${term.text}"`;
}

const OPPOSITE: Readonly<Record<Comparison, Comparison>> = { '>': '<=', '>=': '<', '<': '>=', '<=': '>' };

function comparisonWords<Row>(field: FilterField<Row>, op: Comparison, isNegated: boolean): string {
  const words = field.type === 'number' ? field.words : undefined;
  switch (isNegated ? OPPOSITE[op] : op) {
    case '>':
      return words?.over ?? 'over';
    case '<':
      return words?.under ?? 'under';
    case '>=':
      return 'at least';
    default:
      return 'at most';
  }
}

function joinOr(labels: readonly string[]): string {
  const last = labels.at(-1) ?? '';
  return labels.length < 2 ? last : `${labels.slice(0, -1).join(', ')} or ${last}`;
}

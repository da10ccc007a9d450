import { fc } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { parseFilter, printTerms, type FilterTerm } from '#shared/filter/parser.ts';

/** Terms without their offsets, which printing may move. */
function shape(terms: readonly FilterTerm[]): unknown {
  return terms.map((term) =>
    term.kind === 'text'
      ? { text: term.text, isNegated: term.isNegated }
      : { key: term.key, op: term.op, isNegated: term.isNegated, values: term.values.map(({ text, isQuoted }) => ({ text, isQuoted })) },
  );
}

/** Text rich in what the grammar cares about. */
const grammarText = fc
  .array(
    fc.oneof(
      fc.constantFrom('status', 'ttft', ':', '>', '>=', '<', '<=', ',', '"', '\\', '-', ' ', '\t', '*', '5xx', '0.5s', '..', 'é', '\u2028'),
      fc.string({ maxLength: 4 }),
    ),
    { maxLength: 24 },
  )
  .map((parts) => parts.join(''));

describe('parseFilter', () => {
  it('reads keys, operators, values, words and phrases with their offsets', () => {
    const { terms, problem } = parseFilter('status:5xx -model:"Qwen 3",llama  ttft>=0.5s "two words" 14:02');
    expect(problem).toBeUndefined();
    expect(shape(terms)).toEqual([
      { key: 'status', op: ':', isNegated: false, values: [{ text: '5xx', isQuoted: false }] },
      { key: 'model', op: ':', isNegated: true, values: [{ text: 'Qwen 3', isQuoted: true }, { text: 'llama', isQuoted: false }] },
      { key: 'ttft', op: '>=', isNegated: false, values: [{ text: '0.5s', isQuoted: false }] },
      { text: 'two words', isNegated: false },
      { text: '14:02', isNegated: false },
    ]);
    expect(terms.map((term) => [term.at, term.end])).toEqual([[0, 10], [11, 32], [34, 44], [45, 56], [57, 62]]);
  });

  it('takes `key:>5` for `key>5` and lower-cases keys', () => {
    expect(printTerms(parseFilter('TTFT:>500 Status:<=299').terms)).toBe('ttft>500 status<=299');
  });

  it.each([
    ['status:', 7, 'Write a value after status:'],
    ['a model:a,', 10, 'Write a value after model:'],
    ['ok -', 3, 'Nothing to leave out after "-". Write a term right behind it, e.g. -status:200.'],
    ['say "half', 4, 'This quote is not closed. Add a " at the end of the phrase.'],
    ['ttft>=<5', 6, 'Write a value after ttft>=, or put it in quotes when it begins with <'],
    ['""', 0, 'Empty quotes find nothing. Write the phrase between them.'],
    ['id:"a"b', 6, 'Put a blank or a comma after the closing quote.'],
  ])('says what is wrong with %j, and where', (text, at, error) => {
    expect(parseFilter(text).problem).toEqual({ at, error });
  });

  it('keeps the terms before a problem', () => {
    expect(printTerms(parseFilter('state:ok ttft>').terms)).toBe('state:ok');
  });

  it('never throws, and printing is stable, whatever was typed', () => {
    fc.assert(
      fc.property(fc.oneof(grammarText, fc.string({ unit: 'binary', maxLength: 60 })), (text) => {
        const first = parseFilter(text);
        const printed = printTerms(first.terms);
        const second = parseFilter(printed);
        expect(second.problem).toBeUndefined();
        expect(shape(second.terms)).toEqual(shape(first.terms));
        expect(printTerms(second.terms)).toBe(printed);
        const at = first.problem?.at ?? 0;
        expect(at >= 0 && at <= text.length).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });
});

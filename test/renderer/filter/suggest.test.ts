import { describe, expect, it } from 'vitest';
import { REQUEST_FILTER_FIELDS } from '#shared/filter/request-fields.ts';
import { collectSeenValues } from '../../../renderer/src/filter/seen-values.ts';
import { applySuggestion, suggest } from '../../../renderer/src/filter/suggest.ts';
import { failedRow, sampleRow } from '../requests/sample-requests.ts';

const seen = (key: string): readonly string[] => ({ model: ['Qwen3-8B', 'my model'], instance: ['P0', 'D0'], status: ['200', '502'] })[key] ?? [];
const at = (text: string, caret = text.length): ReturnType<typeof suggest> => suggest(text, caret, REQUEST_FILTER_FIELDS, seen);
const labels = (text: string, caret?: number): readonly string[] => at(text, caret).items.map((item) => item.label);

describe('suggest', () => {
  it('offers keys at the start of a term, best match first, with the operator that suits them', () => {
    expect(labels('st').slice(0, 3)).toEqual(['status:', 'state:', 'stream:']);
    expect(labels('state:ok tt')).toContain('ttft>');
    expect(labels('').length).toBeGreaterThan(5);
    expect(labels('-mod')).toEqual(['model:']);
  });

  it('offers known and seen values after an operator, and after a comma', () => {
    expect(labels('state:')).toEqual(['running', 'ok', 'error', 'aborted']);
    expect(labels('state:ok,er')).toEqual(['error']);
    expect(labels('status:')).toEqual(['2xx', '4xx', '5xx', '200', '502']);
    expect(labels('stream:')).toEqual(['yes', 'no']);
    expect(labels('ttft>')).toEqual([]);
  });

  it('works in the middle of the text and leaves the rest alone', () => {
    const text = 'inst model:x';
    const suggestions = at(text, 4);
    const first = suggestions.items[0];
    expect(first?.label).toBe('instance:');
    expect(first && applySuggestion(text, suggestions, first)).toEqual({ text: 'instance: model:x', caret: 9 });
  });

  it('quotes values that need it', () => {
    const suggestions = at('model:"my');
    expect(suggestions.items.map((item) => item.insert)).toEqual(['"my model" ']);
    const first = suggestions.items[0];
    expect(first && applySuggestion('model:"my', suggestions, first).text).toBe('model:"my model" ');
  });
});

describe('collectSeenValues', () => {
  it('lists values by how often they were seen, and none for measurements', () => {
    const rows = [sampleRow(1), sampleRow(2), sampleRow(5), failedRow(4)];
    expect(collectSeenValues(rows, REQUEST_FILTER_FIELDS, 'status')).toEqual(['200', '502']);
    expect(collectSeenValues(rows, REQUEST_FILTER_FIELDS, 'code')).toEqual(['connect_failed']);
    expect(collectSeenValues(rows, REQUEST_FILTER_FIELDS, 'ttft')).toEqual([]);
    expect(collectSeenValues(rows, REQUEST_FILTER_FIELDS, 'nonsense')).toEqual([]);
  });
});

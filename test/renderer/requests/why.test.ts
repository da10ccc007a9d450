import { array, assert, constantFrom, integer, property, record } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { MISS_KINDS, type MissRange } from '#shared/cache.ts';
import { blockSpan, missSegments, tokensByKind } from '../../../renderer/src/features/requests/detail/why/miss-bar-layout.ts';
import { hitTokens } from '../../../renderer/src/features/requests/detail/why/report-words.ts';
import { markDivergence } from '../../../renderer/src/features/requests/detail/why/token-diff.ts';
import { sampleReport } from '../cache/sample-cache.ts';

const { ranges } = sampleReport('r1');

describe('miss bar', () => {
  it('is as wide as its plot, in order, and shows the smallest range', () => {
    const segments = missSegments(ranges.toReversed(), 1000);
    expect(segments.map(({ range }) => range.kind)).toEqual(ranges.map(({ kind }) => kind));
    expect(segments[0]?.x).toBe(0);
    const last = segments.at(-1);
    expect((last?.x ?? 0) + (last?.width ?? 0)).toBeCloseTo(1000, 6);
    expect(last?.width).toBeGreaterThanOrEqual(3);
    const evicted = segments.find(({ range }) => range.kind === 'evicted');
    expect(evicted?.width).toBeCloseTo((800 / 2487) * 1000, -1);
  });

  it('fills any width that has room for all ranges', () => {
    const anyRange = record({ kind: constantFrom(...MISS_KINDS), tokens: integer({ min: 1, max: 100_000 }) });
    assert(property(array(anyRange, { minLength: 1, maxLength: 40 }), integer({ min: 200, max: 3000 }), (parts, width) => {
      const all = parts.map(({ kind, tokens }, index): MissRange => ({ kind, tokens, fromBlock: index, toBlock: index, message: '' }));
      const segments = missSegments(all, width);
      const end = segments.at(-1);
      expect((end?.x ?? 0) + (end?.width ?? 0)).toBeCloseTo(width, 3);
      expect(Math.min(...segments.map((segment) => segment.width))).toBeGreaterThanOrEqual(3);
    }));
  });

  it('draws nothing where there is nothing', () => {
    expect(missSegments([], 1000)).toEqual([]);
    expect(missSegments(ranges, 0)).toEqual([]);
  });

  it('adds up tokens by verdict', () => {
    expect(tokensByKind(ranges)[0]).toEqual({ kind: 'evicted', tokens: 800 });
    expect(tokensByKind(ranges).reduce((sum, { tokens }) => sum + tokens, 0)).toBe(2487);
    expect(hitTokens(ranges)).toBe(96);
    expect(blockSpan({ fromBlock: 1200, toBlock: 1201 })).toBe('blocks 1,200–1,201');
    expect(blockSpan({ fromBlock: 6, toBlock: 6 })).toBe('block 6');
  });
});

describe('divergence', () => {
  it('marks the word of text from where it differs', () => {
    const [asked, held] = markDivergence({ tokens: [1], text: 'Time: 14:02:31. Go' }, { tokens: [2], text: 'Time: 14:01:07. Go' });
    expect(asked).toEqual({ alike: 'Time: 14:0', differs: '2', rest: ':31. Go', isText: true });
    expect(held).toMatchObject({ differs: '1', rest: ':07. Go' });
    expect(markDivergence({ tokens: [], text: 'Dear Anna,' }, { tokens: [], text: 'Dear Bert,' })[0]).toMatchObject({ alike: 'Dear ', differs: 'Anna', rest: ',' });
  });

  it('parts no accent from its letter', () => {
    const [asked] = markDivergence({ tokens: [], text: 'cafe\u0301' }, { tokens: [], text: 'cafe' });
    expect(asked.alike).toBe('caf');
  });

  it('marks the token id when text is missing or alike', () => {
    const [asked, held] = markDivergence({ tokens: [5, 6, 7] }, { tokens: [5, 9], text: 'x' });
    expect(asked).toEqual({ alike: '5', differs: '6', rest: '7', isText: false });
    expect(held).toMatchObject({ alike: '5', differs: '9', rest: '' });
    expect(markDivergence({ tokens: [5] , text: 'a' }, { tokens: [5, 6], text: 'a' })[0]).toMatchObject({ alike: '5', differs: '', isText: false });
  });
});

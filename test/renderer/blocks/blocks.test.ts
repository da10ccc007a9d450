import { assert, property, array, integer } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { formatBlockRef, parseBlockRef } from '../../../renderer/src/blocks/block-ref.ts';
import { groupHolders } from '../../../renderer/src/blocks/holders.ts';
import { tokenWords } from '../../../renderer/src/blocks/token-words.ts';
import { trustOf, trustOfStreams, trustPercent, trustTone } from '../../../renderer/src/blocks/trust.ts';
import { DOUBTFUL, sampleHolder } from '../cache/sample-cache.ts';
import { sampleInstance, sampleStream } from '../fixtures/sample-state.ts';

describe('block references', () => {
  it.each(['0', '42', 'p0/0:9f3ac4d1a0000001', 'a:b/1:00ff'])('reads back %s', (text) => {
    const ref = parseBlockRef(text);
    expect(ref === undefined ? '' : formatBlockRef(ref)).toBe(text);
  });

  it.each(['', 'new', '-1', '1.5', 'p0/0:', 'p0/0:xyz', ':9f', '9999999999999999999'])('refuses %j', (text) => {
    expect(parseBlockRef(text)).toBeUndefined();
  });
});

describe('trust', () => {
  it('names the stream of a reason, and rounds down so that only certainty reads 100 %', () => {
    expect(trustOf(DOUBTFUL, (stream) => stream.toUpperCase())).toMatchObject({ value: 0.864, reasons: [/^D2\/0: 23 batches/, /^P1\/0: 112/].map((pattern) => expect.stringMatching(pattern)) });
    expect([1, 0.999, 0.29, 0, -1, 2].map(trustPercent)).toEqual([100, 99, 29, 0, 0, 100]);
    expect([1, 0.9, 0.89, 0.5, 0.49].map(trustTone)).toEqual(['plain', 'plain', 'warning', 'warning', 'error']);
  });

  it('is the lowest of several streams, with the reasons of all, worst first; unknown when none says', () => {
    const p0 = sampleInstance({ name: 'P0', role: 'prefill' });
    const d0 = sampleInstance({ name: 'D0', role: 'decode' });
    expect(trustOfStreams([sampleStream(p0)])).toBeUndefined();
    const trust = trustOfStreams([
      sampleStream(p0, { confidence: 0.9, reasons: [{ code: 'lagging', text: 'slow', weight: 0.1 }] }),
      sampleStream(d0, { confidence: 0.4, reasons: [{ code: 'joined-late', text: 'late', weight: 0.6 }] }),
      sampleStream(d0),
    ]);
    expect(trust).toEqual({ value: 0.4, reasons: ['D0/0: late', 'P0/0: slow'], rule: 'the lowest of 2 streams: D0/0 40 %, P0/0 90 %' });
  });
});

describe('token words', () => {
  it('prefers text, draws white space, and falls back to ids', () => {
    expect(tokenWords({ tokens: [1], text: 'a\nb\tc' })).toEqual({ isText: true, words: '“a⏎b⇥c”' });
    expect(tokenWords({ tokens: [1, 2, 3] }, 96, 2)).toEqual({ isText: false, words: '1, 2, …' });
    expect(tokenWords({ tokens: [] }).words).toBe('no tokens known');
    expect(tokenWords({ tokens: [], text: '' }).words).toBe('“”');
  });

  it('cuts no character in two', () => {
    expect(tokenWords({ tokens: [], text: 'ab😀cd' }, 3).words).toBe('“ab…”');
    expect(tokenWords({ tokens: [], text: 'ab😀cd' }, 4).words).toBe('“ab😀…”');
  });
});

describe('holders', () => {
  it('groups ranks and media by instance, prefill first', () => {
    const groups = groupHolders([
      sampleHolder('D0'), sampleHolder('P10'), sampleHolder('P2', { medium: 'CPU' }), sampleHolder('D0', { stream: 'd0/1' as never }), sampleHolder('D0', { medium: 'CPU' }),
    ]);
    expect(groups.map(({ name, streams, otherMedia }) => [name, streams, otherMedia])).toEqual([['P2', 1, ['CPU']], ['P10', 1, []], ['D0', 2, ['CPU']]]);
  });

  it('loses no instance', () => {
    assert(property(array(integer({ min: 0, max: 9 })), (numbers) => {
      expect(groupHolders(numbers.map((n) => sampleHolder(`P${n}`)))).toHaveLength(new Set(numbers).size);
    }));
  });
});

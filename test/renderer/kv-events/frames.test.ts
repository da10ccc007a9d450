import { assert, jsonValue, property, uint8Array } from '../../support/properties.ts';
import { describe, expect, it } from 'vitest';
import { hexDump, hexLines, sequenceOf } from '../../../renderer/src/features/kv-events/hex-lines.ts';
import { indentJson } from '../../../renderer/src/features/kv-events/indent-json.ts';
import { coverageWords, gapWords, replayHealth } from '../../../renderer/src/fleet/stream-words.ts';
import { sampleInstance, sampleStream } from '../fixtures/sample-state.ts';

describe('hex lines', () => {
  it('writes offset, bytes and ASCII in straight columns', () => {
    expect(hexDump('6b762d6576656e7473')).toBe(`00000000  6b 76 2d 65 76 65 6e 74  73${' '.repeat(7 * 3)}  kv-events`);
    expect(hexLines('00ff'.repeat(9)).map(({ offset, ascii }) => [offset, ascii])).toEqual([['00000000', '.'.repeat(16)], ['00000010', '..']]);
    expect(hexLines('')).toEqual([]);
  });

  it('loses no byte', () => {
    assert(property(uint8Array(), (bytes) => {
      const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
      expect(hexLines(hex).map((line) => line.hex.replaceAll(' ', '')).join('')).toBe(hex);
    }));
  });

  it('reads a sequence frame without rounding, the end marker of a replay included', () => {
    expect(sequenceOf('000000000000bbf0')).toBe('48112');
    expect(sequenceOf('0020000000000001')).toBe('9007199254740993');
    expect(sequenceOf('ffffffffffffffff')).toBe('-1');
    expect(sequenceOf('00')).toBeUndefined();
  });
});

describe('indentJson', () => {
  it('keeps every digit of a hash, and flat lists on one line', () => {
    expect(indentJson('[1.5,[["BlockStored",[11473219867613790209],null,[1,2,3]]]]')).toBe(
      '[\n  1.5,\n  [\n    [\n      "BlockStored",\n      [11473219867613790209],\n      null,\n      [1, 2, 3]\n    ]\n  ]\n]',
    );
  });

  it('keeps short lists of strings on one line, commas inside them untouched, and long ones apart', () => {
    expect(indentJson('{"hashes":["13906","1,2"],"size":16,"more":{}}')).toBe('{\n  "hashes": ["13906", "1,2"],\n  "size": 16,\n  "more": {}\n}');
    expect(indentJson(JSON.stringify([Array.from({ length: 12 }, () => '13906197482154989')]))).toContain('"13906197482154989",\n    "13906197482154989"');
  });

  it('changes nothing but white space', () => {
    assert(property(jsonValue(), (value) => {
      const text = JSON.stringify(value);
      expect(JSON.parse(indentJson(text))).toEqual(JSON.parse(text));
    }));
  });

  it('leaves text that was cut readable', () => {
    expect(indentJson('["a",[1,2')).toBe('[\n  "a",\n  [\n    1,\n    2');
    expect(indentJson('["a, [b')).toContain('"a, [b');
  });
});

describe('gaps, replay and coverage', () => {
  const stream = (part: Parameters<typeof sampleStream>[1]): ReturnType<typeof sampleStream> => sampleStream(sampleInstance({ name: 'P0', role: 'prefill' }), part);
  it('warns for what is missing, and not for what a replay brought', () => {
    expect(gapWords(stream({}))).toMatchObject({ words: '0', isWarning: false });
    expect(gapWords(stream({ gaps: 3, missedBatches: 40 }))).toMatchObject({ words: '▲ 3 (40)', isWarning: true });
    expect(gapWords(stream({ gaps: 3, missedBatches: 40, gapsFilled: 3, missedFilled: 40, missedLost: 0 }))).toMatchObject({ words: '3 · 3 · 0', isWarning: false });
    expect(gapWords(stream({ gaps: 3, missedBatches: 40, gapsFilled: 1, missedFilled: 10, missedLost: 23 }))).toEqual({
      words: '▲ 3 · 1 · 23', isWarning: true, title: '3 gaps missed 40 batches: 10 brought by replay, 23 lost for good, 7 being asked for',
    });
  });

  it('says what the replay socket does', () => {
    expect(replayHealth(undefined)).toBeUndefined();
    expect(replayHealth({ state: 'none', asked: 0, failed: 0, batches: 0 })).toMatchObject({ words: 'none', tone: 'unknown' });
    expect(replayHealth({ state: 'failed', reason: 'no answer within 2 s', asked: 3, failed: 3, batches: 0, layout: 'bare' })).toEqual({
      tone: 'warning', words: 'failed', title: 'no answer within 2 s. 3 asked, 3 without a whole answer, 0 batches applied; replies without a topic frame',
    });
    expect(coverageWords({ applied: 310, unseen: 112, lost: 0, unreadable: 2 })).toContain('310 applied, 112 went by before the stream was joined, 0 lost in gaps, 2 unreadable');
  });
});

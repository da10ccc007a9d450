import { describe, expect, it } from 'vitest';
import type { Confidence } from '#shared/cache.ts';
import type { StreamId } from '#shared/ids.ts';
import { lowestConfidence, streamConfidence } from '#engine/kv-index/confidence.ts';

const id = (text: string): StreamId => text as StreamId;
const part = (stream: string, value: number, ...texts: string[]): Confidence => ({ value, reasons: texts.map((text) => ({ code: 'lagging', text, stream: id(stream) })), over: [{ stream: id(stream), value }] });

describe('lowestConfidence', () => {
  it('is the worst of its parts, so that one dead stream among eight shows', () => {
    const eight = Array.from({ length: 7 }, (_, index) => part(`p${index}/0`, 1));
    expect(lowestConfidence([...eight, part('d0/0', 0, 'lost')])).toMatchObject({ value: 0, reasons: [{ text: 'lost' }], streams: 8 });
    expect(lowestConfidence([])).toBeUndefined();
  });

  it('lists the heaviest reason of every part before the second of any, and none twice', () => {
    const all = lowestConfidence([part('a', 0.9, 'a1'), part('b', 0.2, 'b1', 'b2'), part('a', 0.9, 'a1')]);
    expect(all?.reasons.map(({ text }) => text)).toEqual(['b1', 'a1', 'b2']);
    expect(all?.over).toEqual([{ stream: 'b', value: 0.2 }, { stream: 'a', value: 0.9 }]);
  });

  it('is bounded: the worst stay, and all are counted', () => {
    const many = Array.from({ length: 100 }, (_, index) => part(`s${index}/0`, index / 100, `r${index}`));
    const all = lowestConfidence(many);
    expect([all?.value, all?.reasons.length, all?.over?.length, all?.streams, all?.reasons[0]?.text]).toEqual([0, 20, 64, 100, 'r0']);
  });

  it('of a stream that is gone, or does not say, is 0', () => {
    expect(streamConfidence(undefined)).toMatchObject({ value: 0, reasons: [{ code: 'no-stream' }] });
    expect(streamConfidence({ id: id('p0/0') })).toMatchObject({ value: 0, reasons: [{ code: 'no-stream', stream: 'p0/0' }], over: [{ stream: 'p0/0', value: 0 }] });
  });
});

import { describe, expect, it } from 'vitest';
import { axisTicks, lastMoment, layoutWaterfall, placeLabels } from '../../../renderer/src/features/requests/detail/waterfall-layout.ts';
import { failedRow, sampleDetail, sampleEncodeLegs, sampleLeg, sampleRow } from './sample-requests.ts';

describe('layoutWaterfall', () => {
  it('draws each phase in the lane of the leg that ran it, bounded ones hatched', () => {
    const row = sampleRow(10);
    const { lanes, domainMs } = layoutWaterfall(sampleDetail(row));
    expect(lanes.map((lane) => lane.name)).toEqual(['client', 'pdscope', 'P0', 'D1']);
    expect(domainMs).toBe(row.e2elMs);
    const looks = lanes.map((lane) => lane.bars.map((bar) => `${bar.look}${bar.isExact ? '' : '?'}`));
    expect(looks).toEqual([
      ['wait', 'rest'],
      ['proxy', 'handoff'],
      ['leg', 'prefill-queue?', 'prefill-compute?'],
      ['leg', 'decode-queue?', 'kv-wait?', 'first-step?', 'unattributed?', 'decode'],
    ]);
    expect(lanes[3]?.bars[2]?.label).toBe('remote-KV wait ≤ 718 ms (bounded)');
    expect(lanes[0]?.sub).toBe('1,112 ms to 1st token');
  });

  it('keeps a lane for each failed attempt and says how it ended', () => {
    const row = failedRow(4);
    const error = row.error;
    const detail = sampleDetail(row, {
      legs: [
        sampleLeg(row, 'prefill'),
        sampleLeg(row, 'decode', { outcome: 'error', sentMs: 130, endMs: 150, ...(error !== undefined && { error }) }),
        sampleLeg(row, 'decode', { outcome: 'error', attempt: 2, instanceName: 'D2', sentMs: 152, endMs: 168, ...(error !== undefined && { error }) }),
      ],
    });
    const { lanes } = layoutWaterfall(detail);
    expect(lanes.map((lane) => [lane.name, lane.sub, lane.isFailed])).toEqual([
      ['client', 'no token reached it', true],
      ['pdscope', 'chose P0 → D1', false],
      ['P0', 'prefill leg', false],
      ['D1', 'decode leg, failed', true],
      ['D2', 'decode leg, attempt 2, failed', true],
    ]);
    expect(lanes[3]?.bars).toHaveLength(1);
    expect(lanes[3]?.bars[0]).toMatchObject({ look: 'failed', startMs: 130, endMs: 150, label: '✕ connect_failed' });
  });

  it('draws what was seen of a leg whose phases are not known', () => {
    const row = { ...sampleRow(1), phases: [] };
    const prefill = sampleLeg(sampleRow(1), 'prefill', { firstByteMs: 40, endMs: 90 });
    const { lanes } = layoutWaterfall(sampleDetail(row, { legs: [prefill] }));
    expect(lanes[2]?.bars.map((bar) => [bar.look, bar.startMs, bar.endMs])).toEqual([['leg', 4, 90], ['prefill', 40, 90]]);
  });

  it('lets legs that ran at once overlap, each in its own lane with its rank', () => {
    const row = { ...sampleRow(1), phases: [] };
    const legs = [sampleLeg(row, 'prefill', { sentMs: 2, firstByteMs: 90, endMs: 91, rank: 1 }), sampleLeg(row, 'decode', { sentMs: 2.5, firstByteMs: 100, endMs: 300, rank: 0 })];
    const { lanes } = layoutWaterfall(sampleDetail(row, { legs }));
    expect(lanes.slice(2).map((lane) => [lane.name, lane.bars[0]?.startMs, lane.bars[0]?.endMs])).toEqual([['P1/1', 2, 91], ['D1/0', 2.5, 300]]);
  });

  it('gives many encode legs one lane, and each its own when asked', () => {
    const row = sampleRow(2);
    const base = sampleDetail(row);
    const detail = { ...base, legs: [...sampleEncodeLegs(24), ...base.legs] };
    const grouped = layoutWaterfall(detail);
    expect(grouped.groupedLegs).toBe(24);
    expect(grouped.lanes.map((lane) => lane.name)).toEqual(['client', 'pdscope', 'E0, E1', 'P0', 'D2']);
    expect(grouped.lanes[2]).toMatchObject({ sub: '24 encode legs, 12.0 to 34.0 ms, 3 failed', isFailed: true, bars: [] });
    expect(grouped.lanes[2]?.group?.map((bar) => bar.look).filter((look) => look === 'failed')).toHaveLength(3);
    const each = layoutWaterfall(detail, undefined, true);
    expect(each.lanes).toHaveLength(2 + 24 + 2);
    expect(each.lanes[2]?.bars.map((bar) => bar.look)).toEqual(['leg', 'encode']);
    expect(layoutWaterfall({ ...base, legs: [...sampleEncodeLegs(3), ...base.legs] }).groupedLegs).toBe(0);
  });

  it('takes a common end for two requests', () => {
    expect(layoutWaterfall(sampleDetail(sampleRow(1)), 9000).domainMs).toBe(9000);
  });

  it('extends a running request to the last thing seen', () => {
    const { e2elMs: _e2el, ...running } = sampleRow(1, { state: 'running', phases: [] });
    const detail = sampleDetail(running, { legs: [], chunkTimesMs: [50, 61, 72] });
    expect(lastMoment(detail)).toBe(72);
    expect(layoutWaterfall(detail).lanes[0]?.bars.at(-1)).toMatchObject({ look: 'rest', endMs: 72, isExact: false });
  });
});

describe('axisTicks', () => {
  it('marks round numbers, at most as many as fit', () => {
    expect(axisTicks(1204, 6)).toEqual([0, 250, 500, 750, 1000]);
    expect(axisTicks(9, 5)).toEqual([0, 2, 4, 6, 8]);
    expect(axisTicks(1, 2)).toEqual([0, 0.5, 1]);
  });
});

describe('placeLabels', () => {
  it('leaves out what would touch a more important label, and keeps labels inside the plot', () => {
    expect(placeLabels([500, 560, 5, 995], 100, 1000)).toEqual([500, undefined, 50, 950]);
  });
});

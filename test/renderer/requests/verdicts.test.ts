import { describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import { placeVerdicts, worstFirst, worstOf } from '../../../renderer/src/features/requests/detail/verdicts.ts';
import { sampleVerdict } from '../fixtures/sample-findings.ts';
import { sampleLeg, sampleRow } from './sample-requests.ts';

const row = sampleRow(2);
const legs = [
  sampleLeg(row, 'prefill'),
  sampleLeg(row, 'decode', { instance: 'd0' as InstanceId, outcome: 'error' }),
  sampleLeg(row, 'decode', { instance: 'd1' as InstanceId, attempt: 2 }),
];

/** Where a verdict lands: `client`, the place of a leg, or `elsewhere`. */
function place(part: Parameters<typeof sampleVerdict>[0]): string {
  const placed = placeVerdicts({ legs, verdicts: [sampleVerdict(part)] });
  if (placed.client.length > 0) return 'client';
  return placed.elsewhere.length > 0 ? 'elsewhere' : [...placed.byLeg.keys()].join(',');
}

describe('placeVerdicts', () => {
  it.each([
    ['what the client sent', { hop: 'client->proxy' }, 'client'],
    ["prefill's answer", { hop: 'prefill->proxy', instance: 'p0' as InstanceId }, '0'],
    ['the decode leg on the named instance, also an earlier try', { hop: 'proxy->decode', instance: 'd0' as InstanceId }, '1'],
    ['the newest leg of the hop when the instance is another (whose blocks are meant)', { hop: 'proxy->decode', instance: 'p0' as InstanceId }, '2'],
    ['no leg of the kind', { hop: 'proxy->encode' }, 'elsewhere'],
    ['a leg that was held back, although an earlier one of its kind went well', { hop: 'proxy->decode', instance: 'd1' as InstanceId, isBlocked: true }, 'elsewhere'],
  ] as const)('%s', (_what, part, expected) => {
    expect(place(part)).toBe(expected);
  });

  it('loses none that names no hop', () => {
    const { hop: _hop, ...verdict } = sampleVerdict();
    expect(placeVerdicts({ legs, verdicts: [verdict] }).elsewhere).toEqual([verdict]);
  });
});

describe('worstFirst', () => {
  it('orders by severity, then by the way a request goes', () => {
    const verdicts = [
      sampleVerdict({ code: 'a', severity: 'info', hop: 'client->proxy' }),
      sampleVerdict({ code: 'b', severity: 'error', hop: 'proxy->decode' }),
      sampleVerdict({ code: 'c', severity: 'error', hop: 'prefill->proxy' }),
    ];
    expect(worstFirst(verdicts).map(({ code }) => code)).toEqual(['c', 'b', 'a']);
    expect(worstOf(verdicts)).toBe('error');
    expect(worstOf([])).toBeUndefined();
  });
});

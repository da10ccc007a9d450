import { describe, expect, it } from 'vitest';
import type { InstanceId } from '#shared/ids.ts';
import { kvBytesOf } from '#engine/cache/kv-bytes.ts';

type Fleet = Parameters<typeof kvBytesOf>[1];

const p0 = 'p0' as InstanceId;
const d0 = 'd0' as InstanceId;

function fleet(p: Partial<Fleet[number]> = {}, d: Partial<Fleet[number]> = {}): Fleet {
  const base = { models: ['m'], transfer: undefined, gauges: undefined, kvBytesPerToken: undefined };
  return [{ ...base, id: p0, name: 'P0', role: 'prefill', ...p }, { ...base, id: d0, name: 'D0', role: 'decode', ...d }];
}

const gauges = (bytes: number, transfers: number, tokens: number): NonNullable<Fleet[number]['gauges']> =>
  ({ scrapedAtUnixMs: 0, blockSize: 16, kvTransfers: { bytes, transfers }, cacheTokens: { externalKvTransfer: tokens } });

describe('kvBytesOf', () => {
  it('takes what was given, then what the configuration tells, then what was measured', () => {
    const measured = { gauges: gauges(1_000_000, 20, 10_000) };
    expect(kvBytesOf(p0, fleet({ kvBytesPerToken: 5, transfer: { kvBytesPerToken: 7 } }, measured))).toMatchObject({ bytesPerToken: 5, from: 'setting' });
    expect(kvBytesOf(p0, fleet({ transfer: { kvBytesPerToken: 7 } }, measured))).toMatchObject({ bytesPerToken: 7, from: 'server-info' });
    expect(kvBytesOf(p0, fleet({}, measured))).toEqual({
      bytesPerToken: 100, from: 'transfers',
      detail: 'measured: NIXL moved 1000000 bytes in 20 transfers for 10000 tokens received by instances of m; whole blocks move, so up to 3 % too much',
    });
  });

  it('divides sums over the model, as push counts bytes on one side and tokens on the other', () => {
    expect(kvBytesOf(d0, fleet({ gauges: gauges(1_000_000, 20, 0) }, { gauges: gauges(0, 0, 10_000) }))).toMatchObject({ bytesPerToken: 100 });
  });

  it.each<readonly [string, Fleet]>([
    ['nobody says', fleet()],
    ['too few transfers', fleet({}, { gauges: gauges(1_000_000, 15, 10_000) })],
    ['too few tokens', fleet({}, { gauges: gauges(1_000_000, 20, 4000) })],
    ['tokens without bytes: another connector', fleet({}, { gauges: { scrapedAtUnixMs: 0, cacheTokens: { externalKvTransfer: 90_000 } } })],
    ['several connectors in one', fleet({}, { gauges: gauges(1_000_000, 20, 10_000), transfer: { kvConnector: 'MultiConnector' } })],
    ['another model', fleet({ models: ['other'] }, { gauges: gauges(1_000_000, 20, 10_000) })],
  ])('is unknown: %s', (_what, all) => {
    expect(kvBytesOf(p0, all)).toBeUndefined();
  });

  it('is unknown of an instance that left', () => {
    expect(kvBytesOf('d9' as InstanceId, fleet())).toBeUndefined();
  });
});

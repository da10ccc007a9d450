import { describe, expect, it } from 'vitest';
import { disagreement } from '#engine/cache/hit-check.ts';
import type { LegInstance } from '#engine/telemetry/request-record.ts';
import type { MissReport } from '#shared/cache.ts';
import { InstanceIdSchema, RecordIdSchema, streamId } from '#shared/ids.ts';

const id = InstanceIdSchema.parse('p0');
const instance: LegInstance = { id, name: 'P0', role: 'prefill', isSimulated: false };
const report: MissReport = {
  request: RecordIdSchema.parse('r1'), state: 'ready', stream: streamId(id, 0), promptTokens: 400, blockSize: 16, matches: [], confidence: { value: 0.95, reasons: [] },
  ranges: [{ kind: 'hit', fromBlock: 0, toBlock: 9, tokens: 160, message: '' }, { kind: 'never-stored', fromBlock: 10, toBlock: 24, tokens: 240, message: '' }],
};
const leg = (cachedTokens: number | undefined, transferParamsSent?: unknown): Parameters<typeof disagreement>[1] => ({ kind: 'prefill', usage: cachedTokens === undefined ? undefined : { cachedTokens }, instance, transferParamsSent });

describe('disagreement', () => {
  it('is a finding in either direction, beyond two blocks and a tenth of the prompt', () => {
    expect(disagreement(report, leg(160))).toBeUndefined();
    expect(disagreement(report, leg(200))).toBeUndefined();
    expect(disagreement(report, leg(120))).toBeUndefined();
    expect(disagreement(report, leg(208))).toMatchObject({ code: 'cache_hit_unseen', severity: 'info', instance: 'p0', message: 'P0 reported 208 cached tokens of 400; by its KV events (p0/0) 160 were resident.' });
    expect(disagreement(report, leg(0))).toMatchObject({ code: 'cache_hit_missing' });
    expect(disagreement({ ...report, promptTokens: 200 }, leg(192))).toBeUndefined();
    expect(disagreement({ ...report, promptTokens: 200 }, leg(193))).toMatchObject({ code: 'cache_hit_unseen' });
  });

  it('is none where one side is not known well enough, or the leg fetched what counts as cached', () => {
    expect(disagreement(report, leg(undefined))).toBeUndefined();
    expect(disagreement({ ...report, confidence: { value: 0.89, reasons: [] } }, leg(0))).toBeUndefined();
    expect(disagreement({ ...report, blockSize: 0 }, leg(0))).toBeUndefined();
    expect(disagreement({ ...report, ranges: [...report.ranges, { kind: 'unknown', fromBlock: 25, toBlock: 25, tokens: 1, message: '' }] }, leg(0))).toBeUndefined();
    expect(disagreement(report, leg(400, { do_remote_prefill: true }))).toBeUndefined();
    expect(disagreement(report, leg(400, '{"do_remote_prefill": true}'))).toBeUndefined();
    expect(disagreement(report, leg(400, { do_remote_decode: true, remote_block_ids: [[1, 2]] }))).toBeUndefined();
    expect(disagreement(report, leg(400, { do_remote_decode: true, remote_block_ids: null }))).toMatchObject({ code: 'cache_hit_unseen' });
  });
});

import { describe, expect, it } from 'vitest';
import { IndexHits } from '#engine/cache/index-hits.ts';
import type { IndexHit } from '#engine/cache-hits/cache-hits.ts';
import type { LegRecord } from '#engine/telemetry/request-record.ts';
import type { MissReport } from '#shared/cache.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import type { KvStreamView } from '#shared/kv.ts';
import type { CandidateScore, RoutingDecision } from '#shared/request.ts';

const stream = (rank: number, confidence: number): KvStreamView => ({ id: `p0/${rank}`, instance: 'p0', rank, confidence, reasons: [{ code: 'joined-late', text: 'late', weight: 1 - confidence }] }) as unknown as KvStreamView;

function setUp(): { readonly hits: IndexHits; readonly asked: string[]; readonly told: IndexHit[] } {
  const asked: string[] = [];
  const told: IndexHit[] = [];
  const hits = new IndexHits({
    kvEvents: { streams: () => [stream(0, 0.5), stream(1, 0.9)] },
    to: { recordAsked: (instance) => asked.push(instance), recordIndex: (hit) => told.push(hit) },
  });
  return { hits, asked, told };
}

const score = (instance: string, matched: Pick<CandidateScore, 'matchedTokens' | 'matchedBlocks'>): CandidateScore => ({ instance: instance as InstanceId, name: instance, reason: '', ...matched });

function leg(candidates: readonly CandidateScore[], decision: Partial<RoutingDecision> = {}, rank?: number): LegRecord {
  const decisions = [{ kind: 'prefill', policy: 'prefix-aware', chosen: 'p0', attempt: 1, atMs: 0, candidates, excluded: [], promptTokens: 100, tokensFrom: 'tokenize', ...decision }];
  return { kind: 'prefill', instance: { id: 'p0', name: 'P0' }, rank, record: { decisions } } as unknown as LegRecord;
}

const report: MissReport = {
  request: 'r1' as RecordId, state: 'ready', promptTokens: 64, matches: [], confidence: { value: 1, reasons: [] },
  ranges: [{ kind: 'hit', fromBlock: 0, toBlock: 1, tokens: 32, message: '' }, { kind: 'never-stored', fromBlock: 2, toBlock: 3, tokens: 32, message: '' }],
};

describe('hits by the index', () => {
  it('counts every request, and what routing found of the chosen instance', () => {
    const { hits, asked, told } = setUp();
    hits.answered(leg([score('p1', { matchedTokens: 96, matchedBlocks: 6 }), score('p0', { matchedTokens: 48, matchedBlocks: 3 })]));
    expect([asked, told]).toEqual([['p0'], [{ instance: 'p0', queryTokens: 100, hitTokens: 48, confidence: expect.objectContaining({ value: 0.5, over: [{ stream: 'p0/0', value: 0.5 }, { stream: 'p0/1', value: 0.9 }] }) }]]);
  });

  it('is as good as the stream of the rank that it was sent to; of an instance without a stream nothing is known', () => {
    const { hits, told } = setUp();
    for (const rank of [1, 2]) hits.answered(leg([score('p0', { matchedTokens: 48, matchedBlocks: 3 })], {}, rank));
    expect(told.map(({ confidence: { value, reasons } }) => [value, reasons.map(({ code, stream: of }) => [code, of])])).toEqual([[0.9, [['joined-late', 'p0/1']]], [0, [['no-stream', undefined]]]]);
  });

  it('leaves the last block of a prompt held whole to be computed', () => {
    const { hits, told } = setUp();
    hits.answered(leg([score('p0', { matchedTokens: 96, matchedBlocks: 6 })], { promptTokens: 96 }));
    expect(told[0]).toMatchObject({ queryTokens: 96, hitTokens: 80 });
  });

  it('takes those that routing knew nothing of from their reports, and no request twice', () => {
    const { hits, asked, told } = setUp();
    const unknown = leg([score('p0', {})]);
    hits.answered(unknown);
    hits.explained(unknown, report);
    const known = leg([score('p0', { matchedTokens: 0, matchedBlocks: 0 })]);
    hits.answered(known);
    hits.explained(known, report);
    expect(asked).toEqual(['p0', 'p0']);
    expect(told.map(({ queryTokens, hitTokens }) => [queryTokens, hitTokens])).toEqual([[64, 32], [100, 0]]);
  });
});

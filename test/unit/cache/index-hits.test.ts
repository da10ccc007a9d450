import { describe, expect, it } from 'vitest';
import { IndexHits } from '#engine/cache/index-hits.ts';
import type { IndexHit } from '#engine/cache-hits/cache-hits.ts';
import type { LegRecord } from '#engine/telemetry/request-record.ts';
import type { MissReport } from '#shared/cache.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import type { CandidateScore, RoutingDecision } from '#shared/request.ts';

function setUp(): { readonly hits: IndexHits; readonly asked: string[]; readonly told: IndexHit[] } {
  const asked: string[] = [];
  const told: IndexHit[] = [];
  const hits = new IndexHits({
    kvEvents: { confidenceOf: () => ({ confidence: 0.5, reasons: [{ code: 'joined-late', text: 'late', weight: 0.5 }] as never }) },
    to: { recordAsked: (instance) => asked.push(instance), recordIndex: (hit) => told.push(hit) },
  });
  return { hits, asked, told };
}

const score = (instance: string, matched: Pick<CandidateScore, 'matchedTokens' | 'matchedBlocks'>): CandidateScore => ({ instance: instance as InstanceId, name: instance, reason: '', ...matched });

function leg(candidates: readonly CandidateScore[], decision: Partial<RoutingDecision> = {}): LegRecord {
  const decisions = [{ kind: 'prefill', policy: 'prefix-aware', chosen: 'p0', attempt: 1, atMs: 0, candidates, excluded: [], promptTokens: 100, tokensFrom: 'tokenize', ...decision }];
  return { kind: 'prefill', instance: { id: 'p0', name: 'P0' }, record: { decisions } } as unknown as LegRecord;
}

const report: MissReport = {
  request: 'r1' as RecordId, state: 'ready', promptTokens: 64, matches: [], confidence: { value: 1, reasons: [] },
  ranges: [{ kind: 'hit', fromBlock: 0, toBlock: 1, tokens: 32, message: '' }, { kind: 'never-stored', fromBlock: 2, toBlock: 3, tokens: 32, message: '' }],
};

describe('hits by the index', () => {
  it('counts every request, and what routing found of the chosen instance', () => {
    const { hits, asked, told } = setUp();
    hits.answered(leg([score('p1', { matchedTokens: 96, matchedBlocks: 6 }), score('p0', { matchedTokens: 48, matchedBlocks: 3 })]));
    expect([asked, told]).toEqual([['p0'], [{ instance: 'p0', queryTokens: 100, hitTokens: 48, confidence: { value: 0.5, reasons: [{ code: 'joined-late', text: 'late' }] } }]]);
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

import { describe, expect, it } from 'vitest';
import type { HitSource } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { Role } from '#shared/vocabulary.ts';
import { DisagreementWatch } from '#engine/cache-hits/disagreement-watch.ts';
import { reconcile, type Disagreement, type InstanceHits } from '#engine/cache-hits/reconcile.ts';
import { Findings } from '#engine/findings/findings.ts';

/** Shares by source, of 10,000 tokens each. */
function hits(role: Role, shares: Partial<Record<HitSource, number>>, queryTokens = 10_000): InstanceHits {
  return {
    instance: 'x0' as InstanceId,
    instanceName: 'X0',
    role,
    hits: Object.fromEntries(Object.entries(shares).map(([source, share]) => [source, { hitTokens: share * queryTokens, queryTokens }])),
  };
}

const found = (one: InstanceHits, options: Partial<Parameters<typeof reconcile>[1]> = {}): unknown =>
  reconcile(one, { tolerance: 0.15, hasPrefill: true, ...options }).map(({ code, left, right, leftRate, rightRate }) => [code, left, right, leftRate, rightRate]);

describe('reconcile', () => {
  it.each<readonly [string, InstanceHits, unknown]>([
    ['agreement', hits('prefill', { index: 0.5, 'by-source': 0.5, 'prefill-cached-tokens': 0.45, 'engine-local': 0.5 }), []],
    ['the index promised, the engine computed', hits('prefill', { index: 0.8, 'by-source': 0.3 }), [['hits_promised_but_computed', 'index', 'by-source', 0.8, 0.3]]],
    ['the engine knew more than its events', hits('prefill', { index: 0.1, 'by-source': 0.6 }), [['hits_not_in_events', 'index', 'by-source', 0.1, 0.6]]],
    ['an engine without counters is held against its answers', hits('prefill', { index: 0.8, 'prefill-cached-tokens': 0.3 }), [['hits_promised_but_computed', 'index', 'prefill-cached-tokens', 0.8, 0.3]]],
    ['what a shared store gave is no news to the index', hits('prefill', { index: 0.35, 'engine-local': 0.34, 'by-source': 0.8, 'prefill-cached-tokens': 0.78 }), []],
    ['answers tell fewer', hits('prefill', { 'prefill-cached-tokens': 0.2, 'by-source': 0.7 }), [['hits_answers_less', 'prefill-cached-tokens', 'by-source', 0.2, 0.7]]],
    ['answers tell more', hits('prefill', { 'prefill-cached-tokens': 1, 'by-source': 0.3 }), [['hits_answers_more', 'prefill-cached-tokens', 'by-source', 1, 0.3]]],
    ['decode calls cached what it fetched, as it should', hits('decode', { 'decode-cached-tokens': 0.98, 'by-source': 0.97, 'engine-local': 0.1, 'engine-external': 0.9 }), []],
    ['decode calls cached what it neither held nor fetched', hits('decode', { 'decode-cached-tokens': 0.98, 'by-source': 0.5, 'engine-external': 0.5 }), [['hits_answers_more', 'decode-cached-tokens', 'by-source', 0.98, 0.5]]],
    ['an engine without that counter: nothing to hold it against', hits('decode', { 'decode-cached-tokens': 0.98, 'engine-local': 0.1, 'engine-external': 0.9 }), []],
    ['nothing comes over the handoff', hits('decode', { 'engine-external': 0.01, 'by-source': 0.1 }), [['hits_no_external', 'engine-external', 'by-source', 0.01, 0.1]]],
    ['something does', hits('decode', { 'engine-external': 0.5, 'by-source': 0.5 }), []],
    ['prefill queries its connector in vain, as it should', hits('prefill', { 'engine-external': 0, 'engine-local': 0.5 }), []],
    ['both roles in one counter', hits('both', { index: 0.9, 'by-source': 0.1, 'engine-external': 0 }), []],
    ['too few tokens', hits('prefill', { index: 1, 'by-source': 0 }, 999), []],
  ])('%s', (_what, one, expected) => {
    expect(found(one)).toEqual(expected);
  });

  it('expects nothing of a handoff where no prefill ran', () => {
    expect(found(hits('decode', { 'engine-external': 0, 'engine-local': 0.1 }), { hasPrefill: false })).toEqual([]);
  });

  it('compares rates of the same requests only, by their prompt tokens', () => {
    const apart = (answers: number): InstanceHits => {
      const one = hits('prefill', { 'prefill-cached-tokens': 0.9, 'by-source': 0.2, index: 0.9 });
      return { ...one, hits: { ...one.hits, 'prefill-cached-tokens': { hitTokens: answers * 0.9, queryTokens: answers }, index: { hitTokens: answers * 0.9, queryTokens: answers } } };
    };
    expect([14_000, 13_000, 7500, 7000].map((answers) => found(apart(answers)))).toEqual([
      [],
      [['hits_promised_but_computed', 'index', 'by-source', 0.9, 0.2], ['hits_answers_more', 'prefill-cached-tokens', 'by-source', 0.9, 0.2]],
      [['hits_promised_but_computed', 'index', 'by-source', 0.9, 0.2], ['hits_answers_more', 'prefill-cached-tokens', 'by-source', 0.9, 0.2]],
      // Fewer answers than the engine counted prompts: other requests. That fewer were explained is no news.
      [['hits_other_requests', 'prefill-cached-tokens', 'by-source', 0.9, 0.2]],
    ]);
  });

  it('explains in words', () => {
    const [more] = reconcile(hits('decode', { 'decode-cached-tokens': 0.98, 'by-source': 0.1 }), { tolerance: 0.15, hasPrefill: true });
    expect(more?.meaning).toContain('cached_tokens of answers are more than the engine’s own counters');
  });
});

describe('findings of disagreements', () => {
  const one = (instance: string, code = 'a'): Disagreement => ({
    instance: instance as InstanceId, instanceName: instance.toUpperCase(), left: 'index', right: 'by-source', leftRate: 0.8, rightRate: 0.3251,
    code, severity: 'warning', title: 'T', meaning: 'M.', nextStep: 'N',
  });

  it('come after three looks in a row, once, and again only after six looks without', () => {
    const findings = new Findings();
    const watch = new DisagreementWatch(findings);
    const counts = (): readonly unknown[] => findings.list().findings.map(({ instance, count }) => [instance, count]);
    watch.look([one('p0')], [one('p0')]);
    watch.look([one('p0')], [one('p0')]);
    watch.look([], []);
    watch.look([one('p0')], [one('p0')]);
    watch.look([one('p0')], [one('p0')]);
    expect(counts()).toEqual([]);
    watch.look([one('p0'), one('p1')], [one('p0'), one('p1')]);
    expect(counts()).toEqual([['p0', 1]]);
    expect(findings.list().findings[0]).toMatchObject({ code: 'a', severity: 'warning', instanceName: 'P0', nextStep: 'N', evidence: [{ message: 'P0: 80 % by its KV events, 32.5 % by prompt_tokens_by_source. M.' }] });
    // Near the limit: open ones stay open, and nothing is said again.
    for (let look = 0; look < 20; look += 1) {
      watch.look(look % 4 === 0 ? [one('p0')] : [], [one('p0')]);
      for (let gap = 0; gap < 5; gap += 1) watch.look([], []);
    }
    expect(counts()).toEqual([['p0', 1]]);
    expect(findings.list().summary.open).toMatchObject({ warning: 1 });
    watch.look([], []);
    // Over: it closes by itself, and is kept.
    expect(counts()).toEqual([]);
    expect(findings.list({ all: true }).findings).toMatchObject([{ instance: 'p0', isDismissed: true, overAtUnixMs: expect.any(Number) as number }]);
    for (let look = 0; look < 3; look += 1) watch.look([one('p0')], [one('p0')]);
    expect(counts()).toEqual([['p0', 2]]);
  });
});

/** Cache hits by source, routing by prefix and raw frames, through the engine's operations over simulated engines. */
import { afterEach, expect, it } from 'vitest';
import type { CacheHits, HitSource } from '#shared/cache.ts';
import { createEngine, type Engine } from '#engine/engine.ts';
import { waitFor } from './wait-for.ts';

const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function demo(policy: 'prefix-aware' | 'round-robin' = 'prefix-aware'): Promise<Engine> {
  const engine = await createEngine({
    version: 'test', host: 'headless', proxy: { port: 0 }, policy,
    protocol: { tokenizeDeadlineMs: 10_000 },
    demo: { prefill: 2, decode: 1, requestsPerSecond: 20 },
  });
  closers.unshift(() => engine.close());
  return engine;
}

const whole = (answer: CacheHits, source: HitSource, instanceName?: string): { readonly hitTokens: number; readonly queryTokens: number } | undefined =>
  answer.series.find((one) => one.source === source && one.instanceName === instanceName)?.whole;

it('tells hits of every source, and sums of parts are the fleet', async () => {
  const engine = await demo();
  const sources: readonly HitSource[] = ['engine-local', 'engine-external', 'by-source', 'prefill-cached-tokens', 'decode-cached-tokens', 'index'];
  const answer = await waitFor(
    'every source has spoken',
    async () => {
      const hits = await engine.call('cache.hits', {});
      return sources.every((source) => whole(hits, source) !== undefined) && hits;
    },
  );
  expect(answer).toMatchObject({ windowS: 300, stepS: 5 });
  for (const source of sources) {
    const fleet = whole(answer, source);
    const parts = answer.series.filter((one) => one.source === source && one.instance !== undefined);
    expect(parts.reduce((sum, one) => sum + (one.whole?.queryTokens ?? 0), 0)).toBe(fleet?.queryTokens);
    expect(parts.reduce((sum, one) => sum + (one.whole?.hitTokens ?? 0), 0)).toBe(fleet?.hitTokens);
    for (const { points } of parts) expect(points.every(({ hitTokens, queryTokens }) => queryTokens > 0 && hitTokens <= queryTokens)).toBe(true);
  }
  // Decode pulls nearly everything: to its counters that is external, to its answers cached.
  const { hitTokens = 0, queryTokens = 1 } = whole(answer, 'decode-cached-tokens', 'D0') ?? {};
  expect(hitTokens / queryTokens).toBeGreaterThan(0.5);
  expect(whole(answer, 'prefill-cached-tokens', 'D0')).toBeUndefined();
  expect(answer.series.find(({ source }) => source === 'index')?.confidence?.value).toBeGreaterThan(0);
});

it('routes the demo by prefix, with what every candidate held in the record', async () => {
  const engine = await demo();
  const detail = await waitFor(
    'a request went where its prefix is',
    async () => {
      for (const { id } of Array.from(engine.requests.rows()).filter(({ state }) => state === 'ok')) {
        const found = await engine.call('requests.get', { id });
        const decision = found.decisions.find(({ kind }) => kind === 'prefill');
        if (decision?.degraded === undefined && decision?.candidates.some(({ matchedTokens = 0 }) => matchedTokens > 0) === true) return found;
      }
      return undefined;
    },
  );
  const decision = detail.decisions.find(({ kind }) => kind === 'prefill');
  expect(decision).toMatchObject({ policy: 'prefix-aware', tokensFrom: 'tokenize', promptTokens: detail.row.promptTokens });
  expect(decision?.candidates).toHaveLength(2);
  expect(detail.legs[0]).toMatchObject({ kind: 'render', outcome: 'ok', url: expect.stringMatching(/\/tokenize$/u) as string });
  expect(detail.row.phases.map(({ phase }) => phase)).toContain('render');
  const [stored] = Array.from(engine.kv.rows()).filter(({ kind }) => kind === 'stored').slice(-1);
  const frames = await engine.call('kv.frames', { n: stored?.n });
  expect(frames).toMatchObject({ n: stored?.n, stream: stored?.stream, seq: stored?.seq });
  expect(frames.decoded).toContain('BlockStored');
});

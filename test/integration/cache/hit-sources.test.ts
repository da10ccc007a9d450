/** Hits by source over simulated engines that lie, restart, or lack a counter. */
import { expect, test } from 'vitest';
import type { CacheHits, HitSource } from '#shared/cache.ts';
import { waitFor } from '../engine/wait-for.ts';
import { startCacheCluster, words, type CacheCluster } from './cache-cluster.ts';

const ask = (stem: string): object => ({ messages: [{ role: 'user', content: words(150, stem) }] });
const hitsOf = (cluster: CacheCluster): Promise<CacheHits> => cluster.engine.call('cache.hits', { windowS: 60 });

function sourcesOf({ series }: CacheHits, name: string): ReadonlySet<HitSource> {
  return new Set(series.filter(({ instanceName }) => instanceName === name).map(({ source }) => source));
}

async function whenScraped(cluster: CacheCluster): Promise<void> {
  await waitFor('every instance was scraped', () => cluster.engine.state().instances.every(({ engine }) => engine !== undefined));
}

test('cached_tokens that are not true disagree with the counters, until true answers outweigh them', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill' }, D0: { role: 'decode' } });
  await whenScraped(cluster);
  await cluster.sim('P0').setFault('wrong-cached-tokens');
  for (const stem of ['a', 'b', 'c', 'd', 'e']) await cluster.chat(ask(stem));
  const [found] = await waitFor('answers and counters are in', async () => {
    const { disagreements } = await hitsOf(cluster);
    return disagreements.some(({ right }) => right === 'by-source') ? disagreements : undefined;
  });
  expect(found).toMatchObject({ instanceName: 'P0', left: 'prefill-cached-tokens', right: 'by-source', leftRate: 1, meaning: expect.stringContaining('more than the engine’s own counters') as string });
  expect(found?.rightRate).toBeLessThan(0.5);
  // Decode calls cached what it fetched, and that is what its engine counted.
  const { series, disagreements } = await hitsOf(cluster);
  expect(disagreements).toHaveLength(1);
  expect(series.find(({ source, instanceName }) => source === 'decode-cached-tokens' && instanceName === 'D0')?.whole?.hitTokens).toBeGreaterThan(500);
  await cluster.sim('P0').setFault('none');
  let sent = 0;
  await waitFor('true answers outweigh the lies', async () => {
    sent += 1;
    await cluster.chat(ask(`t${sent}x`));
    return sent > 3 && (await hitsOf(cluster)).disagreements.length === 0;
  });
});

test('an engine without a counter has no such source, rather than one of 0', async () => {
  const hiddenMetrics = ['vllm:prompt_tokens_by_source_total', 'vllm:external_prefix_cache_hits_total'];
  await using cluster = await startCacheCluster({ P0: { role: 'prefill', hiddenMetrics }, D0: { role: 'decode', hiddenMetrics, promptTokensDetails: false } });
  await whenScraped(cluster);
  await cluster.why(await cluster.chat(ask('a')));
  const hits = await waitFor('the counters are in', async () => {
    const found = await hitsOf(cluster);
    return sourcesOf(found, 'P0').has('engine-local') && sourcesOf(found, 'D0').has('engine-local') ? found : undefined;
  });
  expect([...sourcesOf(hits, 'P0')].sort()).toEqual(['engine-local', 'index', 'prefill-cached-tokens']);
  expect([...sourcesOf(hits, 'D0')]).toEqual(['engine-local']);
  const { handoff, transferredTokens } = await cluster.engine.call('cache.difference', {});
  expect([handoff?.received, transferredTokens]).toEqual([undefined, undefined]);
});

test('counters that begin anew with a restarted engine take nothing away', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill' }, D0: { role: 'decode' } });
  await whenScraped(cluster);
  const first = await cluster.why(await cluster.chat(ask('a')));
  const queried = (hits: CacheHits): number => hits.series.find(({ source, instanceName }) => source === 'engine-local' && instanceName === 'P0')?.whole?.queryTokens ?? 0;
  await waitFor('the first prompt is counted', async () => queried(await hitsOf(cluster)) === first.promptTokens);
  await cluster.sim('P0').setFault('restart');
  // Refused until the engine is back; what was refused was counted nowhere.
  const second = await cluster.why(await waitFor('the restarted engine serves again', () => cluster.chat(ask('b')).catch(() => undefined)));
  const both = (first.promptTokens ?? 0) + (second.promptTokens ?? 0);
  const hits = await waitFor('both prompts are counted', async () => {
    const found = await hitsOf(cluster);
    return queried(found) >= both ? found : undefined;
  });
  expect(queried(hits)).toBe(both);
  expect(hits.disagreements).toEqual([]);
});

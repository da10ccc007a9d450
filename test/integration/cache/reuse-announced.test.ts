/** Reuse that engines announce because a request asked for it is told apart from copies, whoever asked. */
import { expect, test } from 'vitest';
import { waitFor } from '../engine/wait-for.ts';
import { startCacheCluster, words, type CacheCluster } from './cache-cluster.ts';

const FULL = { vllm_xargs: { kv_cache_report_mode: 'full' } };
const ask = (stem: string): object => ({ messages: [{ role: 'system', content: words(60, 'rule') }, { role: 'user', content: words(40, stem) }] });

async function reuse(cluster: CacheCluster): Promise<{ readonly announced: number; readonly copies: number; readonly again: number | undefined }> {
  const stream = await waitFor('events of both requests are in', () => {
    const found = cluster.engine.state().streams.find(({ instanceName }) => instanceName === 'D0');
    return (found?.announcedBlocks ?? 0) + (found?.duplicateStores ?? 0) > 0 ? found : undefined;
  });
  const { handoff } = await cluster.engine.call('cache.difference', {});
  return { announced: stream.announcedBlocks ?? 0, copies: stream.duplicateStores ?? 0, again: handoff?.again?.blocks };
}

test.each([
  ['a client asks for it itself', {}, FULL],
  ['the setting is on', { protocol: { reportCache: true } }, {}],
] as const)('reuse is announced, and no copy, when %s', async (_, options, extra) => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill' }, D0: { role: 'decode' } }, options);
  await cluster.chat(ask('a'));
  await cluster.chat({ ...ask('a'), ...extra });
  const { announced, copies, again } = await reuse(cluster);
  expect(announced).toBeGreaterThan(3);
  expect([copies, again]).toEqual([0, 0]);
});

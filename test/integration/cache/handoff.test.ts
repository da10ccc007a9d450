/** What the handoff moved, and what decode had of it, over simulated engines of each kind of protocol. */
import { expect, test } from 'vitest';
import type { CacheDifference } from '#shared/cache.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { waitFor } from '../engine/wait-for.ts';
import { startCacheCluster, words, type CacheCluster, type SimsByName } from './cache-cluster.ts';

const BYTES = 147_456;

async function measured(cluster: CacheCluster, isThere: (difference: CacheDifference) => boolean): Promise<CacheDifference> {
  return waitFor('the scrapes and events of the handoff are in', async () => {
    const found = await cluster.engine.call('cache.difference', {});
    return isThere(found) ? found : undefined;
  });
}

/** Counters are grown between two scrapes: the first must have been. */
async function whenScraped(cluster: CacheCluster): Promise<void> {
  await waitFor('every instance was scraped', () => cluster.engine.state().instances.every(({ engine }) => engine !== undefined));
}

const ask = (stem: string): object => ({ messages: [{ role: 'system', content: words(60, 'rule') }, { role: 'user', content: words(40, stem) }] });

test.each<readonly [ConnectorName, 'nixl' | 'nixl-push']>([['nixl', 'nixl'], ['nixl-push', 'nixl-push']])('%s: decode receives what it lacks, and nothing that it had', async (connector, transfer) => {
  const sims: SimsByName = { P0: { role: 'prefill', transfer }, D0: { role: 'decode', transfer } };
  await using cluster = await startCacheCluster(sims, { connector });
  await whenScraped(cluster);
  const first = await cluster.why(await cluster.chat(ask('a')));
  const second = await cluster.why(await cluster.chat(ask('b')));
  const prompts = (first.promptTokens ?? 0) + (second.promptTokens ?? 0);
  const difference = await measured(cluster, ({ handoff }) => handoff?.legs.known === 2 && (handoff.received?.tokens ?? 0) > (first.promptTokens ?? 0));
  const { legs, received, again } = difference.handoff ?? {};
  expect(legs).toMatchObject({ fetching: 2, known: 2, promptTokens: prompts });
  // The second prompt begins like the first; what is held is a beginning of whole blocks.
  expect(legs?.heldTokens).toBeGreaterThan(0);
  expect((legs?.heldTokens ?? 0) % 16).toBe(0);
  // All witnesses agree: what was not held was received, but for the last token of each prompt, which is computed.
  expect(received).toMatchObject({ tokens: prompts - (legs?.heldTokens ?? 0) - 2, from: 'prompt_tokens_by_source', instances: 1, bytesFrom: 'nixl' });
  expect(again).toMatchObject({ blocks: 0, tokens: 0 });
  expect(difference).toMatchObject({ redundantTokens: 0, transferredTokens: received?.tokens, handoff: { resends: 'missing', connectors: [connector] } });
  expect(difference.rightBytes).toMatchObject({ bytesPerToken: BYTES, from: 'server-info' });
});

test('two requests with the same beginning at once are fetched twice, and the second copy is counted', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill' }, D0: { role: 'decode', timing: { transferBaseMs: 20_000 } } });
  await whenScraped(cluster);
  await Promise.all([cluster.chat(ask('a')), cluster.chat(ask('a'))]);
  const difference = await measured(cluster, ({ handoff, redundantTokens }) => (handoff?.again?.blocks ?? 0) > 0 && (redundantTokens ?? 0) > 0 && (handoff?.received?.tokens ?? 0) > 200);
  expect(difference.redundantTokens).toBe((difference.handoff?.again?.blocks ?? 0) * 16);
  expect(difference.redundantTokens).toBeGreaterThan(100);
  // Held on D twice and on P once or twice.
  expect(difference.both.copies).toBeGreaterThan(difference.both.blocks * 2);
});

test('given sizes win, and engines that tell nothing leave sizes unknown', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill', devMode: false }, D0: { role: 'decode', devMode: false } });
  await cluster.why(await cluster.chat(ask('a')));
  const bare = await cluster.engine.call('cache.difference', {});
  expect([bare.leftBytes, bare.both.bytes, bare.both.copyBytes]).toEqual([undefined, undefined, undefined]);
  const { url } = cluster.sim('D0');
  await cluster.engine.call('instance.remove', { id: cluster.id('D0') });
  const { kvEvents } = cluster.sim('D0');
  await cluster.engine.call('instance.add', { role: 'decode', url, name: 'D9', kvBytesPerToken: 1000, ...(kvEvents !== undefined && { kvEvents }) });
  await waitFor('D9 tells what it holds', async () => (await cluster.engine.call('cache.difference', {})).both.blocks > 0);
  const { both, leftBytes, rightBytes } = await cluster.engine.call('cache.difference', {});
  expect([leftBytes, rightBytes]).toEqual([undefined, { bytesPerToken: 1000, from: 'setting', detail: 'given with D9' }]);
  expect([both.bytes, both.copyBytes]).toEqual([both.tokens * 1000, undefined]);
});

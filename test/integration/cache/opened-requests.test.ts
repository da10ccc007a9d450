/** Requests beyond what is explained by itself: explained when somebody opens them, as of the time they were scheduled. */
import { expect, test } from 'vitest';
import { kinds, MODEL, startCacheCluster, words, type CacheCluster } from './cache-cluster.ts';

const PAIR = { P0: { role: 'prefill' }, D0: { role: 'decode' } } as const;
/** Instances are asked for nothing that nobody opens. */
const NONE = { explainCalls: { perSecond: 0, burst: 0 } };
const ask = (text: string): object => ({ messages: [{ role: 'user', content: text }] });
const rendered = (cluster: CacheCluster): number => ['P0', 'D0'].flatMap((name) => cluster.sim(name).received).filter(({ path }) => path.endsWith('/render')).length;

/** Waits until it was decided that a request is left to whoever opens it; asking for the causes opens nothing. */
async function left(cluster: CacheCluster, count: number): Promise<void> {
  await expect.poll(async () => (await cluster.engine.call('cache.misses', {})).openable, { timeout: 60_000 }).toBe(count);
}

test('what is opened later is explained as of when it was scheduled, once, and counts in no sum', async () => {
  await using cluster = await startCacheCluster(PAIR, NONE);
  const first = await cluster.chat(ask(words(61, 'a')));
  const second = await cluster.chat(ask(words(61, 'a')));
  const third = await cluster.chat(ask(`${words(40, 'a')} ${words(21, 'b')}`));
  await left(cluster, 3);
  expect(rendered(cluster)).toBe(0);
  expect(await cluster.engine.call('cache.misses', {})).toMatchObject({ requests: 0, of: 3, opened: 0, openable: 3, unexplained: [{ requests: 3, reason: expect.stringContaining('when it is opened') }] });
  // The latest first: what it and the others stored since is known now, and was not then.
  const reports = [await cluster.why(third), await cluster.why(second), await cluster.why(first)];
  expect(reports.map(kinds)).toEqual([['hit', 'diverges', 'partial-block'], ['hit', 'partial-block'], ['never-stored', 'partial-block']]);
  for (const report of reports) expect(report).toMatchObject({ state: 'ready', isOpened: true, tokensFrom: 'render', stream: 'p0/0' });
  expect(reports[0]?.ranges[0]?.tokens).toBe(reports[0]?.reportedCachedTokens);
  expect(reports[2]?.reportedCachedTokens).toBe(0);
  expect(rendered(cluster)).toBe(3);
  expect(await cluster.why(first)).toEqual(reports[2]);
  expect(rendered(cluster)).toBe(3);
  expect(await cluster.engine.call('cache.misses', {})).toMatchObject({ requests: 0, of: 3, opened: 3, openable: 0, missedTokens: 0, causes: [] });
});

test('one answer of the operation brings the report, where the engines are quick', async () => {
  await using cluster = await startCacheCluster(PAIR, NONE);
  const row = await cluster.chat(ask(words(61, 'a')));
  await left(cluster, 1);
  const reports = await Promise.all([cluster.why(row), cluster.why(row)]);
  expect(reports.map(({ state }) => state)).toEqual(['ready', 'ready']);
  expect(rendered(cluster)).toBe(1);
});

test('prompts whose token ids came with them are explained by themselves, whatever may be asked', async () => {
  await using cluster = await startCacheCluster(PAIR, NONE);
  const tokens = Array.from({ length: 40 }, (_, at) => 500 + at);
  const completion = await cluster.why(await cluster.send('/v1/completions', { prompt: tokens, max_tokens: 2 }));
  expect(completion).toMatchObject({ state: 'ready', tokensFrom: 'request' });
  expect(completion.isOpened).toBeUndefined();
  const generate = await cluster.why(await cluster.send('/inference/v1/generate', { model: MODEL, token_ids: tokens, sampling_params: { max_tokens: 2 } }));
  expect(generate).toMatchObject({ state: 'ready', tokensFrom: 'request' });
  expect(kinds(generate)).toEqual(['hit', 'partial-block']);
  expect(await cluster.engine.call('cache.misses', {})).toMatchObject({ requests: 2, of: 2, opened: 0 });
});

test('switched off, prompts kept for whoever opens their requests are let go', async () => {
  await using cluster = await startCacheCluster(PAIR, NONE);
  const row = await cluster.chat(ask(words(61, 'a')));
  await left(cluster, 1);
  await cluster.engine.call('explain.set', { isOn: false });
  expect(await cluster.why(row)).toMatchObject({ state: 'unavailable', ranges: [], reason: expect.stringContaining('switched off') });
  expect((await cluster.engine.call('cache.misses', {})).openable).toBe(0);
});

test('an engine that cannot tell the tokens is a reason, and the prompt stays', async () => {
  await using cluster = await startCacheCluster(PAIR, NONE);
  const row = await cluster.chat(ask(words(61, 'a')));
  await left(cluster, 1);
  await cluster.engine.call('instance.remove', { id: cluster.id('P0'), force: true });
  expect(await cluster.why(row)).toMatchObject({ state: 'unavailable', reason: 'P0 has no KV event stream, so nothing is known of its cache' });
  expect((await cluster.engine.call('cache.misses', {})).openable).toBe(1);
});

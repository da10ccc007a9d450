/** Prompts whose tokens no instance can tell: read from what their instance stored, or the reason why not. */
import { expect, test } from 'vitest';
import type { MissReport } from '#shared/cache.ts';
import { waitFor } from '../engine/wait-for.ts';
import { kinds, MODEL, startCacheCluster, words, type CacheCluster } from './cache-cluster.ts';

const BARE = { textRoutes: false } as const;
const PAIR = { P0: { role: 'prefill', ...BARE }, D0: { role: 'decode', ...BARE } } as const;
const ask = (text: string): object => ({ messages: [{ role: 'user', content: text }] });
const hitTokens = ({ ranges }: MissReport): number => ranges.reduce((sum, { kind, tokens }) => sum + (kind === 'hit' ? tokens : 0), 0);

/** Lets chat requests in when `count` are there. */
function together(count: number): (request: { readonly path: string }) => Promise<void> {
  let here = 0;
  let open = (): void => undefined;
  const all = new Promise<void>((resolve) => {
    open = resolve;
  });
  return async ({ path }) => {
    if (path !== '/v1/chat/completions') return;
    here += 1;
    if (here === count) open();
    await all;
  };
}

async function explained(cluster: CacheCluster, body: object): Promise<MissReport> {
  return cluster.why(await cluster.chat(body));
}

test('without render and /tokenize: never stored, then what is shared and where it diverges, as the engine found', async () => {
  await using cluster = await startCacheCluster(PAIR);
  const first = await explained(cluster, ask(`${words(60, 'a')} ${words(20, 'b')}`));
  expect(first).toMatchObject({ state: 'ready', tokensFrom: 'events', stream: 'p0/0', reportedCachedTokens: 0 });
  expect(kinds(first)).toEqual(['never-stored', 'partial-block']);
  const length = first.promptTokens ?? 0;
  const known = Math.floor(length / 16) * 16;
  expect(first.tokensNote).toBe(`the prompt's first ${known} tokens are known; the last ${length - known} fill no block, so no event tells them`);
  expect(first.ranges.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(length);
  const second = await explained(cluster, ask(`${words(60, 'a')} ${words(20, 'c')}`));
  expect(kinds(second)).toEqual(['hit', 'diverges', 'partial-block']);
  expect(hitTokens(second)).toBeGreaterThan(64);
  expect(hitTokens(second)).toBe(second.reportedCachedTokens);
  expect(second.ranges[1]?.diverges?.asked.tokens).not.toEqual(second.ranges[1]?.diverges?.held.tokens);
  expect(second.matches.find(({ wasChosen }) => wasChosen)?.tokens).toBe(hitTokens(second));
});

test('a prompt found whole stores nothing, so nothing tells its tokens; the reason says so', async () => {
  await using cluster = await startCacheCluster(PAIR);
  await explained(cluster, ask(words(61, 'a')));
  const again = await explained(cluster, ask(words(61, 'a')));
  expect(again).toMatchObject({ state: 'unavailable', reason: expect.stringMatching(/^no instance has \/tokenize; nor do the events that followed: the engine found \d+ of \d+ tokens in its cache, all that can be/u) });
});

test('salt and media come with the blocks', async () => {
  await using cluster = await startCacheCluster(PAIR);
  await explained(cluster, { ...ask(words(61, 'a')), cache_salt: 'tenant-1' });
  const salted = await explained(cluster, { ...ask(words(61, 'a')), cache_salt: 'tenant-2' });
  expect(kinds(salted)).toEqual(['other-key', 'partial-block']);
  expect(salted.ranges[0]?.key).toEqual({ what: 'salt', asked: 'tenant-2', held: 'tenant-1' });
  const look = (picture: string): object => ({ messages: [{ role: 'user', content: [{ type: 'text', text: words(20, 'a') }, { type: 'image_url', image_url: { url: `https://example.com/${picture}.png` } }, { type: 'text', text: words(20, 'b') }] }] });
  await explained(cluster, look('cat'));
  const other = await explained(cluster, look('dog'));
  expect(other.tokensFrom).toBe('events');
  expect(kinds(other)).toEqual(['hit', 'other-key', 'partial-block']);
  expect(hitTokens(other)).toBe(other.reportedCachedTokens);
});

test('two prompts of one length at the same time: neither is guessed, where nothing tells them apart', async () => {
  await using cluster = await startCacheCluster({ P0: { ...PAIR.P0, gate: together(2) }, D0: PAIR.D0 });
  const rows = await Promise.all([cluster.chat(ask(words(61, 'a'))), cluster.chat(ask(words(61, 'b')))]);
  for (const row of rows) {
    const report = await cluster.why(row);
    expect(report).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('2 prompts of the same length were stored on the instance meanwhile') });
  }
});

test('of two prompts at the same time, their lengths tell which is which', async () => {
  await using cluster = await startCacheCluster({ P0: { ...PAIR.P0, gate: together(2) }, D0: PAIR.D0 });
  const rows = await Promise.all([cluster.chat(ask(words(61, 'a'))), cluster.chat(ask(words(150, 'b')))]);
  const [short, long] = await Promise.all(rows.map(async (row) => cluster.why(row)));
  expect([short, long]).toMatchObject([{ tokensFrom: 'events' }, { tokensFrom: 'events' }]);
  expect(long?.promptTokens).toBeGreaterThan((short?.promptTokens ?? 0) + 64);
});

test('/v1/responses, which no engine renders: whole answers and streams, told by usage where the prompt ends', async () => {
  await using cluster = await startCacheCluster({ B0: { role: 'both' } }, { connector: 'aggregated' });
  const first = await cluster.why(await cluster.send('/v1/responses', { model: MODEL, input: `${words(60, 'a')} ${words(20, 'b')}`, max_output_tokens: 40 }));
  expect(first).toMatchObject({ state: 'ready', tokensFrom: 'events', instanceName: 'B0', reportedCachedTokens: 0 });
  expect(kinds(first)).toEqual(['never-stored', 'partial-block']);
  const second = await cluster.why(await cluster.send('/v1/responses', { model: MODEL, input: `${words(60, 'a')} ${words(20, 'c')}`, max_output_tokens: 40, stream: true }));
  expect(kinds(second)).toEqual(['hit', 'diverges', 'partial-block']);
  expect(hitTokens(second)).toBe(second.reportedCachedTokens);
  expect(second.ranges[1]?.diverges?.asked.text).toContain('c0');
  const misses = await cluster.engine.call('cache.misses', {});
  expect(misses).toMatchObject({ requests: 2, unexplained: [] });
});

test('other routes that are passed on whole have no prompt to explain', async () => {
  await using cluster = await startCacheCluster({ B0: { role: 'both' } }, { connector: 'aggregated' });
  expect(await cluster.why(await cluster.send('/tokenize', { prompt: 'hello' }))).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('passed on whole') });
});

test('tokens that routing had are not asked for again, and every request counts for the hit rate of the index', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill' }, P1: { role: 'prefill' }, D0: { role: 'decode' } }, { policy: 'prefix-aware', protocol: { tokenizeDeadlineMs: 5000 } });
  // Nobody holds anything yet, so routing asks nobody; explaining does.
  expect(await explained(cluster, ask(words(61, 'z')))).toMatchObject({ tokensFrom: 'render' });
  const report = await explained(cluster, ask(`${words(61, 'z')} ${words(9, 'y')}`));
  expect(report).toMatchObject({ state: 'ready', tokensFrom: 'tokenize' });
  expect(kinds(report)[0]).toBe('hit');
  const asked = ['P0', 'P1', 'D0'].flatMap((name) => cluster.sim(name).received).map(({ path }) => path).filter((path) => path.endsWith('/tokenize') || path.endsWith('/render'));
  expect(asked.toSorted()).toEqual(['/tokenize', '/v1/chat/completions/render']);
  const sample = await waitFor('the instances are counted', async () => {
    await cluster.chat(ask('hello'));
    const hits = await cluster.engine.call('cache.hits', { windowS: 60, stepS: 5 });
    return hits.series.find(({ source, instance }) => source === 'index' && instance === undefined)?.sample;
  });
  expect(sample.requests).toBeGreaterThan(0);
  expect(sample.requests).toBe(sample.of);
});

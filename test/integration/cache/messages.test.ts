/**
 * `/v1/messages` (Anthropic's) over a P/D pair: no protocol hands it over, so it is passed on whole to an instance that
 * computes whole requests; it is recorded as such, and explained from what that instance stored.
 */
import { expect, test } from 'vitest';
import type { MissReport } from '#shared/cache.ts';
import { kinds, startCacheCluster, words } from './cache-cluster.ts';

const MESSAGES = '/v1/messages';
const ask = (text: string, more: object = {}): object => ({ max_tokens: 20, messages: [{ role: 'user', content: text }], ...more });
const hitTokens = ({ ranges }: MissReport): number => ranges.reduce((sum, { kind, tokens }) => sum + (kind === 'hit' ? tokens : 0), 0);

test('passed on whole to the decode instance, recorded with tokens, finish and why it went there, and explained', async () => {
  await using cluster = await startCacheCluster(
    { P0: { role: 'prefill', transfer: 'nixl' }, D0: { role: 'decode', transfer: 'nixl' } },
    { connector: 'nixl' },
  );
  const whole = await cluster.send(MESSAGES, ask(`${words(60, 'a')} ${words(20, 'b')}`));
  const streamed = await cluster.send(MESSAGES, ask(`${words(60, 'a')} ${words(20, 'c')}`, { stream: true }));
  expect(cluster.sim('P0').received.filter(({ path }) => path === MESSAGES)).toEqual([]);
  const bodies = cluster.sim('D0').received.filter(({ path }) => path === MESSAGES).map(({ body }) => JSON.parse(body.toString()) as object);
  expect(bodies.map((body) => 'kv_transfer_params' in body)).toEqual([false, false]);
  for (const row of [whole, streamed]) {
    expect(row).toMatchObject({ api: 'forward', path: MESSAGES, state: 'ok', status: 200, completionTokens: 20, route: [{ kind: 'forward', name: 'D0' }] });
    expect(row.promptTokens).toBeGreaterThan(160);
    const { legs, decisions } = await cluster.engine.call('requests.get', { id: row.id });
    expect(legs.map(({ kind, finishReason }) => [kind, finishReason])).toEqual([['forward', 'max_tokens']]);
    expect(decisions[0]?.excluded).toEqual([{ instance: cluster.id('P0'), name: 'P0', reason: `role prefill: ${MESSAGES} generates a whole answer` }]);
  }
  const first = await cluster.why(whole);
  expect(first).toMatchObject({ state: 'ready', tokensFrom: 'events', instanceName: 'D0', promptTokens: whole.promptTokens, reportedCachedTokens: 0 });
  expect(kinds(first)).toEqual(['never-stored', 'partial-block']);
  const second = await cluster.why(streamed);
  expect(kinds(second)).toEqual(['hit', 'diverges', 'partial-block']);
  expect(hitTokens(second)).toBeGreaterThan(64);
  // Input tokens of the Messages API are those that were not cached; all of the prompt is what the record tells.
  expect([second.reportedCachedTokens, second.promptTokens]).toEqual([hitTokens(second), streamed.promptTokens]);
  expect(second.ranges[1]?.diverges?.asked.text).toContain('c0');
});

test('an engine that tells no cached tokens: explained all the same, as nobody else stored blocks meanwhile', async () => {
  await using cluster = await startCacheCluster({ B0: { role: 'both', promptTokensDetails: false } }, { connector: 'aggregated' });
  await cluster.why(await cluster.send(MESSAGES, ask(words(61, 'a'))));
  const report = await cluster.why(await cluster.send(MESSAGES, ask(`${words(61, 'a')} ${words(30, 'b')}`)));
  expect(report).toMatchObject({ state: 'ready', tokensFrom: 'events' });
  expect(report).not.toHaveProperty('reportedCachedTokens');
  expect(kinds(report)).toEqual(['hit', 'diverges', 'partial-block']);
});

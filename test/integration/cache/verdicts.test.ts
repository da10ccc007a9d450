/** Every verdict of a miss, over simulated engines that do what it is about. */
import { expect, test } from 'vitest';
import { waitFor } from '../engine/wait-for.ts';
import { kinds, MODEL, startCacheCluster, words } from './cache-cluster.ts';

const PAIR = { P0: { role: 'prefill' }, D0: { role: 'decode' } } as const;
const ask = (text: string): object => ({ messages: [{ role: 'user', content: text }] });

test('never stored, then a hit up to the last partial block, next to what the engine itself reported', async () => {
  await using cluster = await startCacheCluster(PAIR);
  const first = await cluster.why(await cluster.chat(ask(words(61, 'a'))));
  expect(first).toMatchObject({ state: 'ready', tokensFrom: 'render', instanceName: 'P0', stream: 'p0/0', blockSize: 16, reportedCachedTokens: 0, confidence: { value: expect.any(Number) } });
  expect(kinds(first)).toEqual(['never-stored', 'partial-block']);
  const second = await cluster.why(await cluster.chat(ask(words(61, 'a'))));
  expect(kinds(second)).toEqual(['hit', 'partial-block']);
  const [hit] = second.ranges;
  expect(hit?.tokens).toBe(Math.floor(((second.promptTokens ?? 0) - 1) / 16) * 16);
  expect(second.reportedCachedTokens).toBe(hit?.tokens);
  expect(second.matches.find(({ wasChosen }) => wasChosen)).toMatchObject({ instanceName: 'P0', role: 'prefill', tokens: hit?.tokens });
  expect(second.confidence.value).toBe(1);
});

test('evicted from a small cache, with what displaced it', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill', blocks: 40 }, D0: { role: 'decode' } });
  await cluster.chat(ask(words(61, 'a')));
  for (const stem of ['b', 'c', 'd']) {
    await waitFor('no block is pinned', () => cluster.sim('P0').stats().pinnedBlocks === 0);
    await cluster.chat(ask(words(100, stem)));
  }
  await waitFor('no block is pinned', () => cluster.sim('P0').stats().pinnedBlocks === 0);
  const report = await cluster.why(await cluster.chat(ask(words(61, 'a'))));
  const evicted = report.ranges.find(({ kind }) => kind === 'evicted');
  expect(evicted).toMatchObject({ evictedAtUnixMs: expect.any(Number), message: expect.stringContaining('displaced by block') });
  expect(evicted?.evictedAtUnixMs).toBeLessThan(report.atUnixMs ?? 0);
  expect(kinds(report)).not.toContain('never-stored');
});

test('stored on another instance', async () => {
  await using cluster = await startCacheCluster({ ...PAIR, P1: { role: 'prefill' } });
  await cluster.engine.call('instance.disable', { id: cluster.id('P1') });
  await cluster.chat(ask(words(61, 'a')));
  await cluster.engine.call('instance.enable', { id: cluster.id('P1') });
  await cluster.engine.call('instance.disable', { id: cluster.id('P0') });
  await waitFor('P1 is up', () => cluster.engine.state().instances.find(({ name }) => name === 'P1')?.state === 'up');
  const report = await cluster.why(await cluster.chat(ask(words(61, 'a'))));
  expect(report.instanceName).toBe('P1');
  expect(kinds(report)).toEqual(['elsewhere', 'partial-block']);
  expect(report.ranges[0]?.elsewhere?.map(({ instanceName }) => instanceName)).toEqual(['D0', 'P0']);
  const { block } = report.ranges[0] ?? {};
  expect(block).toMatchObject({ stream: expect.stringMatching(/^(?:d0|p0)\/0$/), hash: expect.stringMatching(/^[0-9a-f]{16,}$/) });
  const detail = await cluster.engine.call('cache.block', { stream: block?.stream, hash: block?.hash });
  expect(detail.index).toBe(0);
  expect(detail.holders.map(({ instanceName }) => instanceName)).toEqual(expect.arrayContaining(['D0', 'P0']));
  expect(report.matches.find(({ instanceName }) => instanceName === 'P0')?.tokens).toBe(report.ranges[0]?.tokens);
});

test('diverges: a timestamp in the system prompt, decoded side by side, and the same as a cause over requests', async () => {
  await using cluster = await startCacheCluster(PAIR);
  const dated = (minute: number): object => ({
    messages: [
      { role: 'system', content: `You are a helpful assistant. ${words(20, 'rule')} Current time: 2026-11-21 04:${minute} UTC. ${words(30, 'more')}` },
      { role: 'user', content: 'What is the weather like?' },
    ],
  });
  await cluster.chat(dated(10));
  const report = await cluster.why(await cluster.chat(dated(27)));
  expect(kinds(report)).toEqual(['hit', 'diverges', 'partial-block']);
  const diverges = report.ranges[1]?.diverges;
  expect(diverges?.asked.text).toContain('27');
  expect(diverges?.held.text).toContain('10');
  const { block } = report.ranges[1] ?? {};
  const other = await cluster.engine.call('cache.block', { stream: block?.stream, hash: block?.hash });
  expect(other).toMatchObject({ index: diverges?.block, hashes: expect.arrayContaining([{ stream: 'p0/0', instanceName: 'P0', hash: block?.hash }]) });
  expect(other.tokens.join()).toContain(diverges?.held.tokens.slice(0, 4).join());
  const third = await cluster.why(await cluster.chat(dated(35)));
  expect(kinds(third)).toEqual(['hit', 'diverges', 'partial-block']);
  const misses = await cluster.engine.call('cache.misses', { windowS: 60 });
  expect(misses).toMatchObject({ requests: 3, unexplained: [] });
  const cause = misses.causes.find(({ kind }) => kind === 'diverges');
  expect(cause).toMatchObject({ requestCount: 2, title: expect.stringMatching(/^timestamp in the system prompt, after \d+ tokens: ".*Current time: 2026-11-21 04:"$/) });
  expect(misses.causes.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1);
});

test('the same tokens under another cache salt, or another adapter', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill', loras: ['chat-ad'] }, D0: { role: 'decode', loras: ['chat-ad'] } });
  await cluster.chat({ ...ask(words(61, 'a')), cache_salt: 'tenant-1' });
  const salted = await cluster.why(await cluster.chat({ ...ask(words(61, 'a')), cache_salt: 'tenant-2' }));
  expect(kinds(salted)).toEqual(['other-key', 'partial-block']);
  expect(salted.ranges[0]?.key).toEqual({ what: 'salt', asked: 'tenant-2', held: 'tenant-1' });
  await cluster.chat(ask(words(61, 'b')));
  const adapted = await cluster.why(await cluster.chat({ ...ask(words(61, 'b')), model: 'chat-ad' }));
  expect(kinds(adapted)).toEqual(['other-key', 'partial-block']);
  expect(adapted.ranges[0]?.key).toEqual({ what: 'lora', asked: 'chat-ad' });
  const again = await cluster.why(await cluster.chat({ ...ask(words(61, 'b')), model: 'chat-ad' }));
  expect(kinds(again)).toEqual(['hit', 'partial-block']);
});

test('media: the blocks of another picture are other blocks, those of the same are hits', async () => {
  await using cluster = await startCacheCluster(PAIR);
  const look = (picture: string): object => ({ messages: [{ role: 'user', content: [{ type: 'text', text: words(20, 'a') }, { type: 'image_url', image_url: { url: `https://example.com/${picture}.png` } }, { type: 'text', text: words(20, 'b') }] }] });
  await cluster.chat(look('cat'));
  const same = await cluster.why(await cluster.chat(look('cat')));
  expect(kinds(same)).toEqual(['hit', 'partial-block']);
  expect(same.ranges[0]?.tokens).toBe(same.reportedCachedTokens);
  const other = await cluster.why(await cluster.chat(look('dog')));
  expect(kinds(other)).toEqual(['hit', 'other-key', 'partial-block']);
  expect(other.ranges[1]?.key?.what).toBe('media');
});

test('reset: the prefix cache was cleared, or the engine restarted', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill' }, D0: { role: 'decode' } });
  await cluster.chat(ask(words(61, 'a')));
  await waitFor('the cache can be cleared', async () => {
    const answer = await fetch(`${cluster.sim('P0').url}/reset_prefix_cache`, { method: 'POST' });
    return ((await answer.json()) as { success: boolean }).success;
  });
  const cleared = await cluster.why(await cluster.chat(ask(words(61, 'a'))));
  expect(kinds(cleared)).toEqual(['reset', 'partial-block']);
  expect(cleared.ranges[0]?.message).toContain('the prefix cache was cleared');
  await cluster.sim('P0').restart();
  await waitFor('P0 is up again, and its stream knows', () => {
    const { instances, streams } = cluster.engine.state();
    return instances.find(({ name }) => name === 'P0')?.state === 'up' && streams.find(({ instanceName }) => instanceName === 'P0')?.epochs === 2;
  });
  const restarted = await cluster.why(await cluster.chat(ask(words(61, 'a'))));
  expect(kinds(restarted)).toEqual(['reset', 'partial-block']);
  expect(restarted.ranges[0]?.message).toContain('the engine restarted');
});

test('unknown: events are missing, and the engine has no replay', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill', kvEvents: { replay: false } }, D0: { role: 'decode' } });
  await cluster.chat(ask(words(20, 'z')));
  await cluster.sim('P0').setFault('event-gap', 1);
  await cluster.chat(ask(words(61, 'a')));
  await cluster.chat(ask(words(20, 'y')));
  const report = await cluster.why(await cluster.chat(ask(words(61, 'a'))));
  expect(kinds(report)[0]).toBe('unknown');
  expect(report.ranges[0]).toMatchObject({ gap: { stream: 'p0/0', fromSeq: expect.any(Number), toSeq: expect.any(Number) }, message: expect.stringMatching(/^not known: batch \d+ is missing/) });
  expect(report.reportedCachedTokens).toBeGreaterThan(0);
  expect(report.confidence.value).toBeLessThan(1);
  expect(report.confidence.reasons.map(({ code }) => code)).toContain('batches-lost');
});

test('tokens that the client sends itself are not asked for', async () => {
  await using cluster = await startCacheCluster(PAIR);
  const tokens = Array.from({ length: 50 }, (_, index) => 300 + index);
  const completion = await cluster.why(await cluster.send('/v1/completions', { prompt: tokens, max_tokens: 2 }));
  expect(completion).toMatchObject({ tokensFrom: 'request', promptTokens: 50 });
  expect(kinds(completion)).toEqual(['never-stored', 'partial-block']);
  const generate = await cluster.why(await cluster.send('/inference/v1/generate', { model: MODEL, token_ids: tokens, sampling_params: { max_tokens: 2 } }));
  expect(generate).toMatchObject({ tokensFrom: 'request', promptTokens: 50 });
  expect(kinds(generate)).toEqual(['hit', 'partial-block']);
  expect(cluster.sim('P0').received.concat(cluster.sim('D0').received).filter(({ path }) => path.includes('tokenize') || path.includes('render'))).toEqual([]);
  const text = await cluster.why(await cluster.send('/v1/completions', { prompt: words(61, 'q'), max_tokens: 2 }));
  expect(text).toMatchObject({ tokensFrom: 'tokenize', state: 'ready' });
});

test('says why a request is not explained: no stream, several prompts, prompt logprobs, switched off', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill', kvEvents: false }, D0: { role: 'decode' } });
  expect(await cluster.why(await cluster.chat(ask('hello')))).toMatchObject({ state: 'unavailable', ranges: [], reason: expect.stringContaining('P0 has no KV event stream') });
  await using off = await startCacheCluster(PAIR, { explainMisses: false });
  expect(await off.why(await off.chat(ask('hello')))).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('switched off') });
  await using on = await startCacheCluster(PAIR);
  expect(await on.why(await on.send('/v1/completions', { prompt: ['one', 'two'], max_tokens: 2 }))).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('2 prompts') });
  expect(await on.why(await on.chat({ ...ask('hello'), prompt_logprobs: 1 }))).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('prompt_logprobs') });
  const misses = await on.engine.call('cache.misses', {});
  expect(misses).toMatchObject({ requests: 0, missedTokens: 0, causes: [] });
  expect(misses.unexplained.map(({ requests }) => requests)).toEqual([1, 1]);
});

test('switched off and on while it runs', async () => {
  await using cluster = await startCacheCluster(PAIR);
  await expect(cluster.engine.call('explain.set', { isOn: false })).resolves.toEqual({ isOn: false });
  expect(cluster.engine.state()).toMatchObject({ isExplaining: false, unexplained: 0 });
  expect(await cluster.why(await cluster.chat(ask('hello')))).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('switched off') });
  expect(cluster.sim('P0').received.concat(cluster.sim('D0').received).filter(({ path }) => path.includes('render'))).toEqual([]);
  await cluster.engine.call('explain.set', { isOn: true });
  expect(kinds(await cluster.why(await cluster.chat(ask(words(61, 'a')))))).toContain('never-stored');
});

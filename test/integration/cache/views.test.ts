/** The cache views over simulated engines: what the index holds, with the fleet's facts and decoded text. */
import { expect, test } from 'vitest';
import { startSimInstance } from '#engine/simulator/sim-instance.ts';
import { waitFor } from '../engine/wait-for.ts';
import { kinds, startCacheCluster, words } from './cache-cluster.ts';

const PAIR = { P0: { role: 'prefill' }, D0: { role: 'decode' } } as const;
const ask = (text: string): object => ({ messages: [{ role: 'system', content: words(40, 'rule') }, { role: 'user', content: text }] });

test('the tree shows shared prompts with their text, who holds them, and what differs below', async () => {
  await using cluster = await startCacheCluster(PAIR);
  await cluster.why(await cluster.chat(ask(words(40, 'a'))));
  await cluster.why(await cluster.chat(ask(words(40, 'b'))));
  const top = await waitFor('both prompts are in the tree, on both instances', async () => {
    const page = await cluster.engine.call('cache.tree', {});
    return page.children[0]?.children === 2 && page.children[0].holders.length === 2 ? page : undefined;
  });
  const [shared] = top.children;
  expect(shared?.text).toMatch(/^<\|im_start\|>system\nrule0 rule1/u);
  expect(shared?.holders.map(({ instanceName, role, medium }) => [instanceName, role, medium])).toEqual([['D0', 'decode', 'GPU'], ['P0', 'prefill', 'GPU']]);
  const below = await cluster.engine.call('cache.tree', { node: shared?.node });
  expect(below.children).toHaveLength(2);
  for (const stem of ['a', 'b']) expect(below.children.filter(({ text }) => new RegExp(String.raw`\b${stem}\d`, 'u').test(text ?? ''))).toHaveLength(1);
  expect(below.path.map(({ node }) => node)).toEqual([shared?.node]);
  expect(top.confidence).toEqual({ value: 1, reasons: [], over: [{ stream: 'p0/0', value: 1 }, { stream: 'd0/0', value: 1 }], streams: 2 });
});

test('a text is searched by the tokens that an instance makes of it; a block is shown with its text', async () => {
  await using cluster = await startCacheCluster(PAIR);
  await cluster.why(await cluster.chat(ask(words(40, 'a'))));
  const found = await cluster.engine.call('cache.search', { text: `<|im_start|>system\n${words(40, 'rule')}` });
  expect(found.matchedTokens).toBeGreaterThan(found.askedTokens - 16);
  expect(found.matches).toHaveLength(1);
  const block = await cluster.engine.call('cache.block', { node: found.matches[0]?.node });
  expect(block.text).toContain('rule');
  expect(block.tokens).toHaveLength(16);
  // Words from the middle of the system prompt, as somebody types them who does not know the chat template.
  const inside = await cluster.engine.call('cache.search', { text: words(40, 'rule').split(' ').slice(5, 14).join(' ') });
  expect(inside).toMatchObject({ isInside: true, matchedTokens: inside.askedTokens });
  expect(inside.matches[0]?.text).toContain('rule');
  const nothing = await cluster.engine.call('cache.search', { tokens: [9999, 9998] });
  expect(nothing).toMatchObject({ matches: [], matchedTokens: 0, askedTokens: 2 });
  await expect(cluster.engine.call('cache.search', {})).rejects.toMatchObject({ code: 'bad_input' });
});

test('prefill and decode hold the same content after a handoff; the map has a row per stream', async () => {
  await using cluster = await startCacheCluster(PAIR);
  const report = await cluster.why(await cluster.chat(ask(words(40, 'a'))));
  const blocks = Math.floor((report.promptTokens ?? 0) / 16);
  const difference = await cluster.engine.call('cache.difference', {});
  expect(difference).toMatchObject({ left: [cluster.id('P0')], right: [cluster.id('D0')], onlyLeft: { blocks: 0 }, both: { blocks } });
  expect(difference.both.samples[0]?.text).toMatch(/^<\|im_start\|>system/u);
  const map = await cluster.engine.call('cache.residency', {});
  expect(map.rows.map(({ instanceName, role, blocks: held }) => [instanceName, role, held])).toEqual([['P0', 'prefill', blocks], ['D0', 'decode', blocks]]);
});

test('blocks evicted and needed again are a storm, with the text of what came back', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill', blocks: 40 }, D0: { role: 'decode' } });
  for (const stem of ['a', 'b', 'c', 'd', 'a', 'b', 'c', 'd']) {
    await waitFor('no block is pinned', () => cluster.sim('P0').stats().pinnedBlocks === 0);
    await cluster.chat({ messages: [{ role: 'user', content: words(90, stem) }] });
  }
  const { storms } = await waitFor('a storm shows', async () => {
    const answer = await cluster.engine.call('cache.storms', {});
    return answer.storms.some(({ instanceName }) => instanceName === 'P0') ? answer : undefined;
  });
  const storm = storms.find(({ instanceName }) => instanceName === 'P0');
  expect(storm?.blocks).toBeGreaterThanOrEqual(16);
  expect(storm?.samples.length).toBeGreaterThan(0);
  expect(storm?.samples.map(({ text }) => /\b[a-d]\d/u.test(text ?? ''))).toEqual(storm?.samples.map(() => true));
});

test('ranks: a pinned rank is looked at itself', async () => {
  await using cluster = await startCacheCluster({ P0: { role: 'prefill', dpSize: 2 }, D0: { role: 'decode' } });
  await waitFor('both ranks are followed', () => cluster.engine.state().streams.filter(({ instanceName, state }) => instanceName === 'P0' && state !== 'connecting').length === 2);
  const rows = [];
  for (let turn = 0; turn < 4; turn += 1) rows.push(await cluster.chat({ messages: [{ role: 'user', content: words(61, 'a') }] }));
  const reports = [];
  for (const row of rows) reports.push(await cluster.why(row));
  expect(reports.map(({ stream }) => stream)).toEqual(['p0/0', 'p0/1', 'p0/0', 'p0/1']);
  expect(reports.map((report) => kinds(report)[0])).toEqual(['never-stored', 'elsewhere', 'hit', 'hit']);
  expect(reports.map(({ confidence }) => confidence.reasons.map(({ code }) => code))).toEqual([[], [], [], []]);
});

test('an instance that leaves takes its blocks with it; a request there before is still explained', async () => {
  await using cluster = await startCacheCluster(PAIR);
  const spare = await startSimInstance({ role: 'prefill', kvEvents: {}, speed: 50, seed: 9 });
  try {
    const row = await cluster.chat(ask(words(40, 'a')));
    const before = await cluster.why(row);
    await cluster.engine.call('instance.add', { role: 'prefill', url: spare.url, kvEvents: spare.kvEvents });
    await cluster.engine.call('instance.remove', { id: cluster.id('P0') });
    const tree = await cluster.engine.call('cache.tree', {});
    expect(tree.children.flatMap(({ holders }) => holders.map(({ instanceName }) => instanceName))).toEqual(['D0']);
    expect(await cluster.why(row)).toEqual(before);
    const next = await cluster.why(await cluster.chat(ask(words(40, 'a'))));
    expect(next.instanceName).toBe('P1');
    expect(kinds(next)[0]).toBe('elsewhere');
  } finally {
    await spare.close();
  }
});

test('without prefill, the instance that serves the whole request is looked at', async () => {
  await using cluster = await startCacheCluster({ B0: { role: 'both' } }, { connector: 'aggregated' });
  const stream = { ...ask(words(40, 'a')), stream: true, stream_options: { include_usage: true } };
  await cluster.chat(stream);
  const report = await cluster.why(await cluster.chat(stream));
  expect(report).toMatchObject({ state: 'ready', instanceName: 'B0' });
  expect(kinds(report)[0]).toBe('hit');
  expect(report.reportedCachedTokens).toBe(report.ranges[0]?.tokens);
});

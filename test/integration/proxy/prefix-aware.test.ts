/** Routing by prefix: a proxy over scripted and simulated engines, and an index fed by their KV events. */
import { expect, test } from 'vitest';
import { IndexObserver } from '#engine/kv-index/index-observer.ts';
import { KvIndex } from '#engine/kv-index/kv-index.ts';
import { KvEvents } from '#engine/kv-events/kv-events.ts';
import type { PrefixLookup } from '#engine/proxy/policies/prefix-lookup.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { ProtocolSettings } from '#shared/protocol.ts';
import type { ConnectorName, Role } from '#shared/vocabulary.ts';
import { post, startHarness, until, type RequestRecord } from './harness.ts';
import { json, startUpstream, type Script } from './scripted-upstream.ts';
import { SIM_MODEL, startSimFleet, type SimFleet } from './sim-fleet.ts';

interface Cluster extends SimFleet {
  /** Sends a request; resolves once it is over, with its record. */
  send(path: string, body: object): Promise<RequestRecord>;
  /** Waits until the events of all engines have arrived: nobody's cache has news any more. */
  settled(): Promise<void>;
}

const WORDS = Array.from({ length: 300 }, (_, index) => `word${index}`);
const text = (from: number, count = 120): string => WORDS.slice(from, from + count).join(' ');

async function startCluster(roles: readonly Role[], connector: ConnectorName, protocol: Partial<ProtocolSettings> = {}): Promise<Cluster> {
  const index = new KvIndex();
  const events = new KvEvents({ books: index, observer: new IndexObserver(index) });
  const fleet = await startSimFleet(roles, connector, {
    sim: { speed: 50, kvEvents: {} },
    onAdded: (instance, { kvEvents }) => kvEvents !== undefined && events.attach(instance, kvEvents),
    onClose: () => events.close(),
    // Far beyond what the simulator needs: whether 20 ms are enough is not what is tested here.
    proxy: () => ({ policy: 'prefix-aware', prefixes: lookupOf(index), protocol: { tokenizeDeadlineMs: 10_000, ...protocol } }),
  });
  const { origin, sims, tracer } = fleet;
  await until(() => events.streams().length === sims.length && events.streams().every(({ state }) => state === 'silent' || state === 'live') && sims.every(({ publish }) => publish.subscriptions > 0));
  return {
    ...fleet,
    async send(path, body) {
      const response = await post(`${origin}${path}`, { model: SIM_MODEL, max_tokens: 4, ...body });
      const answer = await response.text();
      if (response.status !== 200) throw new Error(`${response.status} ${answer}`);
      const record = tracer.last;
      await until(() => record.state);
      return record;
    },
    async settled() {
      await until(() => sims.every((sim) => sim.stats().inFlight === 0));
      await until(() => sims.every((sim, at) => events.streams()[at]?.batches === sim.publish.batches));
    },
  };
}

function lookupOf(index: KvIndex): PrefixLookup {
  const instanceOf = (stream: string): InstanceId => stream.slice(0, stream.indexOf('/')) as InstanceId;
  return {
    holdsAny: () => index.size > 0,
    prefix({ tokens, salt }) {
      const matches = index.prefix(tokens, { ...(salt !== undefined && { salt }), withDivergence: false }).paths.flatMap((path) => path.matches);
      return index.streams.map(({ identity: { id } }) => {
        const match = matches.find(({ stream }) => stream === id);
        return { instance: instanceOf(id), matchedTokens: match?.tokens ?? 0, matchedBlocks: match?.blocks ?? 0, confidence: 1 };
      });
    },
  };
}

const COMPLETIONS = '/v1/completions';
const CHAT = '/v1/chat/completions';
const chat = (prompt: string): object => ({ messages: [{ role: 'user', content: prompt }] });

function chosen({ decisions }: RequestRecord, kind: 'prefill' | 'decode'): string | undefined {
  return decisions.find((decision) => decision.kind === kind)?.chosen;
}

test.each([
  ['completions', COMPLETIONS, (prompt: string) => ({ prompt }), 'tokenize'],
  ['chat', CHAT, chat, 'tokenize'],
] as const)('%s: prompts with a shared prefix go where it is, others spread; tokens come from /tokenize as a leg of its own', async (_api, path, body, tokensFrom) => {
  await using cluster = await startCluster(['prefill', 'prefill', 'prefill', 'decode'], 'nixl');
  const holders: (string | undefined)[] = [];
  for (const from of [0, 50, 100]) {
    holders.push(chosen(await cluster.send(path, body(text(from))), 'prefill'));
    await cluster.settled();
  }
  expect(new Set(holders).size).toBe(3);
  for (const [question, [at, from]] of ([[2, 100], [0, 0], [1, 50], [0, 0]] as const).entries()) {
    const record = await cluster.send(path, body(`${text(from)} and now a question ${question} that is new`));
    await cluster.settled();
    expect(chosen(record, 'prefill')).toBe(holders[at]);
    expect(record.legs.map(({ init }) => init.kind)).toEqual(['render', 'prefill', 'decode']);
    expect(record.legs[0]).toMatchObject({ init: { url: expect.stringMatching(/\/tokenize$/u) as string }, outcome: 'ok' });
    const decision = record.decisions.find(({ kind }) => kind === 'prefill');
    expect(decision).toMatchObject({ policy: 'prefix-aware', tokensFrom });
    expect(decision).not.toHaveProperty('degraded');
    const scores = decision?.candidates ?? [];
    expect(scores).toHaveLength(3);
    const best = scores.find(({ instance }) => instance === holders[at]);
    expect(best?.matchedTokens).toBeGreaterThan(64);
    // What the engine says it found is what the index said it had.
    expect(record.legs[1]?.facts?.usage?.cachedTokens).toBe(best?.matchedTokens);
    expect(decision?.promptTokens).toBe(record.legs[1]?.facts?.usage?.promptTokens);
  }
  // The very same prompt again: its tokens are known.
  const again = await cluster.send(path, body(`${text(0)} and now a question 3 that is new`));
  expect(again.legs.map(({ init }) => init.kind)).toEqual(['prefill', 'decode']);
  expect(again.decisions[0]).toMatchObject({ chosen: holders[0], tokensFrom });
});

test('token prompts need no call; another salt matches nothing', async () => {
  await using cluster = await startCluster(['prefill', 'prefill', 'decode'], 'plain');
  const prompt = Array.from({ length: 200 }, (_, index) => 300 + (index % 90));
  const first = await cluster.send(COMPLETIONS, { prompt });
  await cluster.settled();
  for (let round = 0; round < 3; round += 1) {
    const repeated = await cluster.send(COMPLETIONS, { prompt });
    await cluster.settled();
    expect(chosen(repeated, 'prefill')).toBe(chosen(first, 'prefill'));
    expect(repeated.legs.map(({ init }) => init.kind)).toEqual(['prefill', 'decode']);
    expect(repeated.decisions[0]).toMatchObject({ tokensFrom: 'request', promptTokens: 200 });
  }
  const salted = await cluster.send(COMPLETIONS, { prompt, cache_salt: 'other' });
  expect(salted.decisions[0]?.candidates.map(({ matchedTokens }) => matchedTokens)).toEqual([0, 0]);
});

test('render: the rendered tokens decide, and prefill need not be where they were rendered', async () => {
  await using cluster = await startCluster(['prefill', 'prefill', 'decode'], 'render');
  const first = await cluster.send(CHAT, chat(text(0)));
  await cluster.settled();
  for (let round = 0; round < 4; round += 1) {
    const repeated = await cluster.send(CHAT, chat(`${text(0)} again ${round}`));
    await cluster.settled();
    expect(chosen(repeated, 'prefill')).toBe(chosen(first, 'prefill'));
    expect(repeated.decisions.find(({ kind }) => kind === 'prefill')).toMatchObject({ tokensFrom: 'render' });
    expect(repeated.legs.some(({ init }) => init.url.endsWith('/tokenize'))).toBe(false);
  }
});

test.each(['nixl', 'plain'] as const)('%s: prefill is left out when a decode instance holds nearly all of the prompt, and the request says so', async (connector) => {
  await using cluster = await startCluster(['prefill', 'decode', 'decode'], connector, { prefillSkipTokens: 64 });
  const first = await cluster.send(COMPLETIONS, { prompt: text(0) });
  await cluster.settled();
  // Nobody holds anything yet, so nobody is asked.
  expect(first.legs.map(({ init }) => init.kind)).toEqual(['prefill', 'decode']);
  const holder = chosen(first, 'decode');
  for (let round = 0; round < 2; round += 1) {
    const repeated = await cluster.send(COMPLETIONS, { prompt: `${text(0)} and more ${round}` });
    await cluster.settled();
    expect(repeated.legs.map(({ init }) => init.kind)).toEqual(['render', 'decode']);
    expect(chosen(repeated, 'decode')).toBe(holder);
    expect(repeated.verdicts[0]).toMatchObject({ code: 'prefill_skipped', severity: 'info', instance: holder });
    const candidates = repeated.decisions.at(-1)?.candidates ?? [];
    expect(candidates).toHaveLength(2);
    const chosenOne = candidates.find(({ instance }) => instance === holder);
    expect(chosenOne?.reason).toMatch(/^holds \d+ of \d+ prompt tokens \(confidence 100 %\), the other \d+ are fewer than 64$/u);
    // Whoever reads the decision sees what every candidate held, not only the one chosen.
    expect(chosenOne?.matchedTokens).toBe((chosenOne?.matchedBlocks ?? 0) * 16);
    expect(chosenOne?.matchedBlocks).toBeGreaterThan(0);
    expect(candidates.find(({ instance }) => instance !== holder)).toMatchObject({ matchedTokens: 0, matchedBlocks: 0, confidence: 1, reason: expect.stringMatching(/^holds 0 of \d+ tokens \(0 blocks\), \d+ in flight$/u) as string });
  }
  const other = await cluster.send(COMPLETIONS, { prompt: text(150) });
  expect(other.legs.map(({ init }) => init.kind)).toEqual(['render', 'prefill', 'decode']);
  // Switched off while running.
  expect(cluster.proxy.setProtocol({ prefillSkipTokens: 0 })).toMatchObject({ prefillSkipTokens: 0, tokenizeDeadlineMs: 10_000, blockFatal: true });
  await cluster.settled();
  expect((await cluster.send(COMPLETIONS, { prompt: text(0) })).legs).toHaveLength(3);
});

const answer = json({ id: 'x', object: 'text_completion', choices: [{ index: 0, text: 'a', finish_reason: 'length' }], usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 } });
/** Somebody could hold something, and nobody does. */
const NOBODY: PrefixLookup = { holdsAny: () => true, prefix: () => [] };

test.each<readonly [string, Script, Partial<ProtocolSettings>, RegExp, string | undefined]>([
  ['too slow', () => undefined, { tokenizeDeadlineMs: 5 }, /^balanced by load: no tokens of the prompt: .* took longer than 5 ms$/u, 'aborted'],
  ['without the route', json({ detail: 'Not Found' }, 404), { tokenizeDeadlineMs: 5000 }, /^balanced by load: no tokens of the prompt: P0 answered \/tokenize with 404: Not Found$/u, 'error'],
  ['nonsense', json({ tokens: 'many' }), { tokenizeDeadlineMs: 5000 }, /without token ids$/u, 'ok'],
  ['switched off', json({ tokens: [1] }), { tokenizeForRouting: false }, /tokenizeForRouting\) is off$/u, undefined],
  ['no streams', json({ tokens: [1, 2] }), { tokenizeDeadlineMs: 5000 }, /^balanced by load: no KV event stream tells what these instances hold$/u, 'ok'],
])('/tokenize %s: the request is served all the same, and its decisions say why load decided', async (_what, tokenize, protocol, why, outcome) => {
  await using upstream = await startUpstream((res, request, index) => (request.url === '/tokenize' ? tokenize : answer)(res, request, index));
  await using other = await startUpstream(answer);
  await using harness = await startHarness({ prefill: [upstream.origin, other.origin], decode: [upstream.origin, other.origin], policy: 'prefix-aware', prefixes: NOBODY, protocol });
  const response = await post(`${harness.origin}/v1/completions`, { model: 'test-model', prompt: 'a b c', max_tokens: 1 });
  expect(response.status).toBe(200);
  await response.text();
  const { last } = harness.tracer;
  expect(last.decisions.map(({ kind }) => kind)).toEqual(['prefill', 'decode']);
  for (const { degraded } of last.decisions) expect(degraded).toMatch(why);
  expect(last.legs.find(({ init }) => init.kind === 'render')?.outcome).toBe(outcome);
  expect(harness.scheduler.inFlight).toBe(0);
  expect(harness.scheduler.ended.filter(({ outcome: ended }) => ended === 'failed')).toEqual([]);
});

test('engines that keep being late are not waited for', async () => {
  await using upstream = await startUpstream((res, request, index) => (request.url === '/tokenize' ? undefined : answer(res, request, index)));
  await using other = await startUpstream(answer);
  await using harness = await startHarness({ prefill: [upstream.origin, other.origin], decode: [upstream.origin, other.origin], policy: 'prefix-aware', prefixes: NOBODY, protocol: { tokenizeDeadlineMs: 2 } });
  for (let request = 0; request < 5; request += 1) await (await post(`${harness.origin}/v1/completions`, { prompt: 'a b c' })).text();
  const reasons = harness.tracer.requests.map(({ decisions }) => decisions[0]?.degraded ?? '');
  expect(reasons.slice(0, 3).every((reason) => reason.includes('took longer than 2 ms'))).toBe(true);
  expect(reasons[3]).toMatch(/tokenizing is paused for 1 s after failures/u);
  expect(harness.tracer.requests[3]?.legs.map(({ init }) => init.kind)).toEqual(['prefill', 'decode']);
});

test('a client that leaves while its prompt is tokenized leaves nothing behind', async () => {
  await using upstream = await startUpstream((res, request, index) => (request.url === '/tokenize' ? undefined : answer(res, request, index)));
  await using other = await startUpstream(answer);
  await using harness = await startHarness({ prefill: [upstream.origin, other.origin], decode: [upstream.origin, other.origin], policy: 'prefix-aware', prefixes: NOBODY, protocol: { tokenizeDeadlineMs: 10_000 } });
  const client = new AbortController();
  post(`${harness.origin}/v1/completions`, { prompt: 'a b c' }, {}, client.signal).catch(() => undefined);
  await until(() => upstream.received.length === 1);
  client.abort();
  await until(() => harness.tracer.last.state);
  expect(harness.tracer.last).toMatchObject({ state: 'aborted', legs: [{ outcome: 'aborted' }] });
  expect(harness.scheduler.inFlight).toBe(0);
  expect(upstream.received).toHaveLength(1);
});

test('forwarded requests are not looked at', async () => {
  await using upstream = await startUpstream(json({ object: 'list', data: [] }));
  await using harness = await startHarness({ prefill: [upstream.origin], policy: 'prefix-aware', prefixes: NOBODY });
  await (await post(`${harness.origin}/v1/embeddings`, { input: 'a', prompt: 'b' })).text();
  expect(upstream.received.map(({ url }) => url)).toEqual(['/v1/embeddings']);
  expect(harness.tracer.last.decisions[0]).not.toHaveProperty('degraded');
});

test('with one candidate for every leg nobody is asked, and nothing is degraded', async () => {
  await using upstream = await startUpstream(answer);
  await using harness = await startHarness({ prefill: [upstream.origin], decode: [upstream.origin], policy: 'prefix-aware', prefixes: NOBODY });
  await (await post(`${harness.origin}/v1/completions`, { prompt: 'a b c' })).text();
  expect(upstream.received.map(({ url }) => url)).toEqual(['/v1/completions', '/v1/completions']);
  expect(harness.tracer.last.decisions.map(({ degraded, candidates }) => [degraded, candidates.map(({ reason }) => reason)])).toEqual([[undefined, ['the only candidate, 0 in flight']], [undefined, ['the only candidate, 0 in flight']]]);
});

test('where nobody holds a block nobody is asked: load decides, and the decision says that nothing was looked up', async () => {
  await using upstream = await startUpstream(answer);
  await using other = await startUpstream(answer);
  const watched = ['p0', 'p1', 'd0'].map((instance) => ({ instance: instance as InstanceId, matchedTokens: 0, matchedBlocks: 0, confidence: 1 }));
  const prefixes: PrefixLookup = { holdsAny: () => false, prefix: () => watched };
  await using harness = await startHarness({ prefill: [upstream.origin, other.origin], decode: [upstream.origin], policy: 'prefix-aware', prefixes });
  await (await post(`${harness.origin}/v1/completions`, { prompt: 'a b c' })).text();
  expect([...upstream.received, ...other.received].map(({ url }) => url)).toEqual(['/v1/completions', '/v1/completions']);
  const [prefill] = harness.tracer.last.decisions;
  expect(prefill).not.toHaveProperty('degraded');
  expect(prefill).not.toHaveProperty('promptTokens');
  expect(prefill?.candidates.map(({ reason }) => reason)).toEqual(['not looked up (no candidate holds a block that could be found), 0 in flight', 'not looked up (no candidate holds a block that could be found), 0 in flight']);
});

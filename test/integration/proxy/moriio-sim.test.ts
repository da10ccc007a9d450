/** MoRIIO end to end: the proxy over the real fleet and simulated engines that register by themselves. */
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import type { Verdict } from '#shared/findings.ts';
import { Fleet } from '#engine/fleet/fleet.ts';
import { silentLogger } from '#engine/log.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { createProxy, type Proxy } from '#engine/proxy/proxy.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { post, RecordingTracer, until } from './harness.ts';

const MODEL = 'sim/Qwen3-8B';
const LONG_PROMPT = Array.from({ length: 200 }, (_, index) => `word${index}`).join(' ');

interface Cluster extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly origin: string;
  readonly fleet: Fleet;
  readonly tracer: RecordingTracer;
  readonly findings: readonly Verdict[];
  readonly client: OpenAI;
  /** Starts an engine and waits until it has joined and is up. */
  start(role: 'prefill' | 'decode', options?: Partial<SimInstanceOptions>): Promise<SimInstance>;
}

async function startCluster(shared: Partial<SimInstanceOptions> = {}): Promise<Cluster> {
  const fleet = new Fleet({ logger: silentLogger, healthIntervalMs: 100, scrapeIntervalMs: 60_000 });
  const tracer = new RecordingTracer();
  const findings: Verdict[] = [];
  const sims: SimInstance[] = [];
  const proxy = createProxy({
    scheduler: fleet,
    fleet,
    tracer,
    linter: createLinter({ fleet }),
    findings: { report: (verdict) => void findings.push(verdict) },
    logger: silentLogger,
    connector: 'moriio',
    policy: 'round-robin',
    protocol: { moriioHost: '127.0.0.1', moriioPort: 0 },
    admin: { add: (spec) => fleet.add(spec), remove: () => Promise.reject(new Error('not scripted')) },
    metricsPage: () => Promise.resolve({ contentType: 'text/plain', body: '' }),
    version: 'test',
  });
  const { port } = await proxy.listen(0, '127.0.0.1');
  const origin = `http://127.0.0.1:${port}`;
  const endpoint = proxy.connectorStatus().facts.find(({ title }) => title === 'Registration socket')?.value;
  if (typeof endpoint !== 'string') throw new Error('the status names no registration socket');
  return {
    proxy,
    origin,
    fleet,
    tracer,
    findings,
    client: new OpenAI({ baseURL: `${origin}/v1`, apiKey: 'k', maxRetries: 0 }),
    async start(role, options = {}) {
      const moriio = { proxy: endpoint.replace('tcp://', ''), pingMs: 50, ...shared.moriio, ...options.moriio };
      const sim = await startSimInstance({ role, seed: sims.length, speed: 20, transfer: 'moriio', ...shared, ...options, moriio });
      sims.push(sim);
      await until(() => fleet.list().find((instance) => instance.origin === sim.url && instance.state === 'up'));
      return sim;
    },
    async [Symbol.asyncDispose]() {
      await proxy.close();
      await fleet.close();
      await Promise.all(sims.map((sim) => sim.close()));
    },
  };
}

function ask({ client }: Cluster, body: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {}): Promise<OpenAI.ChatCompletion> {
  return client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content: LONG_PROMPT }], max_tokens: 12, ...body });
}

test.each([
  ['READ', 'v2'],
  ['WRITE', 'v2'],
  ['READ', 'v1'],
  ['WRITE', 'v1'],
  ['WRITE', 'v1b'],
] as const)('%s, %s engines: decode gets the KV that prefill computed, the client every token it asked for, and nothing stays pinned', async (mode, schema) => {
  await using cluster = await startCluster({ moriio: { mode, schema } });
  const prefill = await cluster.start('prefill');
  await cluster.start('decode');
  const answer = await ask(cluster, { ignore_eos: true } as object);
  expect(answer.usage?.completion_tokens).toBe(12);
  await until(() => cluster.tracer.last.state);
  const { legs, verdicts } = cluster.tracer.last;
  expect(verdicts).toEqual([]);
  expect(legs.map(({ init, outcome }) => [init.kind, outcome])).toEqual([['prefill', 'ok'], ['decode', 'ok']]);
  // Loaded tokens count as cached on the decode side: the prompt was not computed twice.
  expect(legs[1]?.facts?.usage?.cachedTokens).toBeGreaterThan(100);
  await until(() => prefill.stats().pinnedBlocks === 0);
  expect(cluster.findings).toEqual([]);
});

test.each(['READ', 'WRITE'] as const)('%s: several ranks on either side, streamed; every transfer finds the rank that computed', async (mode) => {
  await using cluster = await startCluster({ moriio: { mode } });
  const prefill = await cluster.start('prefill', { dpSize: 3 });
  await cluster.start('decode', { dpSize: 2 });
  for (let request = 0; request < 6; request++) {
    const stream = await cluster.client.chat.completions.create({
      model: MODEL, max_tokens: 5, stream: true, stream_options: { include_usage: true }, messages: [{ role: 'user', content: `${request} ${LONG_PROMPT}` }],
    });
    let cached: number | undefined;
    for await (const chunk of stream) cached = chunk.usage?.prompt_tokens_details?.cached_tokens ?? cached;
    expect(cached).toBeGreaterThan(100);
  }
  const ranks = cluster.tracer.requests.map(({ legs }) => legs[0]?.init.rank);
  expect(ranks).toEqual([0, 1, 2, 0, 1, 2]);
  expect(cluster.tracer.requests.flatMap(({ verdicts }) => verdicts)).toEqual([]);
  await until(() => prefill.stats().pinnedBlocks === 0);
});

test('several choices run whole on a prefill instance, with nothing for the linter to find', async () => {
  await using cluster = await startCluster();
  await cluster.start('prefill');
  const decode = await cluster.start('decode');
  const answer = await ask(cluster, { n: 2 });
  expect(answer.choices.length).toBe(2);
  expect(decode.received.filter(({ method }) => method === 'POST')).toEqual([]);
  expect(cluster.tracer.last.verdicts.map(({ code }) => code)).toEqual(['handoff_not_possible']);
});

test('an engine that stops leaves the fleet by itself, and joins again when it is back', async () => {
  await using cluster = await startCluster();
  await cluster.start('prefill');
  const first = await cluster.start('decode');
  const { port } = new URL(first.url);
  const before = cluster.fleet.list().find(({ origin }) => origin === first.url);
  // The engines here register every 50 ms; once that is learned, silence is noticed sooner.
  const intervals = (): readonly unknown[] => cluster.proxy.connectorStatus().tables[0]?.rows.map((row) => row[8]) ?? [];
  await until(() => intervals().every((interval) => Number(interval) < 1000));
  await first.close();
  await until(() => cluster.fleet.list().every(({ origin }) => origin !== first.url));
  expect(cluster.findings.map(({ code }) => code)).toEqual(['moriio_instance_left']);
  const refused = await post(`${cluster.origin}/v1/chat/completions`, { model: MODEL, messages: [{ role: 'user', content: 'hi' }] });
  expect(refused.status).toBe(503);
  await cluster.start('decode', { port: Number(port) });
  expect(cluster.fleet.list().find(({ origin }) => origin === first.url)?.id).not.toBe(before?.id);
  expect((await ask(cluster)).usage?.completion_tokens).toBeGreaterThan(0);
});

/** Mooncake and NIXL push end to end: the proxy over the real fleet and simulated engines of that transfer, linter on. */
import OpenAI, { APIError } from 'openai';
import { expect, test } from 'vitest';
import type { Verdict } from '#shared/findings.ts';
import { Fleet } from '#engine/fleet/fleet.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import { silentLogger } from '#engine/log.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { createProxy, type Proxy } from '#engine/proxy/proxy.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { Role } from '#shared/vocabulary.ts';
import { post, RecordingTracer, until } from './harness.ts';

const MODEL = 'sim/Qwen3-8B';
const LONG_PROMPT = Array.from({ length: 200 }, (_, index) => `word${index}`).join(' ');
const CONNECTORS = ['mooncake', 'nixl-push'] as const;
type Tested = (typeof CONNECTORS)[number];

interface Cluster extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly origin: string;
  readonly tracer: RecordingTracer;
  readonly findings: readonly Verdict[];
  readonly instances: readonly Instance[];
  readonly client: OpenAI;
  sim(index: number): SimInstance;
}

async function startCluster(connector: Tested, roles: readonly Role[] = ['prefill', 'decode'], options: Partial<SimInstanceOptions> = {}, healthIntervalMs = 100): Promise<Cluster> {
  const fleet = new Fleet({ logger: silentLogger, healthIntervalMs, scrapeIntervalMs: 60_000 });
  const sims = await Promise.all(roles.map((role) => startSimInstance({ role, transfer: connector, speed: 20, ...options })));
  const instances: Instance[] = [];
  for (const sim of sims) {
    const bootstrapPort = sim.bootstrapUrl === undefined ? undefined : Number(new URL(sim.bootstrapUrl).port);
    instances.push(await fleet.add({ role: sim.role, url: sim.url, ...(bootstrapPort !== undefined && { bootstrapPort }) }));
  }
  const tracer = new RecordingTracer();
  const findings: Verdict[] = [];
  const proxy = createProxy({
    scheduler: fleet,
    fleet,
    tracer,
    linter: createLinter({ fleet }),
    findings: { report: (verdict) => void findings.push(verdict) },
    logger: silentLogger,
    connector,
    policy: 'round-robin',
    admin: { add: () => Promise.reject(new Error('not scripted')), remove: () => Promise.reject(new Error('not scripted')) },
    metricsPage: () => Promise.resolve({ contentType: 'text/plain', body: '' }),
    version: 'test',
  });
  const { port } = await proxy.listen(0, '127.0.0.1');
  const origin = `http://127.0.0.1:${port}`;
  return {
    proxy,
    origin,
    tracer,
    findings,
    instances,
    client: new OpenAI({ baseURL: `${origin}/v1`, apiKey: 'k', maxRetries: 0 }),
    sim(index) {
      const found = sims[index];
      if (found === undefined) throw new Error(`no simulated instance ${index}`);
      return found;
    },
    async [Symbol.asyncDispose]() {
      await proxy.close();
      await fleet.close();
      await Promise.all(sims.map((sim) => sim.close()));
    },
  };
}

function chat({ client }: Cluster, body: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {}): Promise<OpenAI.ChatCompletion> {
  return client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content: LONG_PROMPT }], max_tokens: 12, ...body });
}

/** A restart may be noticed by a health check only after the instance is back. */
async function chatWhenUp(cluster: Cluster, content: string): Promise<OpenAI.ChatCompletion> {
  for (;;) {
    await until(() => cluster.instances[0]?.state === 'up');
    try {
      return await chat(cluster, { messages: [{ role: 'user', content }] });
    } catch (error) {
      if (!(error instanceof APIError) || error.status !== 503) throw error;
    }
  }
}

/** Nothing runs, nothing is held, anywhere. */
async function isQuiet(cluster: Cluster): Promise<void> {
  await until(() => [0, 1].every((index) => cluster.sim(index).stats().inFlight === 0 && cluster.sim(index).stats().pinnedBlocks === 0));
  expect(cluster.instances.every(({ inFlight }) => inFlight === 0)).toBe(true);
}

function verdicts({ tracer }: Cluster): string[] {
  return tracer.requests.flatMap((request) => request.verdicts.map(({ code }) => code));
}

test.each(CONNECTORS)('%s: decode gets what prefill computed, for chat and completions, whole and streamed, over all ranks', async (connector) => {
  await using cluster = await startCluster(connector, ['prefill', 'decode'], { dpSize: 2 });
  await until(() => cluster.instances.every(({ dpSize }) => dpSize === 2));
  const { client, tracer } = cluster;
  for (let request = 0; request < 4; request++) {
    const messages = [{ role: 'user' as const, content: `${request} ${LONG_PROMPT}` }];
    expect((await chat(cluster, { messages })).usage?.completion_tokens).toBe(12);
    let chunks = 0;
    for await (const _ of await client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content: `${request} s ${LONG_PROMPT}` }], max_tokens: 5, stream: true })) chunks++;
    expect(chunks).toBeGreaterThan(4);
    expect((await client.completions.create({ model: MODEL, prompt: `${request} c ${LONG_PROMPT}`, max_tokens: 3 })).choices).toHaveLength(1);
  }
  const whole = tracer.requests.filter(({ parsed }) => parsed?.isStream === false);
  expect(whole).toHaveLength(8);
  // Pushed tokens count as cached on the decode side: no prompt was computed twice.
  for (const { legs } of whole) expect(legs.at(-1)?.facts?.usage?.cachedTokens).toBeGreaterThan(100);
  expect(tracer.requests.every(({ state, retries, legs }) => state === 'ok' && retries === 0 && legs.length === 2)).toBe(true);
  expect(new Set(tracer.requests.map(({ legs }) => legs[0]?.init.rank))).toEqual(new Set([0, 1]));
  expect(verdicts(cluster)).toEqual([]);
  expect(cluster.findings).toEqual([]);
  await isQuiet(cluster);
  const [table] = cluster.proxy.connectorStatus().tables;
  expect(table?.rows.map((row) => row.find((cell) => typeof cell === 'string' && cell.includes('_dp'))).toSorted()).toEqual([0, 1].map((rank) => `${cluster.sim(0).engineId}_dp${rank}`));
});

test.each(CONNECTORS)('%s: prefill that restarts between two requests costs no client a hang', async (connector) => {
  await using cluster = await startCluster(connector);
  await chat(cluster);
  const before = cluster.sim(0).engineId;
  for (let life = 0; life < 3; life++) {
    await cluster.sim(0).restart();
    expect((await chatWhenUp(cluster, `${life} ${LONG_PROMPT}`)).usage?.completion_tokens).toBe(12);
  }
  expect(cluster.sim(0).engineId).not.toBe(before);
  expect(cluster.tracer.last.legs.at(-1)?.facts?.usage?.cachedTokens).toBeGreaterThan(100);
  await until(() => cluster.sim(1).stats().inFlight === 0);
});

test.each(CONNECTORS)('%s: prefill that restarts while decode waits is run again', async (connector) => {
  await using cluster = await startCluster(connector, ['prefill', 'decode'], { speed: 1 });
  await chat(cluster, { messages: [{ role: 'user', content: 'short' }], max_tokens: 1 });
  const answer = chat(cluster, { max_tokens: 2 });
  await until(() => cluster.sim(0).stats().inFlight === 1 && cluster.sim(1).stats().inFlight === 1);
  await cluster.sim(0).restart();
  expect((await answer).usage?.completion_tokens).toBe(2);
  expect(cluster.tracer.last.retries).toBe(1);
  await until(() => cluster.sim(1).stats().inFlight === 0);
});

test.each(CONNECTORS.flatMap((connector) => [
  [connector, 'refuse', 502, 'connect_failed'],
  [connector, 'error-400', 400, 'upstream_status'],
  [connector, 'error-500', 500, 'upstream_status'],
  [connector, 'reset', 502, 'upstream_reset'],
  [connector, 'empty-200', 502, 'empty_response'],
] as const))('%s: fault %s of prefill ends the request at once with %i, and decode waits for nothing', async (connector, fault, status, code) => {
  // No health check may be quicker than the request to see the fault: then there would be no instance to ask.
  await using cluster = await startCluster(connector, ['prefill', 'decode'], {}, 5000);
  await chat(cluster);
  await cluster.sim(0).setFault(fault);
  const answer = await post(`${cluster.origin}/v1/chat/completions`, { model: MODEL, messages: [{ role: 'user', content: 'again' }], stream: true });
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({ pdscope: { code, leg: 'prefill' } });
  await until(() => cluster.sim(1).stats().inFlight === 0);
  await cluster.sim(0).setFault('none');
  await until(() => cluster.instances[0]?.state === 'up' && cluster.instances[0].breaker === 'closed');
  await until(() => cluster.proxy.connectorStatus().notices.length === 0);
  expect((await chat(cluster)).usage?.completion_tokens).toBe(12);
});

test.each(CONNECTORS.flatMap((connector) => [[connector, 'error-500'], [connector, 'reset'], [connector, 'empty-200']] as const))(
  '%s: fault %s of one decode instance is repaired by the other',
  async (connector, fault) => {
    await using cluster = await startCluster(connector, ['prefill', 'decode', 'decode']);
    await chat(cluster);
    await cluster.sim(1).setFault(fault);
    for (let request = 0; request < 4; request++) {
      expect((await chat(cluster, { messages: [{ role: 'user', content: `${request} ${LONG_PROMPT}` }] })).usage?.completion_tokens).toBe(12);
    }
    expect(cluster.tracer.requests.some(({ retries }) => retries > 0)).toBe(true);
    expect(cluster.tracer.requests.every(({ state }) => state === 'ok')).toBe(true);
  },
);

test.each(CONNECTORS.flatMap((connector) => (['prefill', 'decode'] as const).map((phase) => [connector, phase] as const)))(
  '%s: a client that leaves during %s stops both engines',
  async (connector, phase) => {
    await using cluster = await startCluster(connector, ['prefill', 'decode'], { speed: 1, transferTimeoutMs: 3000, leaseMs: 3000 });
    await chat(cluster, { messages: [{ role: 'user', content: 'short' }], max_tokens: 1 });
    const client = new AbortController();
    const body = { model: MODEL, messages: [{ role: 'user', content: LONG_PROMPT.repeat(4) }], max_tokens: 2000, ignore_eos: true };
    post(`${cluster.origin}/v1/chat/completions`, body, {}, client.signal).catch(() => undefined);
    const running = phase === 'prefill' ? 1 : 0;
    await until(() => cluster.tracer.requests[1]?.legs.length === 2 && cluster.sim(1).stats().inFlight === 1 && cluster.sim(0).stats().inFlight === running);
    client.abort();
    await until(() => [0, 1].every((index) => cluster.sim(index).stats().inFlight === 0));
    await until(() => cluster.tracer.last.state);
    expect(cluster.tracer.last.state).toBe('aborted');
    // What prefill had kept for decode goes with its engine's own timeout.
    await isQuiet(cluster);
  },
);

/** The proxy over the real fleet and simulated engines: handoff, abort, faults, breaker, draining. */
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { createSharedStore } from '#engine/simulator/shared-store.ts';
import { startSimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { ConnectorName, Role } from '#shared/vocabulary.ts';
import { CHAT_BODY, post, until } from './harness.ts';
import { SIM_MODEL, startSimFleet, type SimFleet } from './sim-fleet.ts';

const LONG_PROMPT = Array.from({ length: 200 }, (_, index) => `word${index}`).join(' ');

function startCluster(roles: readonly Role[], connector: ConnectorName, sim: Partial<SimInstanceOptions> = {}): Promise<SimFleet> {
  return startSimFleet(roles, connector, {
    sim,
    proxy: (fleet) => ({ admin: { apiKey: 'k', add: (spec) => fleet.add(spec), remove: (address, role) => fleet.remove(fleet.findByAddress(address, role)?.id ?? ('none' as never)) } }),
  });
}

test('nixl: the decode instance pulls what prefill computed, and no block stays pinned', async () => {
  await using cluster = await startCluster(['prefill', 'decode'], 'nixl');
  const client = new OpenAI({ baseURL: `${cluster.origin}/v1`, apiKey: 'k', maxRetries: 0 });
  const answer = await client.chat.completions.create({ model: SIM_MODEL, messages: [{ role: 'user', content: LONG_PROMPT }], max_tokens: 12 });
  expect(answer.usage?.completion_tokens).toBe(12);
  const [prefillLeg, decodeLeg] = cluster.tracer.last.legs;
  const params: unknown = JSON.parse(String(prefillLeg?.facts?.kvTransferParams));
  expect(params).toMatchObject({ do_remote_prefill: true, remote_engine_id: cluster.sim(0).engineId });
  expect(decodeLeg?.init.kvTransferParams).toEqual(prefillLeg?.facts?.kvTransferParams);
  // Pulled tokens count as cached on the decode side: the prompt was not computed twice.
  expect(decodeLeg?.facts?.usage?.cachedTokens).toBeGreaterThan(100);
  await until(() => cluster.sim(0).stats().pinnedBlocks === 0);
  expect(cluster.instances.map(({ inFlight, served, failed }) => ({ inFlight, served, failed }))).toEqual([
    { inFlight: 0, served: 1, failed: 0 },
    { inFlight: 0, served: 1, failed: 0 },
  ]);
});

test.each(['plain', 'nixl'] as const)('%s: chat and completions, streamed, with usage and tools, as the official client sees them', async (connector) => {
  const sharedStore = createSharedStore();
  await using cluster = await startCluster(['prefill', 'decode'], connector, { sharedStore });
  const client = new OpenAI({ baseURL: `${cluster.origin}/v1`, apiKey: 'k', maxRetries: 0 });
  let chunks = 0;
  let tokens: number | undefined;
  const stream = await client.chat.completions.create({ model: SIM_MODEL, messages: [{ role: 'user', content: LONG_PROMPT }], max_tokens: 9, min_tokens: 9, stream: true, stream_options: { include_usage: true } } as never);
  for await (const chunk of stream as unknown as AsyncIterable<OpenAI.ChatCompletionChunk>) {
    chunks++;
    tokens = chunk.usage?.completion_tokens ?? tokens;
  }
  expect(tokens).toBe(9);
  await until(() => cluster.tracer.last.state);
  expect(cluster.tracer.last).toMatchObject({ state: 'ok', events: chunks + 1, legs: [{ outcome: 'ok' }, { outcome: 'ok', facts: { usage: { completionTokens: 9 } } }] });
  const text = await client.completions.create({ model: SIM_MODEL, prompt: LONG_PROMPT, max_tokens: 4, n: 2 });
  expect(text.choices).toHaveLength(2);
  expect(cluster.tracer.last.legs).toHaveLength(1);
});

test('an unknown model is refused by prefill with the engine\'s own 404', async () => {
  await using cluster = await startCluster(['prefill', 'decode'], 'nixl');
  const client = new OpenAI({ baseURL: `${cluster.origin}/v1`, apiKey: 'k', maxRetries: 0 });
  const error = await client.chat.completions.create({ model: 'nope', messages: [{ role: 'user', content: 'x' }] }).then(() => undefined, (thrown: unknown) => thrown);
  expect(error).toMatchObject({ status: 404, type: 'NotFoundError', message: expect.stringContaining('nope') });
  expect(cluster.sim(1).received.filter(({ method }) => method === 'POST')).toHaveLength(0);
});

test.each([0, 1])('a disconnect stops the engine of leg %i', async (leg) => {
  await using cluster = await startCluster(['prefill', 'decode'], 'nixl', { speed: leg === 0 ? 0.05 : 1 });
  const client = new AbortController();
  post(`${cluster.origin}/v1/chat/completions`, { model: SIM_MODEL, messages: [{ role: 'user', content: 'hello' }], max_tokens: 5000, ignore_eos: true }, {}, client.signal).catch(() => undefined);
  await until(() => cluster.sim(leg).stats().inFlight === 1);
  client.abort();
  await until(() => cluster.sim(leg).stats().inFlight === 0);
  await until(() => cluster.tracer.last.state);
  expect(cluster.tracer.last.state).toBe('aborted');
  expect(cluster.instances.every(({ inFlight }) => inFlight === 0)).toBe(true);
});

test('failing legs open the breaker, others serve, and a probe closes it again', async () => {
  await using cluster = await startCluster(['prefill', 'decode', 'decode'], 'nixl');
  const [, bad] = cluster.instances;
  await cluster.sim(1).setFault('error-500');
  for (let request = 0; request < 8; request++) {
    const response = await post(`${cluster.origin}/v1/chat/completions`, { ...CHAT_BODY, model: SIM_MODEL });
    expect(response.status).toBe(200);
    await response.text();
  }
  expect(bad?.failed).toBeGreaterThanOrEqual(3);
  expect(cluster.tracer.requests.some(({ retries }) => retries === 1)).toBe(true);
  await cluster.sim(1).setFault('none');
  await until(() => bad?.breaker === 'closed' && bad.state === 'up');
});

test.each([
  ['refuse', 502, 'connect_failed'],
  ['empty-200', 502, 'empty_response'],
  ['error-500', 500, 'upstream_status'],
] as const)('fault %s of the only prefill instance gives %i', async (fault, status, code) => {
  await using cluster = await startCluster(['prefill', 'decode'], 'nixl');
  await cluster.sim(0).setFault(fault);
  const response = await post(`${cluster.origin}/v1/chat/completions`, { ...CHAT_BODY, model: SIM_MODEL });
  const body = (await response.json()) as { pdscope: { code: string } };
  // The health check may be quicker than the request: then there is no instance at all.
  expect([`${status} ${code}`, '503 no_instance']).toContain(`${response.status} ${body.pdscope.code}`);
});

test('a reset in mid-stream ends with an error event', async () => {
  await using cluster = await startCluster(['prefill', 'decode'], 'nixl');
  await cluster.sim(1).setFault('reset-mid-stream', 2);
  const text = await (await post(`${cluster.origin}/v1/chat/completions`, { ...CHAT_BODY, model: SIM_MODEL, max_tokens: 50, ignore_eos: true, stream: true })).text();
  expect(text).toContain('"code":"upstream_reset"');
  expect(text).not.toContain('[DONE]');
  await until(() => cluster.tracer.last.state);
  expect(cluster.tracer.last).toMatchObject({ state: 'error', error: { leg: 'decode', code: 'upstream_reset' } });
});

test('a draining instance finishes its stream and gets no new one', async () => {
  await using cluster = await startCluster(['prefill', 'decode', 'decode'], 'plain', { speed: 1 });
  const body = { ...CHAT_BODY, model: SIM_MODEL, max_tokens: 20, ignore_eos: true, stream: true };
  const stream = await post(`${cluster.origin}/v1/chat/completions`, body);
  const [, first, second] = cluster.instances;
  const used = first?.inFlight === 1 ? first : second;
  if (used === undefined) throw new Error('no decode instance is in use');
  cluster.fleet.drain(used.id);
  expect(used.state).toBe('draining');
  const others = await Promise.all([post(`${cluster.origin}/v1/chat/completions`, body), post(`${cluster.origin}/v1/chat/completions`, body)]);
  const texts = await Promise.all([stream, ...others].map((response) => response.text()));
  expect(texts.every((text) => text.endsWith('data: [DONE]\n\n'))).toBe(true);
  await until(() => cluster.fleet.get(used.id) === undefined);
  expect(used.served).toBe(1);
});

test('instances join and leave over the admin routes', async () => {
  await using cluster = await startCluster(['prefill'], 'nixl');
  await using extra = { sim: await startSimInstance({ role: 'decode' }), [Symbol.asyncDispose]: () => extra.sim.close() };
  const address = new URL(extra.sim.url).host;
  expect((await fetch(`${cluster.origin}/health`)).status).toBe(503);
  const added = await post(`${cluster.origin}/instances/add`, { type: 'decode', instance: address }, { 'x-api-key': 'k' });
  expect(await added.json()).toEqual({ message: `Added ${address} to decode_instances.` });
  expect((await fetch(`${cluster.origin}/health`)).status).toBe(200);
  const again = await post(`${cluster.origin}/instances/add`, { type: 'decode', instance: address }, { 'x-api-key': 'k' });
  expect(again.status).toBe(400);
  expect(await again.json()).toMatchObject({ pdscope: { code: 'instance_duplicate' } });
  await post(`${cluster.origin}/instances/remove`, { type: 'decode', instance: address }, { 'x-api-key': 'k' });
  expect(await (await fetch(`${cluster.origin}/status`)).json()).toMatchObject({ prefill_node_count: 1, decode_node_count: 0 });
});

import { afterEach, describe, expect, it } from 'vitest';
import { startSimCluster } from '#engine/simulator/sim-cluster.ts';
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';
import { startTraffic, type Traffic } from '#engine/simulator/traffic.ts';
import { COMPLETIONS, send, waitFor } from './sim-client.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const resource of open.splice(0).reverse()) await resource.close();
});

async function start(requestsPerSecond: number): Promise<{ instance: SimInstance; traffic: Traffic }> {
  const instance = await startSimInstance({ role: 'both', speed: 50, keepReceived: 1000 });
  open.push(instance);
  const traffic = startTraffic({ baseUrl: instance.url, requestsPerSecond, seed: 3, apiKey: 'k' });
  open.push(traffic);
  return { instance, traffic };
}

describe('demo traffic', () => {
  it('is a mix whose conversations hit the prefix cache', async () => {
    const { instance, traffic } = await start(300);
    await waitFor('requests', () => traffic.stats().completed >= 300);
    traffic.setRate(0);
    await waitFor('the rest', () => traffic.stats().inFlight === 0);
    const bodies = instance.received.filter((request) => request.method === 'POST').map((request) => JSON.parse(request.body.toString()));
    const share = (test: (body: Record<string, unknown>) => boolean): number => bodies.filter(test).length / bodies.length;
    expect(share((body) => body['stream'] === true)).toBeGreaterThan(0.6);
    expect(share((body) => body['stream'] === undefined)).toBeGreaterThan(0.05);
    expect(share((body) => body['stream_options'] !== undefined)).toBeGreaterThan(0.1);
    expect(share((body) => body['prompt'] !== undefined)).toBeGreaterThan(0.05);
    expect(share((body) => Array.isArray(body['messages']) && body['messages'].length >= 4)).toBeGreaterThan(0.1);
    // What spoils caches: a clock at the start of the system prompt, and salts of several tenants.
    const clocks = bodies.flatMap(({ messages }) => /^Current time: (\d{4}-\d\d-\d\dT[\d:]{8})\. You /u.exec(messages?.[0]?.content)?.[1] ?? []);
    expect(clocks.length / bodies.length).toBeGreaterThan(0.03);
    expect(clocks.length / bodies.length).toBeLessThan(0.3);
    expect(new Set(bodies.map((body) => body['cache_salt']))).toEqual(new Set([undefined, 'tenant-blue', 'tenant-green']));
    expect(instance.received[0]?.headers['authorization']).toBe('Bearer k');
    const metrics = (await send(instance, '/metrics')).text;
    const hits = Number(/vllm:prefix_cache_hits_total\{.*\} (.*)/u.exec(metrics)?.[1]);
    const queries = Number(/vllm:prefix_cache_queries_total\{.*\} (.*)/u.exec(metrics)?.[1]);
    expect(hits / queries).toBeGreaterThan(0.2);
    const { sent, completed, failed, aborted } = traffic.stats();
    expect(failed).toBe(0);
    expect(sent).toBe(completed + aborted);
  });

  it('backs off while the proxy is down, and comes back with it', async () => {
    const { instance, traffic } = await start(200);
    await waitFor('first answers', () => traffic.stats().completed > 5);
    await instance.setFault('refuse');
    await waitFor('backing off', () => traffic.stats().isBackingOff);
    const { completed } = traffic.stats();
    await instance.setFault('none');
    await waitFor('answers again', () => traffic.stats().completed > completed + 5);
    expect(traffic.stats().isBackingOff).toBe(false);
  });

  it('lets clients leave that wait in vain, and none of them counts as failed', async () => {
    const { instance, traffic } = await start(200);
    await instance.setFault('hang');
    await waitFor('clients that wait', () => traffic.stats().inFlight > 5);
    traffic.setRate(0);
    const { sent } = traffic.stats();
    await traffic.leave();
    const { inFlight, failed, completed, aborted } = traffic.stats();
    expect({ inFlight, failed, left: completed + aborted }).toEqual({ inFlight: 0, failed: 0, left: sent });
    await instance.setFault('none');
    traffic.setRate(200);
    await waitFor('answers again', () => traffic.stats().completed > completed + 5);
  });

  it('skips arrivals beyond its bound', async () => {
    const instance = await startSimInstance({ role: 'both' });
    open.push(instance);
    await instance.setFault('hang');
    const traffic = startTraffic({ baseUrl: instance.url, requestsPerSecond: 500, maxInFlight: 4 });
    open.push(traffic);
    await waitFor('skipped', () => traffic.stats().skipped > 10);
    expect(traffic.stats().inFlight).toBeLessThanOrEqual(4);
  });
});

describe('demo traffic of a flavour', () => {
  async function bodies(flavour: object, count: number): Promise<Record<string, unknown>[]> {
    const instance = await startSimInstance({ role: 'both', speed: 50, keepReceived: 2000 });
    open.push(instance);
    const traffic = startTraffic({ baseUrl: instance.url, requestsPerSecond: 300, seed: 5, ...flavour });
    open.push(traffic);
    await waitFor('requests', () => traffic.stats().completed >= count);
    expect(traffic.stats().failed).toBe(0);
    return instance.received.filter(({ body }) => body.length > 0).map(({ body }) => JSON.parse(body.toString()) as Record<string, unknown>);
  }

  it('has conversations with ids, some streamed, some with an edited history', async () => {
    const all = await bodies({ hasConversationIds: true }, 250);
    const turns = new Map<unknown, { role: string; content: string }[][]>();
    for (const { conversation_id: id, messages } of all) {
      if (id !== undefined) turns.set(id, [...(turns.get(id) ?? []), messages as { role: string; content: string }[]]);
    }
    expect(turns.size).toBeGreaterThan(5);
    const edits = [...turns.values()].flatMap((list) =>
      list.slice(1).map((messages, index) => {
        const last = list[index] ?? [];
        return messages.length > last.length && last.every(({ content }, at) => messages[at]?.content === content);
      }),
    );
    expect(edits.filter(Boolean).length).toBeGreaterThan(edits.length / 2);
    expect(edits).toContain(false);
    const streams = all.filter(({ conversation_id: id }) => id !== undefined).map(({ stream }) => stream === true);
    expect(new Set(streams)).toEqual(new Set([true, false]));
  });

  it('has one to three media items of every kind', async () => {
    const all = await bodies({ hasMedia: true }, 200);
    const parts = all.map(({ messages }) =>
      ((messages ?? []) as { content: unknown }[]).flatMap(({ content }) => (Array.isArray(content) ? (content as { type: string }[]).filter(({ type }) => type !== 'text') : [])),
    );
    const counts = new Set(parts.map((list) => list.length));
    expect(counts).toEqual(new Set([0, 1, 2, 3]));
    expect(new Set(parts.flat().map(({ type }) => type))).toEqual(new Set(['image_url', 'audio_url', 'input_audio', 'video_url']));
    expect(all.every(({ conversation_id: id }) => id === undefined)).toBe(true);
  });
});

describe('a cluster', () => {
  it('starts anew at the same addresses with other flags', async () => {
    const cluster = await startSimCluster({ encode: 1, prefill: 1, decode: 1, speed: 100, dpSize: 2 });
    open.push(cluster);
    const before = cluster.instances.map(({ url, kvEvents, engineId, name }) => ({ url, kvEvents, engineId, name }));
    await cluster.restart((role) => (role === 'encode' ? {} : { transfer: 'mooncake' }));
    expect(cluster.instances.map(({ url, kvEvents, name }) => ({ url, kvEvents, name }))).toEqual(before.map(({ url, kvEvents, name }) => ({ url, kvEvents, name })));
    const [encoder, prefill, decode] = cluster.instances;
    if (encoder === undefined || prefill === undefined || decode === undefined) throw new Error('three instances were asked for');
    expect(encoder.engineId).toBeUndefined();
    expect(prefill.engineId).not.toBe(before[1]?.engineId);
    expect(prefill.bootstrapUrl).toBe(`http://127.0.0.1:${cluster.bootstrapPortOf(prefill)}`);
    expect(cluster.bootstrapPortOf(decode)).toBeUndefined();
    expect((await send(decode, COMPLETIONS, { body: { prompt: 'the', max_tokens: 1 } })).status).toBe(200);
  });

  it('has the instances asked for, findable by url', async () => {
    const cluster = await startSimCluster({ encode: 1, prefill: 1, decode: 2, speed: 100 });
    open.push(cluster);
    expect(cluster.instances.map((instance) => `${instance.name} ${instance.role}`)).toEqual(['E0 encode', 'P0 prefill', 'D0 decode', 'D1 decode']);
    expect(cluster.instances.map((instance) => instance.kvEvents !== undefined)).toEqual([false, true, true, true]);
    const [, p] = cluster.instances;
    expect(cluster.byUrl(`${p?.url ?? ''}/`)).toBe(p);
    expect(cluster.byUrl('http://127.0.0.1:1')).toBeUndefined();
    for (const instance of cluster.instances.slice(1)) {
      expect((await send(instance, COMPLETIONS, { body: { prompt: 'the', max_tokens: 1 } })).status).toBe(200);
    }
  });
});

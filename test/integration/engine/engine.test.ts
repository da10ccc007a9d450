import { createServer, type Server } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { createEngine, type Engine } from '#engine/engine.ts';
import type { EngineOptions } from '#engine/engine-options.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { InstanceView } from '#shared/instance.ts';
import { waitFor } from './wait-for.ts';

const closers: (() => Promise<unknown>)[] = [];

async function start(options: Partial<EngineOptions> = {}): Promise<Engine> {
  const engine = await createEngine({ version: 'test', host: 'headless', proxy: { port: 0 }, ...options });
  closers.unshift(() => engine.close());
  return engine;
}

async function startSim(options: SimInstanceOptions): Promise<SimInstance> {
  const instance = await startSimInstance({ speed: 20, ...options });
  closers.push(() => instance.close());
  return instance;
}

const byName = (engine: Engine, name: string): InstanceView | undefined => engine.state().instances.find((instance) => instance.name === name);
const up = (engine: Engine, name: string) => waitFor(`${name} is up`, () => (byName(engine, name)?.state === 'up' ? byName(engine, name) : undefined));

function complete(engine: Engine, body: object = {}): Promise<Response> {
  return fetch(`${engine.proxyAddress.url}/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/Qwen3-8B', prompt: 'one two three four five six seven eight nine ten', max_tokens: 8, ...body }),
  });
}

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

describe('engine', () => {
  it('runs the demo end to end: instances up, requests through both legs, KV events, all marked simulated', async () => {
    const engine = await start({ demo: { prefill: 1, decode: 2, requestsPerSecond: 20 } });
    const state = await waitFor('traffic shows everywhere', () => {
      const now = engine.state();
      return now.totals.ok >= 5 && now.rings.kv.total > 0 && now.edges.length >= 2 && now.latency.ttftMs !== undefined && now;
    });
    expect(state.proxyUrl).toBe(engine.proxyAddress.url);
    expect(state.instances.map(({ name, role, isSimulated }) => ({ name, role, isSimulated }))).toEqual([
      { name: 'P0', role: 'prefill', isSimulated: true },
      { name: 'D0', role: 'decode', isSimulated: true },
      { name: 'D1', role: 'decode', isSimulated: true },
    ]);
    expect(state.streams.map(({ instanceName, state: streamState }) => `${instanceName} ${streamState}`)).toContain('P0 live');
    expect(state.simulation).toMatchObject({ isRunning: true, requestsPerSecond: 20, faults: [] });
    const ok = Array.from(engine.requests.rows()).find((row) => row.state === 'ok');
    expect(ok?.route.map(({ kind }) => kind)).toEqual(['prefill', 'decode']);
    expect(ok?.isSimulated).toBe(true);
    expect(state.totals.error).toBe(0);
  });

  it('steers the simulation: rate and faults show in the state and act', async () => {
    const engine = await start({ demo: { prefill: 1, decode: 1, requestsPerSecond: 20 } });
    await waitFor('a request went well', () => engine.state().totals.ok > 0);
    const d0 = byName(engine, 'D0');
    await expect(engine.call('sim.fault', { id: d0?.id, fault: 'error-500' })).resolves.toEqual({ instance: d0?.id, fault: 'error-500' });
    expect(engine.state().simulation?.faults).toEqual([{ instance: d0?.id, fault: 'error-500' }]);
    await waitFor('requests fail', () => engine.state().totals.error > 0);
    await engine.call('sim.traffic', { requestsPerSecond: 0 });
    expect(engine.state().simulation).toMatchObject({ isRunning: false, requestsPerSecond: 0 });
    await engine.call('sim.fault', { id: d0?.id, fault: 'none' });
    expect(engine.state().simulation?.faults).toEqual([]);
  });

  it('adds an instance by hand, subscribes to its events, serves with it, and takes it out', async () => {
    const prefill = await startSim({ role: 'prefill', kvEvents: {} });
    const decode = await startSim({ role: 'decode' });
    const engine = await start();
    expect((await complete(engine)).status).toBe(503);
    const added = await engine.call('instance.add', { role: 'prefill', url: prefill.url, kvEvents: prefill.kvEvents });
    expect(added).toMatchObject({ name: 'P0', state: 'up', streams: ['p0/0'], isSimulated: true });
    await engine.call('instance.add', { role: 'decode', url: decode.url.replace('http://', ''), name: 'mine' });
    const response = await complete(engine);
    expect(response.status).toBe(200);
    await waitFor('the prefill stored blocks and said so', async () => {
      await complete(engine, { prompt: `${'lorem ipsum '.repeat(60)}${Math.random()}` });
      return engine.kv.counters().total > 0;
    });
    await expect(engine.call('instance.add', { role: 'prefill', url: prefill.url })).rejects.toMatchObject({ code: 'instance_duplicate' });
    await expect(engine.call('instance.remove', { id: added.id })).resolves.toEqual({ removed: added.id, cancelled: 0 });
    expect(engine.state().streams).toEqual([]);
    expect(byName(engine, 'P0')).toBeUndefined();
  });

  it('drains: no new request goes there, the running one ends well, then it leaves', async () => {
    const prefill = await startSim({ role: 'prefill' });
    const [one, two] = await Promise.all([startSim({ role: 'decode', speed: 1 }), startSim({ role: 'decode' })]);
    const engine = await start({ instances: [{ role: 'prefill', url: prefill.url }, { role: 'decode', url: one.url }] });
    await Promise.all([up(engine, 'P0'), up(engine, 'D0')]);
    const running = complete(engine, { stream: true, max_tokens: 60, ignore_eos: true });
    const d0 = await waitFor('the request is on D0', () => ((byName(engine, 'D0')?.inFlight ?? 0) > 0 ? byName(engine, 'D0') : undefined));
    await engine.call('instance.add', { role: 'decode', url: two.url });
    expect(await engine.call('instance.drain', { id: d0.id })).toMatchObject({ state: 'draining', inFlight: 1 });
    await expect(engine.call('instance.remove', { id: d0.id })).rejects.toMatchObject({ code: 'instance_busy', message: expect.stringContaining('1 request in flight') });
    expect((await complete(engine)).status).toBe(200);
    expect(one.received.filter(({ path }) => path.startsWith('/v1/completions'))).toHaveLength(1);
    expect(await (await running).text()).toMatch(/data: \[DONE\]\n\n$/u);
    await waitFor('D0 has left', () => byName(engine, 'D0') === undefined);
  });

  it('keeps what was captured, and says what is not kept', async () => {
    const both = await startSim({ role: 'both' });
    const engine = await start({ instances: [{ role: 'both', url: both.url }], connector: 'plain' });
    await up(engine, 'B0');
    await engine.call('capture.set', { isOn: true });
    await (await complete(engine, { prompt: 'remember me' })).text();
    const row = await waitFor('the request ended', () => Array.from(engine.requests.rows()).find(({ state }) => state === 'ok'));
    const detail = await engine.call('requests.get', { id: row.id });
    expect(detail.clientBody?.text).toContain('remember me');
    expect(detail.legs.map(({ kind, outcome }) => `${kind} ${outcome}`)).toEqual(['prefill ok', 'decode ok']);
    expect(await engine.call('requests.clear', {})).toEqual({ cleared: 1 });
    await expect(engine.call('requests.get', { id: row.id })).rejects.toMatchObject({ code: 'request_not_found' });
  });

  it('switches policy and connector for new requests', async () => {
    const engine = await start();
    await engine.call('policy.set', { policy: 'random' });
    await engine.call('connector.set', { connector: 'plain' });
    expect(engine.state()).toMatchObject({ policy: 'random', connector: 'plain' });
  });

  it('opens the admin routes of the proxy with a key, and its metrics', async () => {
    const decode = await startSim({ role: 'decode' });
    const engine = await start({ adminApiKey: 'k' });
    const admin = (action: string, key: string) =>
      fetch(`${engine.proxyAddress.url.replace('/v1', '')}/instances/${action}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': key },
        body: JSON.stringify({ type: 'decode', instance: decode.url.replace('http://', '') }),
      });
    expect((await admin('add', 'wrong')).status).toBe(403);
    expect((await admin('add', 'k')).status).toBe(200);
    expect(byName(engine, 'D0')).toMatchObject({ role: 'decode', url: decode.url });
    expect((await admin('remove', 'k')).status).toBe(200);
    expect(engine.state().instances).toEqual([]);
    const metrics = await fetch(`${engine.proxyAddress.url.replace('/v1', '')}/metrics`);
    expect(await metrics.text()).toContain('# TYPE pdscope_');
  });

  it.each([
    ['policy.set', { policy: 'best' }, /policy.set: policy: .*round-robin/u],
    ['instance.add', { role: 'decode' }, /instance.add: url: /u],
    ['instance.add', 7, /instance.add: .*object/u],
    ['instance.add', { role: 'decode', url: '127.0.0.1:1', dpsize: 2 }, /instance.add: .*"dpsize"/u],
    ['instance.add', { role: 'decode', url: '127.0.0.1:1', kvEvents: { endpoint: 'tcp://127.0.0.1:1', replay: 'tcp://127.0.0.1:2' } }, /instance.add: kvEvents: .*"replay"/u],
    ['state.get', { verbose: true }, /state.get: .*"verbose"/u],
    ['series.query', { metrics: ['ttft'] }, /series.query: metrics.0: /u],
    ['kv.blocks', { hash: 'xyz' }, /kv.blocks: hash: /u],
  ] as const)('names the field of a bad input: %s', async (name, input, message) => {
    const engine = await start();
    await expect(engine.call(name, input)).rejects.toMatchObject({ code: 'bad_input', message: expect.stringMatching(message) });
  });

  it.each([
    [{ role: 'decode', url: 'ftp://h:1' }, /^address_/u],
    [{ role: 'decode', url: 'h:70000' }, /^address_/u],
    [{ role: 'decode', url: '127.0.0.1:1' }, /^instance_/u],
    [{ role: 'decode', url: '127.0.0.1:1', kvEvents: { endpoint: 'tcp://h' } }, /^kv_endpoint_invalid$/u],
  ])('refuses to add %j, with its reason', async (input, code) => {
    const engine = await start();
    await expect(engine.call('instance.add', input)).rejects.toMatchObject({ code: expect.stringMatching(code) });
    expect(engine.state().instances).toEqual([]);
  });

  it('refuses an instance that serves another model than was asked for, unless forced', async () => {
    const decode = await startSim({ role: 'decode', model: 'other' });
    const engine = await start({ model: 'wanted' });
    const input = { role: 'decode', url: decode.url };
    expect(await engine.call('instance.probe', input)).toMatchObject({ canForce: true, problem: expect.stringContaining('"wanted"') });
    await expect(engine.call('instance.add', input)).rejects.toMatchObject({ code: 'model_mismatch' });
    expect(await engine.call('instance.add', { ...input, force: true })).toMatchObject({ models: ['other'] });
  });

  it('refuses what only the demo has', async () => {
    const engine = await start();
    await expect(engine.call('sim.traffic', { requestsPerSecond: 1 })).rejects.toMatchObject({ code: 'not_simulated' });
    expect(engine.state().simulation).toBeUndefined();
  });

  it.each([
    [{ proxy: { port: 70_000 } }, 'bad_options', /proxy\.port/u],
    [{ instances: [{ role: 'decode', url: 'ftp://h:1' }] }, undefined, /ftp/u],
    [{ instances: [{ role: 'decode', url: 'h:1', kvEvents: { endpoint: 'tcp://h', topic: '', ranks: 1, mode: 'connect' } }] }, 'kv_endpoint_invalid', /port is missing/u],
  ] satisfies [Partial<EngineOptions>, string | undefined, RegExp][])('does not start with %j', async (options, code, message) => {
    await expect(start(options)).rejects.toMatchObject({ message: expect.stringMatching(message), ...(code !== undefined && { code }) });
  });

  it('says that the proxy port is taken, and leaves nothing running', async () => {
    const server: Server = createServer();
    const port = await new Promise<number>((resolve) => server.listen(0, '127.0.0.1', () => resolve((server.address() as { readonly port: number }).port)));
    closers.push(() => new Promise((resolve) => server.close(resolve)));
    await expect(start({ proxy: { port }, demo: { prefill: 1, decode: 1 } })).rejects.toMatchObject({ code: 'port_in_use', message: expect.stringContaining('--port') });
  });

  it('ends running streams when it closes, and is closed twice without harm', async () => {
    const both = await startSim({ role: 'both', speed: 1 });
    const engine = await start({ instances: [{ role: 'both', url: both.url }], connector: 'plain' });
    await up(engine, 'B0');
    const response = await complete(engine, { stream: true, max_tokens: 2000, ignore_eos: true });
    expect(response.status).toBe(200);
    const body = response.text().catch(() => 'cut');
    await Promise.all([engine.close(), engine.close()]);
    expect(await body).not.toContain('[DONE]');
    await expect(fetch(engine.proxyAddress.url)).rejects.toThrow('fetch failed');
  });
});

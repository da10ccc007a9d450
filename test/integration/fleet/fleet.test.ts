import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { request } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { Fleet } from '#engine/fleet/fleet.ts';
import type { FleetOptions } from '#engine/fleet/fleet-options.ts';
import { silentLogger } from '#engine/log.ts';
import { errorMessage } from '#shared/errors.ts';
import type { InstanceId } from '#shared/ids.ts';
import { reservePort } from '../../support/reserved-ports.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { startFakeEngine, until } from './fake-engine.ts';

const fleets: Fleet[] = [];

function newFleet(options: Partial<FleetOptions> = {}): Fleet {
  const fleet = new Fleet({ logger: silentLogger, healthIntervalMs: 40, scrapeIntervalMs: 40, probeTimeoutMs: WAIT_LIMIT_MS, ...options });
  fleets.push(fleet);
  return fleet;
}

afterEach(async () => {
  await Promise.all(fleets.splice(0).map((fleet) => fleet.close()));
});

/** For engines that do not answer: those that do answer sooner on a slow machine, too. */
const LATE_MS = 1500;

describe('joining', () => {
  it('adds a probed instance with what the probe found', async () => {
    await using engine = await startFakeEngine({ models: ['a/base', 'a/lora'], isSimulated: true });
    const fleet = newFleet();
    const instance = await fleet.add({ role: 'prefill', url: engine.address });
    expect(instance).toMatchObject({
      id: 'p0', name: 'P0', role: 'prefill', origin: `http://${engine.address}`, state: 'up', stateReason: undefined,
      models: ['a/base', 'a/lora'], version: '0.26.0', maxModelLen: 4096, isSimulated: true, breaker: 'closed',
    });
    expect(fleet.candidates('prefill').routable).toEqual([instance]);
    expect(fleet.candidates('decode')).toEqual({ routable: [], excluded: [] });
    expect(engine.headersSeen.every((headers) => headers['x-pdscope-probe'] === '1')).toBe(true);
  });

  it('names by role and order, and never reuses an id', async () => {
    await using engine = await startFakeEngine();
    await using other = await startFakeEngine();
    const fleet = newFleet();
    expect((await fleet.add({ role: 'decode', url: engine.address })).id).toBe('d0');
    expect((await fleet.add({ role: 'both', url: engine.address })).name).toBe('B0');
    expect((await fleet.add({ role: 'decode', url: other.address, name: 'big one' })).id).toBe('d1');
    await fleet.remove('d0' as InstanceId);
    expect((await fleet.add({ role: 'decode', url: engine.address })).id).toBe('d2');
    expect(fleet.list().map((instance) => instance.name)).toEqual(['B0', 'big one', 'D2']);
    await expect(fleet.add({ role: 'prefill', url: other.address, name: 'D2' })).rejects.toMatchObject({ code: 'instance_name_taken' });
  });

  it('refuses the same address in the same role, however it is written, also while the first is joining', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet();
    const first = fleet.add({ role: 'prefill', url: engine.address });
    await expect(fleet.add({ role: 'prefill', url: `http://${engine.address}/` })).rejects.toMatchObject({ code: 'instance_duplicate' });
    await first;
    await expect(fleet.add({ role: 'prefill', url: `HTTP://${engine.address}` })).rejects.toThrow(`http://${engine.address} is in the fleet already, as P0 (prefill).`);
    await expect(fleet.add({ role: 'decode', url: engine.address })).resolves.toMatchObject({ id: 'd0' });
    expect(fleet.findByAddress(engine.address, 'decode')?.id).toBe('d0');
    expect(fleet.findByAddress(engine.address, 'encode')).toBeUndefined();
  });

  it('refuses another model, naming both, unless forced', async () => {
    await using one = await startFakeEngine({ models: ['qwen'] });
    await using two = await startFakeEngine({ models: ['llama'] });
    const fleet = newFleet();
    await fleet.add({ role: 'prefill', url: one.address });
    await expect(fleet.add({ role: 'decode', url: two.address })).rejects.toMatchObject({ code: 'model_mismatch' });
    await expect(fleet.add({ role: 'decode', url: two.address })).rejects.toThrow(/"llama".*"qwen" \(P0\)/);
    expect(await fleet.probe({ role: 'decode', url: two.address })).toMatchObject({ isHealthy: true, canForce: true, models: ['llama'] });
    const forced = await fleet.add({ role: 'decode', url: two.address }, { force: true });
    expect(forced.state).toBe('up');
    expect(forced.stateReason).toContain('serves "llama"');
  });

  it('works over IPv6 and over a host name', async () => {
    const fleet = newFleet();
    await using six = await startFakeEngine({ host: '::1' });
    expect(await fleet.add({ role: 'prefill', url: six.address })).toMatchObject({ origin: `http://[::1]:${six.port}`, state: 'up' });
    await using four = await startFakeEngine();
    expect(await fleet.add({ role: 'decode', url: `LocalHost:${four.port}` })).toMatchObject({ origin: `http://localhost:${four.port}`, state: 'up' });
  });
});

describe('addresses that cannot join', () => {
  it('tells a refused connection, an unknown name, a timeout and a stranger apart', async () => {
    const fleet = newFleet({ probeTimeoutMs: LATE_MS });
    const port = await reservePort();
    await expect(fleet.add({ role: 'prefill', url: `127.0.0.1:${port}` }, { force: true })).rejects.toMatchObject({ code: 'instance_unreachable' });
    expect((await fleet.probe({ role: 'prefill', url: `127.0.0.1:${port}` })).problem).toContain('connection refused');
    expect((await fleet.probe({ role: 'prefill', url: 'no-such-host.invalid:80' })).problem).toContain('(DNS)');

    await using engine = await startFakeEngine();
    engine.on('/health', () => {});
    expect((await fleet.probe({ role: 'prefill', url: engine.address })).problem).toContain('no answer in time');
    engine.on('/health', undefined);
    expect((await fleet.probe({ role: 'prefill', url: `https://127.0.0.1:${engine.port}` })).problem).toContain('use http://');
    engine.on('/v1/models', (response) => response.end('<html>'));
    expect(await fleet.probe({ role: 'prefill', url: engine.address })).toMatchObject({ isReachable: true, isHealthy: true, canForce: true });
    expect((await fleet.probe({ role: 'prefill', url: engine.address })).problem).toContain('does not look like a vLLM server');
    await expect(fleet.add({ role: 'prefill', url: engine.address })).rejects.toMatchObject({ code: 'instance_not_vllm' });
    engine.on('/v1/models', (response) => response.writeHead(401).end('{"error":"Unauthorized"}'));
    await expect(fleet.add({ role: 'prefill', url: engine.address })).rejects.toMatchObject({ code: 'instance_unauthorized' });
    engine.on('/v1/models', undefined);
    engine.on('/health', (response) => response.writeHead(503).end());
    await expect(fleet.add({ role: 'prefill', url: engine.address })).rejects.toMatchObject({ code: 'instance_unhealthy' });
    engine.on('/health', (response) => response.writeHead(307, { location: 'http://elsewhere:1/' }).end());
    expect(await fleet.probe({ role: 'prefill', url: engine.address })).toMatchObject({ canForce: false, problem: expect.stringContaining('http://elsewhere:1/') as string });
    expect(fleet.list()).toEqual([]);
  });

  it('recognises a port that does not speak HTTP', async () => {
    const server = createServer((socket) => void socket.end('220 smtp ready\r\n'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    try {
      expect((await newFleet().probe({ role: 'prefill', url: `127.0.0.1:${port}` })).problem).toContain('does not speak HTTP');
    } finally {
      server.close();
    }
  });

  it('bounds what it reads', async () => {
    await using engine = await startFakeEngine();
    engine.on('/v1/models', (response) => response.end('x'.repeat(2 * 1024 * 1024)));
    expect((await newFleet().probe({ role: 'prefill', url: engine.address })).problem).toContain('larger than');
  });

  it('sends the API key it was given', async () => {
    await using engine = await startFakeEngine();
    await newFleet({ apiKey: 'sk-test' }).add({ role: 'prefill', url: engine.address });
    expect(engine.headersSeen[0]?.['authorization']).toBe('Bearer sk-test');
  });
});

describe('watching', () => {
  it('takes a configured instance in at once and lets it go up, down and up again', async () => {
    const port = await reservePort();
    const fleet = newFleet();
    const states: string[] = [];
    fleet.onChanged((instance) => states.push(instance.state));
    const instance = fleet.addConfigured({ role: 'decode', url: `127.0.0.1:${port}` });
    expect(instance.state).toBe('starting');
    expect(fleet.candidates('decode').excluded).toEqual([{ instance, reason: 'starting: not probed yet' }]);
    await until(() => instance.state, (state) => state === 'down');
    expect(instance.stateReason).toContain('connection refused');
    expect(fleet.candidates('decode').excluded[0]?.reason).toContain('down: connection refused');
    {
      await using engine = await startFakeEngine({ port, models: ['late/model'] });
      await until(() => instance.state, (state) => state === 'up');
      expect(instance.models).toEqual(['late/model']);
      expect(fleet.candidates('decode').routable).toEqual([instance]);
      expect(engine.seen).toContain('GET /version');
    }
    await until(() => instance.state, (state) => state === 'down');
    expect(fleet.list()).toEqual([instance]);
    expect(states).toEqual(['down', 'up', 'down']);
  });

  it('notices another model after a restart too quick for the health check, and ignores one failed question', async () => {
    await using engine = await startFakeEngine({ models: ['before'] });
    const fleet = newFleet({ healthIntervalMs: 10 });
    const instance = await fleet.add({ role: 'decode', url: engine.address });
    let asked = 0;
    engine.on('/v1/models', (response) => {
      asked += 1;
      response.writeHead(500).end();
    });
    await until(() => asked, (count) => count >= 2);
    expect(instance).toMatchObject({ state: 'up', models: ['before'] });
    engine.on('/v1/models', (response) => response.end('{"data":[{"id":"after"}]}'));
    await until(() => instance.models, (models) => models[0] === 'after');
    expect(instance.state).toBe('up');
  });

  it('forgives one late health answer but not two', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet({ probeTimeoutMs: LATE_MS });
    const instance = await fleet.add({ role: 'decode', url: engine.address });
    let hung = 0;
    engine.on('/health', (response) => {
      hung += 1;
      if (hung > 1) response.end();
    });
    await until(() => hung, (count) => count >= 3);
    expect(instance.state).toBe('up');
    engine.on('/health', () => {});
    await until(() => instance.state, (state) => state === 'down');
    expect(instance.stateReason).toContain('no answer in time');
  });

  it('keeps the others on time while some hang', async () => {
    // Longer than is waited for below: if those that hang held up the others, this would not end.
    const fleet = newFleet({ probeTimeoutMs: 10 * WAIT_LIMIT_MS });
    await using good = await startFakeEngine();
    await using hanging = await startFakeEngine();
    hanging.on('/health', () => {});
    hanging.on('/metrics', () => {});
    for (const role of ['encode', 'prefill', 'decode', 'both'] as const) fleet.addConfigured({ role, url: hanging.address });
    const instance = await fleet.add({ role: 'prefill', url: good.address });
    const before = good.seen.length;
    await until(() => good.seen.length, (count) => count > before + 20);
    expect(instance.state).toBe('up');
  });

  it('scrapes gauges, keeps them a while after a failure, then lets them go', async () => {
    const metrics = readFileSync(new URL('../../fixtures/golden/vllm-metrics.txt', import.meta.url), 'utf8');
    await using engine = await startFakeEngine({ metrics });
    const fleet = newFleet({ scrapeIntervalMs: 30 });
    const instance = await fleet.add({ role: 'prefill', url: engine.address });
    await until(() => instance.gauges, (gauges) => gauges?.promptTokensPerSecond !== undefined);
    expect(instance.gauges).toMatchObject({ running: 35, waiting: 10, promptTokensPerSecond: 0 });
    engine.on('/metrics', (response) => response.writeHead(404).end());
    await until(() => instance.scrapeError, (error) => error === 'GET /metrics answered 404');
    await until(() => instance.gauges, (gauges) => gauges === undefined);
    expect(instance.state).toBe('up');
  });
});

describe('breaker', () => {
  it('opens after consecutive failures and is closed by a later health check', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet({ breakerThreshold: 3 });
    const instance = await fleet.add({ role: 'decode', url: engine.address });
    const fail = (): void => {
      fleet.legStarted(instance);
      fleet.legEnded(instance, 'failed', 'status 500');
    };
    fail();
    fail();
    fleet.legStarted(instance);
    fleet.legEnded(instance, 'ok');
    fail();
    fail();
    expect(instance.breaker).toBe('closed');
    fail();
    expect(instance).toMatchObject({ breaker: 'open', consecutiveFailures: 3, served: 1, failed: 5, inFlight: 0 });
    expect(fleet.candidates('decode')).toEqual({ routable: [], excluded: [{ instance, reason: 'breaker open: 3 failures in a row, last: status 500' }] });
    await until(() => instance.breaker, (state) => state === 'closed');
    expect(fleet.candidates('decode').routable).toEqual([instance]);
    fail();
    expect(instance.breaker).toBe('open');
    expect(fleet.enable(instance.id).breaker).toBe('closed');
  });

  it('and health are void when the instance was started anew, also what a check under way tells of the process before', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet({ breakerThreshold: 1, healthIntervalMs: 10_000 });
    const instance = await fleet.add({ role: 'decode', url: engine.address });
    let refuse = (): void => undefined;
    engine.on('/health', (response) => {
      refuse = () => void response.writeHead(503).end();
    });
    const checks = (): number => engine.seen.filter((request) => request === 'GET /health').length;
    const before = checks();
    fleet.legStarted(instance);
    fleet.legEnded(instance, 'failed', 'cut');
    await until(checks, (count) => count > before);
    engine.on('/health', undefined);
    fleet.renew(instance.id);
    expect(instance).toMatchObject({ state: 'starting', breaker: 'closed', consecutiveFailures: 0 });
    expect(fleet.candidates('decode').routable).toEqual([]);
    refuse();
    await until(() => instance.state, (state) => state !== 'starting');
    expect(instance.state).toBe('up');
    expect(fleet.candidates('decode').routable).toEqual([instance]);
  });

  it('is not moved by aborted legs', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet();
    const instance = await fleet.add({ role: 'decode', url: engine.address });
    for (let count = 0; count < 5; count += 1) {
      fleet.legStarted(instance);
      fleet.legEnded(instance, 'aborted');
    }
    expect(instance).toMatchObject({ breaker: 'closed', consecutiveFailures: 0, served: 0, failed: 0, inFlight: 0 });
  });
});

it('is serving while a leg is in flight, also to an instance that left', async () => {
  await using first = await startFakeEngine();
  await using second = await startFakeEngine();
  const fleet = newFleet();
  const prefill = await fleet.add({ role: 'prefill', url: first.address });
  const decode = await fleet.add({ role: 'decode', url: second.address });
  expect(fleet.isServing).toBe(false);
  fleet.legStarted(prefill);
  fleet.legStarted(decode);
  fleet.legEnded(prefill, 'ok');
  await fleet.remove(decode.id, { force: true });
  expect(fleet.isServing).toBe(true);
  fleet.legEnded(decode, 'aborted');
  expect(fleet.isServing).toBe(false);
});

describe('leaving', () => {
  it('drains: no new legs, leaves when the last one ends', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet();
    const gone: string[] = [];
    fleet.onRemoved((instance) => gone.push(instance.id));
    const instance = await fleet.add({ role: 'decode', url: engine.address });
    fleet.legStarted(instance);
    fleet.legStarted(instance);
    expect(fleet.drain(instance.id).state).toBe('draining');
    expect(fleet.candidates('decode').excluded).toEqual([{ instance, reason: 'draining' }]);
    fleet.legEnded(instance, 'ok');
    expect(gone).toEqual([]);
    fleet.legEnded(instance, 'ok');
    expect(gone).toEqual(['d0']);
    expect(fleet.list()).toEqual([]);
    expect(fleet.get(instance.id)).toBeUndefined();
  });

  it('drains to disabled when it should stay, and can be called back', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet();
    const instance = await fleet.add({ role: 'decode', url: engine.address });
    fleet.legStarted(instance);
    fleet.drain(instance.id, { thenRemove: false });
    expect(fleet.enable(instance.id).state).toBe('up');
    fleet.drain(instance.id, { thenRemove: false });
    fleet.legEnded(instance, 'ok');
    expect(instance).toMatchObject({ state: 'disabled', stateReason: 'drained' });
    expect(fleet.enable(instance.id).state).toBe('up');
    expect(fleet.disable(instance.id)).toMatchObject({ state: 'disabled', stateReason: 'disabled by the operator' });
    expect(fleet.candidates('decode').excluded).toEqual([{ instance, reason: 'disabled' }]);
  });

  it('asks before it cancels what is in flight', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet();
    const instance = await fleet.add({ role: 'decode', url: engine.address });
    fleet.legStarted(instance);
    const leg = request(`${instance.origin}/hang`, { dispatcher: instance.pool });
    const failure = leg.then(() => 'answered', (error: unknown) => errorMessage(error));
    await until(() => engine.seen, (seen) => seen.includes('GET /hang'));
    await expect(fleet.remove(instance.id)).rejects.toMatchObject({ code: 'instance_busy', message: expect.stringContaining('1 request in flight') as string });
    expect(await fleet.remove(instance.id, { force: true })).toEqual({ removed: 'd0', cancelled: 1 });
    expect(await failure).toMatch(/D0 was removed/);
    fleet.legEnded(instance, 'failed');
    expect(fleet.list()).toEqual([]);
    await expect(fleet.remove(instance.id)).rejects.toMatchObject({ code: 'instance_not_found' });
  });

  it('keeps the candidates object until something changes', async () => {
    await using engine = await startFakeEngine();
    const fleet = newFleet();
    const instance = await fleet.add({ role: 'both', url: engine.address });
    const before = fleet.candidates('prefill');
    fleet.legStarted(instance);
    fleet.legEnded(instance, 'ok');
    expect(fleet.candidates('prefill')).toBe(before);
    expect(fleet.candidates('decode').routable).toEqual([instance]);
    expect(fleet.candidates('encode').routable).toEqual([]);
    fleet.disable(instance.id);
    expect(fleet.candidates('prefill')).not.toBe(before);
  });
});

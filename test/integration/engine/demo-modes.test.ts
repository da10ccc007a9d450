/** The demo in every P/D protocol: engines that fit it, traffic that works, and KV that was handed over, not computed twice. */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createEngine, type Engine } from '#engine/engine.ts';
import type { EngineOptions } from '#engine/engine-options.ts';
import type { RequestRow } from '#shared/request.ts';
import { CONNECTORS, type ConnectorName } from '#shared/vocabulary.ts';
import { waitFor } from './wait-for.ts';

const engines: Engine[] = [];
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close();
});

async function demo(connector: ConnectorName, shape: EngineOptions['demo'] = { prefill: 1, decode: 2 }, moriioPort = 0): Promise<Engine> {
  const engine = await createEngine({
    version: 'test', host: 'headless', proxy: { port: 0 }, protocol: { moriioPort }, connector, demo: { requestsPerSecond: 20, ...shape },
  });
  engines.push(engine);
  return engine;
}

const rows = (engine: Engine): RequestRow[] => Array.from(engine.requests.rows());
/** Requests since `from` that failed. */
const failures = (engine: Engine, from = 0): unknown[] => rows(engine).flatMap(({ n, state, error, connector }) => (n > from && state === 'error' ? [{ connector, error }] : []));

/** Requests of a connector that ended well since `from`. */
const okOf = (engine: Engine, connector: ConnectorName, from = 0): RequestRow[] =>
  rows(engine).filter((row) => row.n > from && row.connector === connector && row.state === 'ok');

/** Prompt tokens that instances with a name beginning so got from elsewhere, as their own metrics say. */
const external = (engine: Engine, prefix: string): number =>
  engine
    .state()
    .instances.filter(({ name }) => name.startsWith(prefix))
    .reduce((sum, { engine: gauges }) => sum + (gauges?.promptTokensBySource?.externalKvTransfer ?? 0), 0);

const PAIRED = CONNECTORS.filter((name) => name !== 'aggregated');

describe('the demo without disaggregation', () => {
  it('has instances that do everything, unless a shape was asked for', async () => {
    const engine = await demo('aggregated', {});
    await waitFor('requests of the protocol', () => okOf(engine, 'aggregated').length >= 25);
    expect(failures(engine)).toEqual([]);
    expect(engine.state().instances.map(({ role }) => role)).toEqual(['both', 'both', 'both', 'both', 'both']);
    const shaped = await demo('aggregated', { prefill: 1, decode: 1, both: 1 });
    await waitFor('requests with the shape', () => okOf(shaped, 'aggregated').length >= 5);
    expect(shaped.state().instances.map(({ role }) => role)).toEqual(['prefill', 'decode', 'both']);
  });
});

describe.each(PAIRED)('the demo with connector %s', (connector) => {
  it('serves its traffic without an error', async () => {
    const engine = await demo(connector);
    await waitFor('requests of the protocol', () => okOf(engine, connector).length >= 25);
    expect(failures(engine)).toEqual([]);
    const paired = okOf(engine, connector).filter(({ route }) => route.some(({ kind }) => kind === 'prefill'));
    expect(paired.length).toBeGreaterThan(10);
    await waitFor('decode instances report what they were handed', () => external(engine, 'D') > 0);
  });
});

describe('the demo, told to use another protocol', () => {
  it('goes on serving with every one in turn', async () => {
    const engine = await demo('nixl');
    await waitFor('traffic', () => okOf(engine, 'nixl').length >= 3);
    for (const connector of [...CONNECTORS.filter((name) => name !== 'nixl'), 'nixl' as const]) {
      await engine.call('connector.set', { connector });
      const from = engine.state().totals.received;
      await waitFor(`requests with ${connector}`, () => okOf(engine, connector, from).length >= 8);
      // What was under way at the switch may have left: clients are held back, but not waited for without end.
      expect({ connector, failed: failures(engine, from) }).toEqual({ connector, failed: [] });
    }
    expect(engine.state().instances.filter(({ role, state }) => role === 'both' && state !== 'disabled')).toEqual([]);
  });

  it('keeps the one it has when the other cannot come into force', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    try {
      const engine = await demo('nixl', { prefill: 1, decode: 1 }, port);
      await waitFor('traffic', () => okOf(engine, 'nixl').length >= 2);
      await expect(engine.call('connector.set', { connector: 'moriio' })).rejects.toMatchObject({ code: expect.any(String) });
      expect(engine.state().connector).toBe('nixl');
      const from = engine.state().totals.received;
      await waitFor('requests go on', () => okOf(engine, 'nixl', from).length >= 3);
      expect(failures(engine)).toEqual([]);
    } finally {
      taken.close();
    }
  });

  it('starts without configured pairs in MoRIIO and goes on with Mooncake', async () => {
    const engine = await demo('moriio');
    await waitFor('registered', () => engine.state().instances.filter(({ registeredBy }) => registeredBy === 'moriio').length === 3);
    await waitFor('traffic', () => okOf(engine, 'moriio').length >= 3);
    await engine.call('connector.set', { connector: 'mooncake' });
    const from = engine.state().totals.received;
    await waitFor('requests with mooncake', () => okOf(engine, 'mooncake', from).length >= 5);
    expect(engine.state().instances.map(({ name, registeredBy }) => `${name} ${registeredBy ?? 'configured'}`).toSorted()).toEqual([
      'D0 configured', 'D1 configured', 'P0 configured',
    ]);
  });
});

describe('the demo with an encode stage', () => {
  it('sends requests with media over it before the pair', async () => {
    const engine = await demo('nixl', { encode: 1, prefill: 1, decode: 1 });
    const encoded = await waitFor('requests with media', () => {
      const found = okOf(engine, 'nixl').filter(({ route }) => route.some(({ kind }) => kind === 'encode'));
      return found.length >= 5 && found;
    });
    expect(encoded[0]?.route.at(-1)?.kind).toBe('decode');
    expect(failures(engine)).toEqual([]);
  });
});

describe('the demo with data-parallel ranks', () => {
  it('finds them, and pins legs to them', async () => {
    const engine = await demo('nixl', { prefill: 1, decode: 1, dpSize: 2 });
    await waitFor('ranks found', () => engine.state().instances.every(({ dpSize }) => dpSize === 2));
    const from = engine.state().totals.received;
    await waitFor('both ranks used', () => {
      const ranks = okOf(engine, 'nixl', from).flatMap(({ route }) => route.flatMap(({ rank }) => (rank === undefined ? [] : [rank])));
      return new Set(ranks).size === 2;
    });
    expect(failures(engine)).toEqual([]);
  });
});

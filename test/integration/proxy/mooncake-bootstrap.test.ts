/** When bootstrap servers are asked, what is made of their answers, and the wait of decode for an engine that is gone. */
import { Agent } from 'undici';
import { expect, test } from 'vitest';
import type { Verdict } from '#shared/findings.ts';
import { ProtocolOptionsSchema, ProtocolSettingsSchema } from '#shared/protocol.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import { silentLogger } from '#engine/log.ts';
import { parseBody, type ClientRequest } from '#engine/proxy/client-request.ts';
import type { Answer, Connector, LegAnswer, LegContext, LegRequest } from '#engine/proxy/connectors/connector.ts';
import { createMooncake, type MooncakeTiming } from '#engine/proxy/connectors/mooncake.ts';
import { BootstrapEntry } from '#engine/proxy/connectors/mooncake/bootstrap-entry.ts';
import type { ProxyError } from '#engine/proxy/proxy-error.ts';
import { startBootstrap, type ScriptedBootstrap } from './bootstrap-server.ts';
import { BookScheduler, until, withRanks } from './harness.ts';

const TIMING = { queryMs: 20_000, pollMs: 20, maxPollMs: 40, minGapMs: 5 };

interface Setup extends AsyncDisposable {
  readonly bootstrap: ScriptedBootstrap;
  readonly fleet: BookScheduler;
  readonly instance: Instance;
  readonly connector: Connector;
  readonly findings: readonly Verdict[];
  row(index?: number): readonly unknown[];
}

async function setUp(table: ScriptedBootstrap['table'], over: Partial<Instance> = {}, timing: Partial<MooncakeTiming> = {}): Promise<Setup> {
  const bootstrap = await startBootstrap(table);
  const fleet = new BookScheduler();
  const instance = fleet.add('prefill', 'http://127.0.0.1:9', { bootstrapPort: bootstrap.port, ...over });
  const findings: Verdict[] = [];
  const protocol = ProtocolOptionsSchema.parse({});
  const connector = createMooncake(
    { fleet, logger: silentLogger, options: protocol, settings: () => ProtocolSettingsSchema.parse({}), report: (verdict) => void findings.push(verdict) },
    { ...TIMING, ...timing },
  );
  await connector.activate?.();
  return {
    bootstrap,
    fleet,
    instance,
    connector,
    findings,
    row: (index = 0) => connector.status().tables[0]?.rows[index] ?? [],
    async [Symbol.asyncDispose]() {
      await connector.close?.();
      await bootstrap.close();
      await Promise.all(fleet.instances.map(({ pool }) => pool.destroy()));
    },
  };
}

const worker = { '0': { '0': 'tcp://127.0.0.1:1' } };

test('a table that grows is asked for until all ranks and workers are in, then no more', async () => {
  await using setup = await setUp({}, { ...withRanks(2), transfer: { tpSize: 2 } });
  expect(setup.connector.refuses?.(setup.instance, 'prefill')).toContain('names no engine whose workers are all registered');
  setup.bootstrap.table = { '0': { engine_id: 'a', worker_addr: worker } };
  await until(() => setup.row()[4] === '1 x 1');
  expect(setup.connector.refuses?.(setup.instance, 'prefill')).toContain('bootstrap not answered yet');
  setup.bootstrap.table = { '0': { engine_id: 'a', worker_addr: { ...worker, '1': { '0': 'x' } } } };
  await until(() => setup.connector.refuses?.(setup.instance, 'prefill') === undefined);
  setup.bootstrap.table = { '0': { engine_id: 'a', worker_addr: { ...worker, '1': { '0': 'x' } } }, '1': { engine_id: 'b', worker_addr: { ...worker, '1': { '0': 'x' } } } };
  await until(() => setup.row(1)[5] === true);
  const asked = setup.bootstrap.questions;
  // Another instance's polling shows that time has passed.
  await using other = await setUp({});
  await until(() => other.bootstrap.questions > 4);
  expect(setup.bootstrap.questions).toBe(asked);
  expect(setup.connector.refuses?.(setup.instance, 'decode')).toBeUndefined();
});

test('down forgets, up asks again; any other change of facts asks and keeps', async () => {
  await using setup = await setUp({ '0': 'a' }, { dpSizeSource: 'given', transfer: { tpSize: 1 } });
  expect(setup.row()[3]).toBe('a');
  setup.bootstrap.table = (res) => void res.writeHead(503).end();
  setup.instance.state = 'down';
  setup.fleet.changed(setup.instance);
  expect(setup.connector.refuses?.(setup.instance, 'prefill')).toContain('bootstrap not answered yet');
  setup.bootstrap.table = { '0': 'b' };
  setup.instance.state = 'up';
  setup.fleet.changed(setup.instance);
  await until(() => setup.row()[3] === 'b');
  setup.bootstrap.table = { '0': 'c' };
  setup.instance.transfer = { tpSize: 1, engineId: 'c' };
  setup.fleet.changed(setup.instance);
  expect(setup.row()[3]).toBe('b');
  await until(() => setup.row()[3] === 'c');
  expect(setup.connector.status().notices).toEqual([]);
  setup.instance.transfer = { tpSize: 1, engineId: 'd' };
  expect(setup.connector.status().notices).toEqual([{ severity: 'warning', message: expect.stringContaining('names engine c, /server_info d') }]);
});

test('one late answer keeps what is known; a refused connection and a third miss do not', async () => {
  await using setup = await setUp({ '0': 'a' }, { dpSizeSource: 'given', transfer: { tpSize: 1 } });
  const { entry } = await entryOf(setup);
  setup.bootstrap.table = (res) => void res.writeHead(500).end();
  await entry.ask();
  expect(entry.refusal).toBeUndefined();
  await until(() => entry.strikes >= 3);
  expect(entry.refusal).toContain('it answered 500');
  setup.bootstrap.table = { '0': 'a' };
  await until(() => entry.refusal === undefined);
  await setup.bootstrap.close();
  await entry.ask();
  expect(entry.refusal).toContain('connection refused');
  entry.close();
});

/** An entry of its own over the same server. */
async function entryOf({ bootstrap, instance }: Setup): Promise<{ readonly entry: BootstrapEntry }> {
  const entry = new BootstrapEntry({ instance, address: `http://127.0.0.1:${bootstrap.port}`, dispatcher: new Agent({ connections: 1 }), timing: TIMING, onAsked: () => undefined });
  await entry.ask();
  return { entry };
}

test('any number of doubts costs one further question', async () => {
  await using setup = await setUp({ '0': 'a' }, { dpSizeSource: 'given', transfer: { tpSize: 1 } });
  const { entry } = await entryOf(setup);
  const before = setup.bootstrap.questions;
  setup.bootstrap.table = { '0': 'b' };
  for (let doubt = 0; doubt < 100; doubt++) entry.doubt();
  await entry.settled();
  expect(entry.engineIdOf(0)).toBe('b');
  expect(setup.bootstrap.questions - before).toBeLessThanOrEqual(2);
  entry.close();
});

test('global rank numbers of a node behind a hybrid balancer are pinned by their local ones', async () => {
  await using setup = await setUp({ '4': 'e_dp4', '5': 'e_dp5' }, withRanks(2));
  const { entry } = await entryOf(setup);
  expect([entry.pick(0), entry.pick(1)]).toEqual([{ rank: 4, engineId: 'e_dp4', pinned: 0 }, { rank: 5, engineId: 'e_dp5', pinned: 1 }]);
  // External balancing: one rank per address, nothing to pin.
  setup.bootstrap.table = { '7': 'e_dp7' };
  Object.assign(setup.instance, withRanks(1));
  await entry.ask();
  expect(entry.pick(undefined)).toEqual({ rank: 7, engineId: 'e_dp7', pinned: undefined });
  // More ranks in the table than anybody told of: all are used in turn.
  setup.bootstrap.table = { '0': 'a', '1': 'b' };
  Object.assign(setup.instance, { dpSizeSource: 'default' });
  await entry.ask();
  expect([entry.pick(undefined), entry.pick(undefined)].map((slot) => slot?.pinned)).toEqual([0, 1]);
  entry.close();
});

test('an instance that is up without a bootstrap server becomes a finding, once', async () => {
  await using setup = await setUp((res) => void res.writeHead(404).end());
  await until(() => setup.findings.length > 0);
  await until(() => setup.bootstrap.questions > 8);
  expect(setup.findings.map(({ code, instance }) => [code, instance])).toEqual([['bootstrap_unanswered', setup.instance.id]]);
});

test('nothing is asked before the protocol is in force, after another took over, and after the end', async () => {
  await using setup = await setUp({});
  await setup.connector.deactivate?.();
  const asked = setup.bootstrap.questions;
  setup.fleet.changed(Object.assign(setup.instance, { version: '2' }));
  await using other = await setUp({});
  await until(() => other.bootstrap.questions > 4);
  expect(setup.bootstrap.questions - asked).toBeLessThanOrEqual(1);
  await setup.connector.activate?.();
  await until(() => setup.bootstrap.questions > asked + 3);
  await setup.connector.close?.();
  const closed = setup.bootstrap.questions;
  await until(() => other.bootstrap.questions > 12);
  expect(setup.bootstrap.questions).toBe(closed);
});

/** A request whose prefill leg ends at once by length and whose decode leg waits until it is cancelled. */
class WaitingContext implements LegContext {
  readonly request: ClientRequest;
  readonly reported: Verdict[] = [];
  #cancel: ((reason: ProxyError) => void) | undefined;
  readonly #prefill: Instance;
  readonly #decode: Instance;
  isOpen = false;

  constructor(prefill: Instance, decode: Instance, isStream: boolean) {
    const body = Buffer.from(JSON.stringify({ prompt: 'x', stream: isStream }));
    this.request = { api: 'completions', requestId: 'r', headers: {}, body, ...parseBody(body), isStream };
    this.#prefill = prefill;
    this.#decode = decode;
  }

  choose(kind: string): { readonly instance: Instance } {
    return { instance: kind === 'prefill' ? this.#prefill : this.#decode };
  }

  call(_leg: LegRequest): Promise<LegAnswer> {
    return Promise.resolve({ rawHeaders: [], body: Buffer.from('{}'), members: [], facts: { finishReason: 'length' } });
  }

  open(_leg: LegRequest): Promise<Answer> {
    this.isOpen = true;
    return new Promise((_resolve, reject) => {
      this.#cancel = reject;
    });
  }

  repeat<T>(): Promise<T> {
    return Promise.reject(new Error('not scripted'));
  }

  cancelLegs(reason: ProxyError): void {
    this.#cancel?.(reason);
  }

  report(verdict: Verdict): void {
    this.reported.push(verdict);
  }
}

test('decode that is silent after prefill has answered: the server is asked, and only another engine id ends the wait', async () => {
  await using setup = await setUp({ '0': 'a' }, { dpSizeSource: 'given', transfer: { tpSize: 1 } }, { graceMs: 40 });
  const context = new WaitingContext(setup.instance, setup.fleet.add('decode', 'http://127.0.0.1:9'), true);
  const asked = setup.bootstrap.questions;
  const outcome = setup.connector.run(context).catch((error: unknown) => error);
  // Several questions, and still waiting: a slow queue is not a stale engine.
  await until(() => setup.bootstrap.questions > asked + 3);
  expect(context.reported).toEqual([]);
  setup.bootstrap.table = { '0': 'b' };
  expect(await outcome).toMatchObject({ code: 'prefill_restarted', leg: 'prefill', retryable: true, mayRepeatOnSame: true });
  expect(context.reported.map(({ code }) => code)).toEqual(['prefill_restarted']);
  expect(context.reported[0]?.message).toContain('engine a');
});

test('a whole answer has no first byte: the wait ends unless decode says that nobody waits for KV', async () => {
  await using setup = await setUp({ '0': 'a' }, { dpSizeSource: 'given', transfer: { tpSize: 1 } }, { graceMs: 40 });
  const decode = setup.fleet.add('decode', 'http://127.0.0.1:9');
  const context = new WaitingContext(setup.instance, decode, false);
  const outcome = setup.connector.run(context).catch((error: unknown) => error);
  await until(() => context.isOpen);
  decode.gauges = { scrapedAtUnixMs: Date.now() + 60_000, waitingDeferred: 0 };
  setup.bootstrap.table = { '0': 'b' };
  await until(() => setup.row()[3] === 'b');
  expect(context.reported).toEqual([]);
  decode.gauges = { scrapedAtUnixMs: Date.now() + 60_000, waitingDeferred: 1 };
  expect(await outcome).toMatchObject({ code: 'prefill_restarted' });
});

test('prefill that died while decode waits ends the wait, even if it never comes back', async () => {
  await using setup = await setUp({ '0': 'a' }, { dpSizeSource: 'given', transfer: { tpSize: 1 } }, { graceMs: 40 });
  const context = new WaitingContext(setup.instance, setup.fleet.add('decode', 'http://127.0.0.1:9'), true);
  const outcome = setup.connector.run(context).catch((error: unknown) => error);
  await until(() => context.isOpen);
  await setup.bootstrap.close();
  setup.instance.state = 'down';
  setup.fleet.changed(setup.instance);
  expect(await outcome).toMatchObject({ code: 'prefill_restarted' });
  expect(context.reported[0]?.message).toContain('not registered at its bootstrap server');
});

test('an entry closed while a question waits to follow another one asks no more, and holds nothing up', async () => {
  await using bootstrap = await startBootstrap(() => undefined);
  const instance = new BookScheduler().add('prefill', 'http://127.0.0.1:9');
  const dispatcher = new Agent();
  const entry = new BootstrapEntry({ instance, address: `http://127.0.0.1:${bootstrap.port}`, dispatcher, timing: TIMING, onAsked: () => undefined });
  entry.doubt();
  await until(() => bootstrap.questions === 1);
  entry.doubt();
  entry.close();
  // Would never come back if closing left the entry asking itself.
  await entry.settled();
  await new Promise((resolve) => setImmediate(resolve));
  entry.doubt();
  await entry.settled();
  expect([bootstrap.questions, entry.questions]).toEqual([1, 1]);
  await Promise.all([dispatcher.destroy(), instance.pool.destroy()]);
});

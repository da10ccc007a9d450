/** MoRIIO registration over real sockets: who joins, what is refused, and when the port is open. */
import { expect, test } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import { reservePort } from '../../support/reserved-ports.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { CHAT_BODY, post, startHarness, until, type Harness } from './harness.ts';
import { ANSWER, READ_PARAMS, ask, codes, endpointOf, only, paramsOf, prefillAnswer, startCluster, startGate, startMoriio } from './moriio-cluster.ts';
import { startPinger, v1, v2 } from './moriio-engine.ts';
import { events, startUpstream } from './scripted-upstream.ts';

test('nothing registered: 503 names the reason, and an instance configured by hand cannot be used before it registers', async () => {
  await using prefill = await startUpstream(prefillAnswer());
  await using decode = await startUpstream(events(ANSWER));
  const { harness } = await startMoriio({ prefill: [prefill.origin], decode: [decode.origin] });
  await using _harness = harness;
  const url = `${harness.origin}/v1/chat/completions`;
  const refused = await post(url, CHAT_BODY);
  expect(refused.status).toBe(503);
  expect(await refused.text()).toContain('no MoRIIO registration');
  expect(harness.proxy.connectorStatus().notices.map(({ message }) => message).join('\n')).toContain('"proxy_ping_port"');
  using pinger = startPinger(endpointOf(harness));
  await pinger.send(v2('P', prefill.port, { dp: 2 }));
  await pinger.send(v1('D', decode.port));
  await until(() => harness.proxy.connectorStatus().tables[0]?.total === 2);
  expect(await (await post(url, CHAT_BODY)).text()).toContain('[DONE]');
  // Matched with those that were there, ranks taken over.
  expect(harness.scheduler.instances.map(({ name, registeredBy, dpSize, dpSizeSource }) => ({ name, registeredBy, dpSize, dpSizeSource }))).toEqual([
    { name: 'P0', registeredBy: undefined, dpSize: 2, dpSizeSource: 'registration' },
    { name: 'D0', registeredBy: undefined, dpSize: 1, dpSizeSource: 'registration' },
  ]);
});

test('an instance of another transfer mode is refused with the reason, until it changes', async () => {
  await using cluster = await startCluster();
  const other = await cluster.addEngine('D', events(ANSWER), { mode: 'READ' });
  for (let request = 0; request < 3; request++) await (await ask(cluster)).text();
  expect(other.received).toEqual([]);
  expect(cluster.harness.tracer.last.decisions[1]?.excluded).toEqual([{ instance: 'd1', name: 'D1', reason: 'transfer mode READ, but WRITE is in force' }]);
  expect(codes(cluster.findings)).toEqual(['transfer_mode_mismatch']);
  expect(cluster.harness.proxy.connectorStatus().notices[0]?.message).toContain('D1: registered with another transfer mode than WRITE');
  await cluster.pinger.send(v2('D', other.port));
  await until(() => cluster.harness.proxy.connectorStatus().notices.length === 0);
  for (let request = 0; request < 3; request++) await (await ask(cluster)).text();
  expect(other.received.length).toBeGreaterThan(0);
});

test('engines that name a host outside the allowed ones do not join, whatever their other address is', async () => {
  await using decode = await startUpstream(events(ANSWER));
  const { harness, findings } = await startMoriio({ protocol: { moriioHost: '127.0.0.1', moriioPort: 0, moriioAllow: ['127.0.0.1', '10.0.0.0/24'] } });
  await using _harness = harness;
  using pinger = startPinger(endpointOf(harness));
  for (let ping = 0; ping < 2; ping++) await pinger.send(v2('D', decode.port, { zmqHost: '10.0.1.1' }));
  await pinger.send({ ...v2('D', decode.port), http_address: '203.0.113.9:8000' });
  await pinger.send(v2('D', decode.port));
  await until(() => harness.scheduler.instances.length === 1);
  const { facts, tables } = harness.proxy.connectorStatus();
  expect(facts.find(({ title }) => title === 'Refused: hosts not allowed')?.value).toBe(3);
  expect(tables.map(({ total }) => total)).toEqual([1, 2]);
  expect(findings.map(({ code, message }) => [code, message])).toEqual([
    ['moriio_not_allowed', `${decode.origin} registers, but 10.0.1.1 is not among the hosts that may: it was ignored.`],
    ['moriio_not_allowed', 'http://203.0.113.9:8000 registers, but 203.0.113.9 is not among the hosts that may: it was ignored.'],
  ]);
});

test('what is no registration is counted and shown, reported once per kind, and hurts nothing', async () => {
  await using cluster = await startCluster();
  const { pinger, harness } = cluster;
  await pinger.send({ type: 'HELLO' });
  for (let message = 0; message < 3; message++) await pinger.sendBytes(Buffer.from('not msgpack'));
  await pinger.sendBytes(Buffer.of(1), Buffer.of(2), Buffer.of(3));
  await pinger.send({ type: 'P', http_address: '10.0.1.2:20001', zmq_address: '10.0.1.2:21001' });
  await pinger.sendBytes(Buffer.alloc(5000));
  await pinger.send(v2('P', cluster.prefill.port));
  const factOf = (title: string): unknown => harness.proxy.connectorStatus().facts.find((fact) => fact.title === title)?.value;
  await until(() => factOf('Registrations received') === 3);
  expect(factOf('Refused: malformed messages')).toBe(5);
  expect(factOf('Refused: P2P-NCCL heartbeats')).toBe(1);
  expect(factOf('HELLO messages')).toBe(1);
  expect(codes(cluster.findings)).toEqual(['moriio_malformed_message', 'moriio_malformed_message', 'p2p_nccl_engine', 'moriio_malformed_message']);
  const refused = harness.proxy.connectorStatus().tables[1];
  expect(refused?.rows.map(([what, , count]) => [what, count])).toEqual([
    ['malformed message', 1],
    ['P2P-NCCL heartbeat of "10.0.1.2:20001"', 1],
    ['malformed message', 1],
    ['malformed message', 3],
  ]);
  expect(await (await ask(cluster)).text()).toContain('[DONE]');
});

test('the port is bound while the protocol is in force only; running requests work on', async () => {
  const port = await reservePort();
  await using cluster = await startCluster({ mode: 'READ', harness: { protocol: { moriioHost: '127.0.0.1', moriioPort: port } } });
  const { harness } = cluster;
  const gate = startGate();
  cluster.prefill.script = async (res, request, index) => {
    await gate.passed;
    await prefillAnswer(READ_PARAMS)(res, request, index);
  };
  const running = ask(cluster);
  await until(() => cluster.prefill.received.length === 1);
  const taker = await startHarness({ connector: 'plain', protocol: { moriioHost: '127.0.0.1', moriioPort: port } });
  await using _taker = taker;
  await expect(taker.proxy.setConnector('moriio')).rejects.toMatchObject({ code: 'port_in_use' });
  await harness.proxy.setConnector('plain');
  await bound(taker);
  gate.open();
  expect(await (await running).text()).toBe(ANSWER.join(''));
  expect(paramsOf(only(cluster.decode))).toMatchObject({ remote_engine_id: '10.0.0.1:6301' });
});

/** Switches to MoRIIO as soon as its port is free: libzmq gives ports back in the background. */
async function bound({ proxy }: Harness): Promise<void> {
  const deadline = performance.now() + WAIT_LIMIT_MS;
  while (proxy.connector !== 'moriio') {
    await proxy.setConnector('moriio').catch((error: unknown) => {
      if (!(error instanceof PdscopeError && error.code === 'port_in_use') || performance.now() > deadline) throw error;
    });
  }
}

test('a port that is taken: the switch does not happen, and the error says what to do', async () => {
  await using cluster = await startCluster();
  const port = Number(endpointOf(cluster.harness).split(':').at(-1));
  const other = await startHarness({ connector: 'plain', protocol: { moriioHost: '127.0.0.1', moriioPort: port } });
  await using _other = other;
  await expect(other.proxy.setConnector('moriio')).rejects.toMatchObject({ code: 'port_in_use', message: expect.stringContaining('--moriio-port') as string });
  expect(other.proxy.connector).toBe('plain');
});

test('back in force on the same port, registrations are still known and new ones are heard', async () => {
  await using cluster = await startCluster();
  const again = await startHarness({ connector: 'moriio', protocol: { moriioHost: '127.0.0.1', moriioPort: await reservePort() } });
  await using _again = again;
  using pinger = startPinger(endpointOf(again));
  await pinger.send(v2('P', cluster.prefill.port));
  await pinger.send(v2('D', cluster.decode.port));
  await until(() => again.scheduler.instances.length === 2);
  const endpoint = endpointOf(again);
  for (let turn = 0; turn < 3; turn++) {
    await again.proxy.setConnector('plain');
    await again.proxy.setConnector('moriio');
  }
  expect(endpointOf(again)).toBe(endpoint);
  const url = `${again.origin}/v1/chat/completions`;
  expect(await (await post(url, CHAT_BODY)).text()).toContain('[DONE]');
  await pinger.send(v2('D', cluster.decode.port, { tp: 8 }));
  await until(() => again.proxy.connectorStatus().tables[0]?.rows.some((row) => row[5] === 8));
});

test('an address that is not this machine\'s: listening fails, and the error says what to do', async () => {
  await using other = await startHarness({ connector: 'plain', protocol: { moriioHost: '203.0.113.7', moriioPort: 0 } });
  await expect(other.proxy.setConnector('moriio')).rejects.toMatchObject({ code: 'listen_failed', message: expect.stringContaining('--moriio-host') as string });
});

test.each([0, 1])('a switch under way when pdscope closes leaves no socket open (%s turns of the event loop before)', async (turns) => {
  const harness = await startHarness({ connector: 'plain', protocol: { moriioHost: '127.0.0.1', moriioPort: 0 } });
  const switching = harness.proxy.setConnector('moriio').catch(() => undefined);
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
  await harness[Symbol.asyncDispose]();
  await switching;
  // Either it did not happen any more, or what it opened was closed.
  expect([undefined, 'closed']).toContain(harness.proxy.connectorStatus().facts.find(({ title }) => title === 'Registration socket')?.value);
});

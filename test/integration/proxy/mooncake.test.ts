/** Mooncake over scripted engines and a scripted bootstrap server: what goes over the wire, and every failure of a pair. */
import { expect, test } from 'vitest';
import type { StatusCell } from '#shared/protocol.ts';
import { startBootstrap, type ScriptedBootstrap } from './bootstrap-server.ts';
import { CHAT_BODY, post, startHarness, until, withRanks, type Harness, type HarnessOptions } from './harness.ts';
import { events, json, startUpstream, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

/** A whole answer, and a prefill answer when it ends by length. */
const DONE = { id: 'x', choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'length' }], usage: { prompt_tokens: 3, completion_tokens: 1 }, kv_transfer_params: null };
const HANG: Script = () => undefined;
const RESET: Script = (res) => void res.socket?.destroy();
const EMPTY: Script = (res) => void res.end();

interface Pair extends AsyncDisposable, Pick<Harness, 'proxy' | 'origin' | 'scheduler' | 'tracer'> {
  readonly prefill: ScriptedUpstream;
  readonly decode: ScriptedUpstream;
  readonly bootstrap: ScriptedBootstrap;
  chat(body?: object, headers?: Record<string, string>, signal?: AbortSignal): Promise<Response>;
}

interface PairOptions extends Partial<HarnessOptions> {
  readonly prefillScript?: Script;
  readonly decodeScript?: Script;
  readonly table?: ScriptedBootstrap['table'];
}

async function startPair({ prefillScript = json(DONE), decodeScript = json(DONE), table = { '0': 'engine-1' }, ...options }: PairOptions = {}): Promise<Pair> {
  const bootstrap = await startBootstrap(table);
  const prefill = await startUpstream(prefillScript);
  const decode = await startUpstream(decodeScript);
  const harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'mooncake', protocol: { bootstrapPort: bootstrap.port }, ...options });
  return {
    ...harness,
    prefill,
    decode,
    bootstrap,
    chat: (body = CHAT_BODY, headers = {}, signal) => post(`${harness.origin}/v1/chat/completions`, body, headers, signal),
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await Promise.all([prefill.close(), decode.close(), bootstrap.close()]);
    },
  };
}

function params(upstream: ScriptedUpstream, index = 0): Record<string, unknown> {
  return upstream.received[index]?.json['kv_transfer_params'] as Record<string, unknown>;
}

function rows(pair: Pick<Pair, 'proxy'>): readonly (readonly StatusCell[])[] {
  return pair.proxy.connectorStatus().tables[0]?.rows ?? [];
}

function codes({ tracer }: Pick<Pair, 'tracer'>): string[] {
  return tracer.last.verdicts.map(({ code }) => code);
}

test('both legs run at once with one transfer id; decode is told engine id and bootstrap server', async () => {
  let release: (() => void) | undefined;
  await using pair = await startPair({
    // Prefill answers only when decode was asked as well.
    prefillScript: (res, request, index) => void until(() => pair.decode.received.length > 0).then(() => json(DONE)(res, request, index)),
    decodeScript: (res, request, index) => {
      release = () => void json(DONE)(res, request, index);
    },
  });
  const answer = pair.chat({ ...CHAT_BODY, stop: ['x'], stop_token_ids: [3], min_tokens: 4, max_tokens: 8 });
  await until(() => pair.tracer.requests[0]?.legs[0]?.outcome === 'ok' && release);
  release?.();
  expect((await answer).status).toBe(200);
  expect(params(pair.prefill)).toEqual({ do_remote_decode: true, do_remote_prefill: false, transfer_id: expect.stringMatching(/^xfer-[0-9a-f-]{36}$/) });
  expect(params(pair.decode)).toEqual({
    do_remote_decode: false,
    do_remote_prefill: true,
    remote_bootstrap_addr: `http://127.0.0.1:${pair.bootstrap.port}`,
    remote_engine_id: 'engine-1',
    transfer_id: params(pair.prefill)['transfer_id'],
  });
  expect(pair.prefill.received[0]?.json).toMatchObject({ max_tokens: 1, ignore_eos: true });
  expect(Object.keys(pair.prefill.received[0]?.json ?? {})).not.toEqual(expect.arrayContaining(['stop']));
  expect(pair.prefill.received[0]?.json).not.toHaveProperty('stop_token_ids');
  expect(pair.prefill.received[0]?.json).not.toHaveProperty('min_tokens');
  expect(pair.decode.received[0]?.json).toMatchObject({ max_tokens: 8, stop: ['x'], stop_token_ids: [3], min_tokens: 4 });
  expect(pair.prefill.received[0]?.headers).not.toHaveProperty('x-data-parallel-rank');
  expect(pair.tracer.last.legs.map(({ init: { kind }, outcome }) => [kind, outcome])).toEqual([['prefill', 'ok'], ['decode', 'ok']]);
});

test('bootstrap servers are asked when the protocol comes into force, not per request', async () => {
  await using pair = await startPair();
  await until(() => rows(pair)[0]?.[5] === true);
  const asked = pair.bootstrap.questions;
  for (let request = 0; request < 20; request++) expect((await pair.chat()).status).toBe(200);
  expect(pair.bootstrap.questions).toBe(asked);
  expect(new Set(pair.prefill.received.map((_, index) => params(pair.prefill, index)['transfer_id'])).size).toBe(20);
  expect(rows(pair)[0]).toEqual([{ instance: 'p0', name: 'P0' }, `http://127.0.0.1:${pair.bootstrap.port}`, 0, 'engine-1', '1 x 1', true, { atUnixMs: expect.any(Number) }, null]);
});

test.each([
  ['a refusal', json({ error: { message: 'prompt too long', type: 'BadRequestError', code: 400 } }, 400), 400, 'prompt too long', 1],
  ['a failure', json({ error: { message: 'engine dead', type: 'InternalServerError', code: 500 } }, 500), 500, 'engine dead', 1],
  ['a reset', RESET, 502, 'closed the connection', 2],
  ['an empty answer', EMPTY, 502, 'empty body', 1],
] as const)('prefill with %s cancels decode at once, and the client gets its status', async (_what, prefillScript, status, message, tries) => {
  await using pair = await startPair({ prefillScript, decodeScript: HANG });
  const answer = await pair.chat();
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({ error: { message: expect.stringContaining(message) }, pdscope: { leg: 'prefill', instance_name: 'P0' } });
  expect(pair.prefill.received).toHaveLength(tries);
  await until(() => pair.decode.received.every(({ isAborted }) => isAborted));
  expect(pair.tracer.last.legs.filter(({ init: { kind } }) => kind === 'decode').every(({ outcome }) => outcome === 'aborted')).toBe(true);
  expect(pair.scheduler.inFlight).toBe(0);
});

test('prefill that never answers ends with its headers timeout, and takes decode along', async () => {
  await using pair = await startPair({ prefillScript: HANG, decodeScript: HANG, timeouts: { headersMs: 300 }, maxRetries: 0 });
  const answer = await pair.chat();
  expect(answer.status).toBe(504);
  // Both time out at the same moment; whichever is first, both are over.
  await until(() => pair.prefill.received[0]?.isAborted && pair.decode.received[0]?.isAborted);
});

test('a failing prefill is replaced by another one, with a new transfer id', async () => {
  await using pair = await startPair({ prefillScript: json({ error: { message: 'no' } }, 500), decodeScript: (res, request, index) => void (index > 0 && json(DONE)(res, request, index)) });
  await using other = await startUpstream(json(DONE));
  pair.scheduler.join({ role: 'prefill', url: other.origin }, 'moriio');
  await until(() => rows(pair).length === 2 && rows(pair).every(([, , , engineId]) => engineId === 'engine-1'));
  expect((await pair.chat()).status).toBe(200);
  expect(pair.prefill.received).toHaveLength(1);
  expect(params(other)['transfer_id']).toBe(params(pair.decode, 1)['transfer_id']);
  expect(params(other)['transfer_id']).not.toBe(params(pair.decode, 0)['transfer_id']);
  expect(pair.tracer.last.retries).toBe(1);
});

test.each([
  // A failure of the instance may be a stale engine id; a refusal of the request is not.
  ['a refusal', json({ error: { message: 'bad field' } }, 400), 400, 1, false],
  ['a failure', json({ error: { message: 'load failed' } }, 500), 500, 2, true],
  ['a reset', RESET, 502, 2, true],
] as const)('decode with %s cancels prefill', async (_what, decodeScript, status, tries, isDoubtful) => {
  await using pair = await startPair({ prefillScript: HANG, decodeScript });
  await until(() => rows(pair)[0]?.[5] === true);
  const before = pair.bootstrap.questions;
  const answer = await pair.chat();
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({ pdscope: { leg: 'decode' } });
  expect(pair.decode.received).toHaveLength(tries);
  await until(() => pair.prefill.received.every(({ isAborted }) => isAborted));
  await until(() => pair.bootstrap.questions > before === isDoubtful);
});

test('a failed decode leg whose prefill had ended leaves KV behind, and says so', async () => {
  await using pair = await startPair({
    maxRetries: 0,
    decodeScript: (res, request, index) => void until(() => pair.tracer.last.legs[0]?.outcome).then(() => json({ error: { message: 'load failed' } }, 500)(res, request, index)),
  });
  expect((await pair.chat()).status).toBe(500);
  expect(codes(pair)).toEqual(['kv_left_behind']);
});

test('the engine id of the new life is used after a decode failure', async () => {
  await using pair = await startPair({
    decodeScript: (res, request, index) => {
      const isCurrent = (request.json['kv_transfer_params'] as { remote_engine_id: string }).remote_engine_id === 'engine-2';
      void (isCurrent ? json(DONE) : json({ error: { message: 'engine-1 is not here' } }, 500))(res, request, index);
    },
  });
  pair.bootstrap.table = { '0': 'engine-2' };
  expect((await pair.chat()).status).toBe(200);
  expect(pair.decode.received.map((_, index) => params(pair.decode, index)['remote_engine_id'])).toEqual(['engine-1', 'engine-2']);
});

test.each([true, false])('prefill that ends by stop has kept nothing: decode runs again without parameters (stream: %s)', async (stream) => {
  const stopped = { ...DONE, choices: [{ index: 0, message: { content: '' }, finish_reason: 'stop' }] };
  await using pair = await startPair({
    prefillScript: json(stopped),
    decodeScript: (res, request, index) => {
      if (request.json['kv_transfer_params'] !== undefined) return;
      void (stream ? events(['data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n', 'data: [DONE]\n\n']) : json(stopped))(res, request, index);
    },
  });
  const answer = await pair.chat({ ...CHAT_BODY, stream });
  expect(answer.status).toBe(200);
  await answer.text();
  expect(codes(pair)).toEqual(['prefill_kept_no_kv']);
  expect(pair.prefill.received).toHaveLength(1);
  expect(pair.decode.received).toHaveLength(2);
  await until(() => pair.decode.received[0]?.isAborted);
  expect(pair.decode.received[1]?.json).toEqual({ ...CHAT_BODY, stream });
  expect(pair.tracer.last.retries).toBe(0);
});

test('requests that begin while a restart is looked into wait for the new engine id', async () => {
  await using pair = await startPair();
  const [instance] = pair.scheduler.instances;
  if (instance === undefined) throw new Error('no instance');
  pair.bootstrap.table = (res) => {
    const body = JSON.stringify({ '0': { engine_id: 'engine-2', worker_addr: { '0': { '0': 'tcp://h:1' } } } });
    setImmediate(() => void res.end(body));
  };
  instance.transfer = { engineId: 'engine-2' };
  pair.scheduler.changed(instance);
  expect((await pair.chat()).status).toBe(200);
  expect(params(pair.decode)['remote_engine_id']).toBe('engine-2');
  expect(codes(pair)).toEqual([]);
});

test('a restart noticed while decode waits cancels the pair and runs it with the new engine id', async () => {
  await using pair = await startPair({ decodeScript: (res, request, index) => void (index > 0 && json(DONE)(res, request, index)) });
  const answer = pair.chat({ ...CHAT_BODY, stream: true });
  await until(() => pair.tracer.requests[0]?.legs[0]?.outcome === 'ok');
  pair.bootstrap.table = { '0': 'engine-2' };
  const [instance] = pair.scheduler.instances;
  if (instance === undefined) throw new Error('no instance');
  instance.version = 'another';
  pair.scheduler.changed(instance);
  expect((await answer).status).toBe(200);
  expect(params(pair.decode, 1)['remote_engine_id']).toBe('engine-2');
  expect(pair.decode.received[0]?.isAborted).toBe(true);
  expect(codes(pair)).toEqual(['prefill_restarted']);
  expect(pair.tracer.last.retries).toBe(1);
});

test('a restart that nobody told of is found out while decode is silent', async () => {
  await using pair = await startPair({ decodeScript: (res, request, index) => void (index > 0 && json(DONE)(res, request, index)) });
  const answer = pair.chat({ ...CHAT_BODY, stream: true });
  await until(() => pair.tracer.requests[0]?.legs[0]?.outcome === 'ok');
  pair.bootstrap.table = { '0': 'engine-2' };
  expect((await answer).status).toBe(200);
  expect(codes(pair)).toEqual(['prefill_restarted']);
});

test('an instance whose bootstrap server is silent gets no prefill leg; the others do', async () => {
  await using pair = await startPair({ table: (res) => void res.writeHead(500).end() });
  const refused = await pair.chat();
  expect(refused.status).toBe(503);
  expect(await refused.json()).toMatchObject({ error: { message: expect.stringContaining(`bootstrap not answered yet: http://127.0.0.1:${pair.bootstrap.port}/query: it answered 500`) } });
  expect(pair.proxy.connectorStatus().notices).toEqual([{ severity: 'error', message: expect.stringContaining('P0 gets no requests') }]);
  await using other = await startBootstrap({ '0': 'engine-9' });
  await using upstream = await startUpstream(json(DONE));
  const instance = pair.scheduler.add('prefill', upstream.origin, { bootstrapPort: other.port });
  // As the fleet tells of a new instance.
  await pair.proxy.setConnector('nixl');
  await pair.proxy.setConnector('mooncake');
  expect(instance.bootstrapPort).toBe(other.port);
  for (let request = 0; request < 3; request++) expect((await pair.chat()).status).toBe(200);
  expect(upstream.received).toHaveLength(3);
  expect(params(pair.decode)).toMatchObject({ remote_engine_id: 'engine-9', remote_bootstrap_addr: `http://127.0.0.1:${other.port}` });
});

test('ranks are pinned and their own engine ids told, also while the table still grows', async () => {
  await using pair = await startPair({ table: { '1': 'engine_dp1' } });
  const [instance] = pair.scheduler.instances;
  if (instance === undefined) throw new Error('no instance');
  Object.assign(instance, withRanks(2));
  const told = (): unknown[] => pair.prefill.received.map(({ headers }, index) => [headers['x-data-parallel-rank'], params(pair.decode, index)['remote_engine_id']]);
  await pair.chat();
  await pair.chat();
  expect(told()).toEqual([['1', 'engine_dp1'], ['1', 'engine_dp1']]);
  expect(rows(pair)[0]?.[5]).toBe(false);
  expect(pair.proxy.connectorStatus().notices).toEqual([{ severity: 'warning', message: expect.stringContaining('1 of 2 ranks') }]);
  pair.bootstrap.table = { '0': 'engine_dp0', '1': 'engine_dp1' };
  await until(() => rows(pair).length === 2);
  for (let request = 0; request < 4; request++) await pair.chat();
  expect(told().slice(2).map(String).toSorted()).toEqual(['0,engine_dp0', '0,engine_dp0', '1,engine_dp1', '1,engine_dp1']);
  await pair.chat(CHAT_BODY, { 'x-data-parallel-rank': '0' });
  expect(told().at(-1)).toEqual(['0', 'engine_dp0']);
});

test.each([
  [{ n: 2 }, '/v1/chat/completions'],
  [{ prompt: ['a', 'b'] }, '/v1/completions'],
] as const)('a request with %j goes to decode alone', async (extra, path) => {
  await using pair = await startPair();
  const body = { model: 'test-model', ...(path === '/v1/completions' ? {} : CHAT_BODY), ...extra };
  expect((await post(pair.origin + path, body)).status).toBe(200);
  expect(pair.prefill.received).toHaveLength(0);
  expect(pair.decode.received[0]?.json).toEqual(body);
  expect(codes(pair)).toEqual(['handoff_not_possible']);
});

test('a client that leaves cancels both legs', async () => {
  await using pair = await startPair({ prefillScript: HANG, decodeScript: HANG });
  const client = new AbortController();
  pair.chat(CHAT_BODY, {}, client.signal).catch(() => undefined);
  await until(() => pair.prefill.received.length === 1 && pair.decode.received.length === 1);
  client.abort();
  await until(() => pair.prefill.received[0]?.isAborted && pair.decode.received[0]?.isAborted);
  await until(() => pair.tracer.last.state === 'aborted');
  expect(pair.scheduler.inFlight).toBe(0);
  expect(pair.prefill.received).toHaveLength(1);
});

test('a prefill leg that breaks after decode began to answer ends the stream with its error', async () => {
  let fail: (() => void) | undefined;
  await using pair = await startPair({
    prefillScript: (res) => {
      fail = () => void res.socket?.destroy();
    },
    decodeScript: (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write('data: {"choices":[{"delta":{"content":"a"}}]}\n\n');
    },
  });
  const answer = await pair.chat({ ...CHAT_BODY, stream: true });
  expect(answer.status).toBe(200);
  await until(() => fail);
  fail?.();
  const text = await answer.text();
  expect(text).toContain('prefill leg on P0');
  expect(text).not.toContain('[DONE]');
  await until(() => pair.decode.received[0]?.isAborted);
  await until(() => pair.tracer.last.state === 'error');
});

test.each([true, false])('a prefill leg that never ends is stopped once the client has its answer (stream: %s)', async (stream) => {
  const answer = events(['data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"length"}]}\n\n', 'data: [DONE]\n\n']);
  await using pair = await startPair({ prefillScript: HANG, decodeScript: stream ? answer : json(DONE) });
  expect(await (await pair.chat({ ...CHAT_BODY, stream })).text()).toContain('hi');
  await until(() => pair.tracer.last.state);
  await until(() => pair.prefill.received[0]?.isAborted);
  await until(() => pair.scheduler.inFlight === 0);
  expect(pair.tracer.last).toMatchObject({ state: 'ok', verdicts: [], legs: [{ outcome: 'aborted' }, { outcome: 'ok' }] });
});

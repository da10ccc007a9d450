/** NIXL push over scripted engines: what goes over the wire, learning of coordinates, and every failure of a pair. */
import { expect, test } from 'vitest';
import type { TransferFacts } from '#shared/instance.ts';
import type { StatusCell } from '#shared/protocol.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import { CHAT_BODY, post, startHarness, until, withRanks, type Harness, type HarnessOptions } from './harness.ts';
import { json, startUpstream, type ReceivedRequest, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

const HANG: Script = () => undefined;
const RESET: Script = (res) => void res.socket?.destroy();
const EMPTY: Script = (res) => void res.end();
const DONE = { id: 'x', choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'stop' }], usage: { prompt_tokens: 3, completion_tokens: 1 } };

/** As a push engine names its kept blocks. */
const HANDED_OVER = {
  do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [[1, 2, 3]], remote_engine_id: 'engine-1', remote_request_id: 'chatcmpl-a-12345678',
  remote_host: '127.0.0.1', remote_port: 5600, tp_size: 2, pp_size: 1, remote_num_tokens: 3, transfer_mode: 'push',
};

function prefilled(params: object | null = HANDED_OVER): Script {
  return json({ ...DONE, kv_transfer_params: params });
}

interface Pair extends AsyncDisposable, Pick<Harness, 'proxy' | 'origin' | 'scheduler' | 'tracer'> {
  readonly prefill: ScriptedUpstream;
  readonly decode: ScriptedUpstream;
  readonly instance: Instance;
  chat(body?: object, headers?: Record<string, string>, signal?: AbortSignal): Promise<Response>;
}

async function startPair(options: Partial<HarnessOptions> = {}): Promise<Pair> {
  const prefill = await startUpstream(prefilled());
  const decode = await startUpstream(json(DONE));
  const harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl-push', ...options });
  const [instance] = harness.scheduler.instances;
  if (instance === undefined) throw new Error('no instance');
  return {
    ...harness,
    prefill,
    decode,
    instance,
    chat: (body = CHAT_BODY, headers = {}, signal) => post(`${harness.origin}/v1/chat/completions`, body, headers, signal),
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await Promise.all([prefill.close(), decode.close()]);
    },
  };
}

/** A pair that knows its coordinates. */
async function startLearned(options: Partial<HarnessOptions> = {}): Promise<Pair> {
  const pair = await startPair(options);
  expect((await pair.chat()).status).toBe(200);
  return pair;
}

function params(request: ReceivedRequest | undefined): Record<string, unknown> {
  return request?.json['kv_transfer_params'] as Record<string, unknown>;
}

function ids(upstream: ScriptedUpstream): unknown[] {
  return upstream.received.map(({ headers }) => headers['x-request-id']);
}

function codes({ tracer }: Pair): string[] {
  return tracer.last.verdicts.map(({ code }) => code);
}

function row({ proxy }: Pair): readonly StatusCell[] {
  return proxy.connectorStatus().tables[0]?.rows[0] ?? [];
}

/** Whether the last request's legs ran at once: decode was asked before prefill had answered. */
function ranAtOnce(pair: Pair): boolean {
  return params(pair.decode.received.at(-1))['remote_request_id'] !== HANDED_OVER.remote_request_id;
}

test('the first request of an engine runs serially: its own answer is forwarded without the block ids', async () => {
  await using pair = await startPair();
  expect((await pair.chat(CHAT_BODY, { 'x-request-id': 'abc' })).status).toBe(200);
  expect(params(pair.prefill.received[0])).toMatchObject({ do_remote_decode: true, do_remote_prefill: false });
  const { remote_block_ids: _, ...forwarded } = HANDED_OVER;
  expect(params(pair.decode.received[0])).toEqual(forwarded);
  expect([...ids(pair.prefill), ...ids(pair.decode)]).toEqual(['abc', 'abc']);
  expect(row(pair).slice(0, 6)).toEqual([{ instance: 'p0', name: 'P0' }, null, 'engine-1', '127.0.0.1:5600', 2, 1]);
});

test('then both legs run at once, under one id, with the coordinates learned', async () => {
  await using pair = await startLearned();
  // Prefill answers only when decode was asked as well.
  pair.prefill.script = (res, request, index) => void until(() => pair.decode.received.length > 1).then(() => prefilled()(res, request, index));
  expect((await pair.chat({ ...CHAT_BODY, min_tokens: 2 }, { 'x-request-id': 'abc' })).status).toBe(200);
  expect(params(pair.decode.received[1])).toEqual({
    do_remote_prefill: true, do_remote_decode: false, remote_engine_id: 'engine-1', remote_request_id: 'chatcmpl-abc',
    remote_host: '127.0.0.1', remote_port: 5600, tp_size: 2, pp_size: 1, transfer_mode: 'push',
  });
  expect(ids(pair.prefill).at(-1)).toBe('abc');
  expect(ids(pair.decode).at(-1)).toBe('abc');
  expect(pair.prefill.received[1]?.url).toBe(pair.decode.received[1]?.url);
  expect(pair.prefill.received[1]?.json).toMatchObject({ max_tokens: 1 });
  expect(pair.prefill.received[1]?.json).not.toHaveProperty('min_tokens');
  expect(pair.decode.received[1]?.json).toMatchObject({ max_tokens: 8, min_tokens: 2 });
  expect(row(pair)[7]).toBe(1);
});

test('equal ids of clients are told apart while one is under way, and after a failed try', async () => {
  await using pair = await startLearned();
  let release: (() => void) | undefined;
  pair.decode.script = (res, request, index) => {
    if (request.headers['x-request-id'] === 'same') release = () => void json(DONE)(res, request, index);
    else void json(DONE)(res, request, index);
  };
  const first = pair.chat(CHAT_BODY, { 'x-request-id': 'same' });
  await until(() => release);
  expect((await pair.chat(CHAT_BODY, { 'x-request-id': 'same' })).status).toBe(200);
  release?.();
  expect((await first).status).toBe(200);
  expect(ids(pair.prefill).slice(1)).toEqual(['same', 'same-try2']);
  expect(ids(pair.decode).slice(1)).toEqual(['same', 'same-try2']);
  // A pair that is repeated must not meet what its first try left in the engines.
  pair.decode.script = (res, request, index) => void (index === 3 ? json({ error: { message: 'x' } }, 500) : json(DONE))(res, request, index);
  expect((await pair.chat(CHAT_BODY, { 'x-request-id': 'other' })).status).toBe(200);
  expect(ids(pair.prefill).slice(3)).toEqual(['other', 'other-try2']);
  expect(ids(pair.decode).slice(3)).toEqual(['other', 'other-try2']);
});

test('each rank has coordinates of its own', async () => {
  await using pair = await startPair();
  Object.assign(pair.instance, withRanks(2));
  pair.prefill.script = (res, request, index) => {
    const rank = Number(request.headers['x-data-parallel-rank']);
    void prefilled({ ...HANDED_OVER, remote_engine_id: `engine-1_dp${rank}`, remote_port: 5600 + rank })(res, request, index);
  };
  for (let request = 0; request < 4; request++) expect((await pair.chat()).status).toBe(200);
  expect(pair.prefill.received.map(({ headers }) => headers['x-data-parallel-rank'])).toEqual(['0', '1', '0', '1']);
  expect(pair.decode.received.map((request) => [params(request)['remote_engine_id'], params(request)['remote_port']])).toEqual([
    ['engine-1_dp0', 5600], ['engine-1_dp1', 5601], ['engine-1_dp0', 5600], ['engine-1_dp1', 5601],
  ]);
  expect(ranAtOnce(pair)).toBe(true);
  expect(pair.proxy.connectorStatus().tables[0]?.total).toBe(2);
});

test('several ranks that nobody pinned: found out, and never told the wrong one again', async () => {
  await using pair = await startLearned();
  pair.prefill.script = (res, request, index) => void prefilled({ ...HANDED_OVER, remote_engine_id: `engine-1_dp${index % 2}`, remote_port: 5600 + (index % 2) })(res, request, index);
  pair.decode.script = (res, request, index) => {
    const isSerial = params(request)['remote_request_id'] === HANDED_OVER.remote_request_id;
    void (isSerial ? json(DONE)(res, request, index) : undefined);
  };
  expect((await pair.chat()).status).toBe(200);
  expect(pair.tracer.last.retries).toBe(1);
  for (let request = 0; request < 3; request++) expect((await pair.chat()).status).toBe(200);
  expect(pair.tracer.last.retries).toBe(0);
  expect(ranAtOnce(pair)).toBe(false);
  expect(pair.proxy.connectorStatus().notices).toEqual([{ severity: 'warning', message: expect.stringContaining('several data-parallel ranks') }]);
});

test.each([
  ['a refusal', json({ error: { message: 'prompt too long' } }, 400), 400, 1],
  ['a failure', json({ error: { message: 'engine dead' } }, 500), 500, 1],
  ['a reset', RESET, 502, 2],
  ['an empty answer', EMPTY, 502, 1],
] as const)('prefill with %s cancels decode at once, and the client gets its status', async (_what, script, status, tries) => {
  await using pair = await startLearned();
  pair.prefill.script = script;
  pair.decode.script = HANG;
  const answer = await pair.chat();
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({ pdscope: { leg: 'prefill' } });
  expect(pair.prefill.received).toHaveLength(1 + tries);
  await until(() => pair.decode.received.slice(1).every(({ isAborted }) => isAborted));
  expect(pair.scheduler.inFlight).toBe(0);
});

test.each([
  ['a refusal', json({ error: { message: 'bad field' } }, 400), 400, 1, true],
  ['a failure', json({ error: { message: 'load failed' } }, 500), 500, 2, false],
  ['a reset', RESET, 502, 2, false],
] as const)('decode with %s cancels prefill; coordinates that an instance failed with are forgotten', async (_what, script, status, tries, isKept) => {
  await using pair = await startLearned();
  let isFirst = true;
  pair.prefill.script = (res, request, index) => {
    if (isFirst) isFirst = false;
    else void prefilled()(res, request, index);
  };
  pair.decode.script = script;
  const answer = await pair.chat();
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({ pdscope: { leg: 'decode' } });
  expect(pair.decode.received).toHaveLength(1 + tries);
  await until(() => pair.prefill.received[1]?.isAborted);
  expect(row(pair)[2] === 'engine-1').toBe(isKept);
});

test('prefill that restarted in between: its answer names another engine, and the pair runs again', async () => {
  await using pair = await startLearned();
  pair.prefill.script = prefilled({ ...HANDED_OVER, remote_engine_id: 'engine-2', remote_port: 5700 });
  pair.decode.script = (res, request, index) => {
    if (params(request)['remote_engine_id'] === 'engine-2') void json(DONE)(res, request, index);
  };
  expect((await pair.chat()).status).toBe(200);
  expect(codes(pair)).toEqual(['prefill_restarted']);
  expect(pair.tracer.last.retries).toBe(1);
  await until(() => pair.decode.received[1]?.isAborted);
  expect(row(pair).slice(2, 4)).toEqual(['engine-2', '127.0.0.1:5700']);
  expect((await pair.chat()).status).toBe(200);
  expect(ranAtOnce(pair)).toBe(true);
});

test.each([
  ['another engine id', { transfer: { engineId: 'engine-9' } }],
  ['another version', { version: '2' }],
  ['down', { state: 'down' }],
] as const)('an instance with %s is learned anew, and who waits for it is cancelled', async (_what, change) => {
  await using pair = await startPair();
  Object.assign(pair.instance, { version: '1', transfer: { engineId: 'engine-1' } satisfies TransferFacts });
  expect((await pair.chat()).status).toBe(200);
  expect(row(pair)[8]).toBe('confirms');
  let isRestarted = false;
  pair.decode.script = (res, request, index) => {
    if (isRestarted) void json(DONE)(res, request, index);
  };
  const answer = pair.chat({ ...CHAT_BODY, stream: true });
  await until(() => pair.tracer.requests[1]?.legs[0]?.outcome === 'ok' && pair.decode.received.length === 2);
  isRestarted = true;
  Object.assign(pair.instance, change);
  pair.scheduler.changed(pair.instance);
  expect((await answer).status).toBe(200);
  expect(codes(pair)).toEqual(['prefill_restarted']);
  // Serially, because nothing is known.
  expect(ranAtOnce(pair)).toBe(false);
});

test('a late health check does not end a pair whose prefill leg still runs', async () => {
  await using pair = await startLearned();
  let release: (() => void) | undefined;
  pair.prefill.script = (res, request, index) => {
    release = () => void prefilled()(res, request, index);
  };
  pair.decode.script = (res, request, index) => void until(() => pair.tracer.last.legs[0]?.outcome === 'ok').then(() => json(DONE)(res, request, index));
  const answer = pair.chat();
  await until(() => release && pair.decode.received.length === 2);
  pair.instance.state = 'down';
  pair.scheduler.changed(pair.instance);
  expect(row(pair)[2]).toBeNull();
  release?.();
  expect((await answer).status).toBe(200);
  expect(pair.tracer.last.retries).toBe(0);
  expect(row(pair)[2]).toBe('engine-1');
});

test('facts that become known, or are not told for once, are no restart', async () => {
  await using pair = await startLearned();
  for (const change of [{ version: '1', transfer: { engineId: 'engine-1' } }, { version: undefined, transfer: undefined }, { version: '1', transfer: { engineId: 'engine-1' } }]) {
    Object.assign(pair.instance, change);
    pair.scheduler.changed(pair.instance);
  }
  expect((await pair.chat()).status).toBe(200);
  expect(ranAtOnce(pair)).toBe(true);
  // A fact that contradicts what was learned is worth another look.
  Object.assign(pair.instance, { transfer: { engineId: 'engine-5' } });
  pair.scheduler.changed(pair.instance);
  expect((await pair.chat()).status).toBe(200);
  expect(ranAtOnce(pair)).toBe(false);
  expect(row(pair)[8]).toBe('says engine-5');
});

test.each([true, false])('a prefill answer without parameters: decode computes the prompt itself (learned before: %s)', async (isLearned) => {
  await using pair = await (isLearned ? startLearned() : startPair());
  pair.prefill.script = prefilled(null);
  pair.decode.script = (res, request, index) => {
    if (request.json['kv_transfer_params'] === undefined) void json(DONE)(res, request, index);
  };
  expect((await pair.chat()).status).toBe(200);
  expect(codes(pair)).toEqual(['decode_only']);
  expect(pair.decode.received.at(-1)?.json).toEqual(CHAT_BODY);
  expect(pair.tracer.last.retries).toBe(0);
});

test.each([
  ['says pull', { ...HANDED_OVER, transfer_mode: 'pull' }, 'transfer_mode is pull'],
  ['is older than push', { ...HANDED_OVER, transfer_mode: undefined, pp_size: undefined }, 'neither transfer_mode nor pp_size'],
  ['lacks tp_size', { ...HANDED_OVER, tp_size: undefined }, 'lacks tp_size'],
] as const)('an engine whose answer %s is never given to decode', async (_what, handedOver, why) => {
  await using pair = await startPair();
  pair.prefill.script = prefilled(handedOver);
  expect((await pair.chat()).status).toBe(200);
  expect(pair.tracer.last.verdicts).toEqual([expect.objectContaining({ code: 'decode_only', severity: 'warning', message: expect.stringContaining(why) })]);
  expect(pair.decode.received.map(({ json: body }) => body)).toEqual([CHAT_BODY]);
});

test('a side channel on localhost of another machine is corrected for decode, and reported', async () => {
  await using pair = await startPair();
  // The instance is reached over a name that is no loopback address, and answers under 127.0.0.1 all the same.
  const instance = pair.scheduler.add('prefill', 'http://10.1.2.3:8100');
  const wrapped = pair.scheduler.instances.indexOf(pair.instance);
  pair.scheduler.instances.splice(wrapped, 1);
  Object.assign(instance, { pool: pair.instance.pool });
  pair.prefill.script = prefilled({ ...HANDED_OVER, remote_host: 'localhost' });
  expect((await pair.chat()).status).toBe(200);
  expect((await pair.chat()).status).toBe(200);
  expect(pair.decode.received.map((request) => params(request)['remote_host'])).toEqual(['10.1.2.3', '10.1.2.3']);
  expect(pair.tracer.requests.map(({ verdicts }) => verdicts.map(({ code }) => code))).toEqual([['remote_host_corrected'], ['remote_host_corrected']]);
});

test('a removed instance takes its coordinates along', async () => {
  await using pair = await startLearned();
  expect(row(pair)[2]).toBe('engine-1');
  pair.scheduler.leave(pair.instance.id, 'test');
  expect(pair.proxy.connectorStatus().tables[0]?.total).toBe(0);
});

test.each([
  [{ n: 2 }, '/v1/chat/completions'],
  [{ prompt: ['a', 'b'] }, '/v1/completions'],
] as const)('a request with %j goes to decode alone', async (extra, path) => {
  await using pair = await startLearned();
  const body = { model: 'test-model', ...(path === '/v1/completions' ? {} : CHAT_BODY), ...extra };
  expect((await post(pair.origin + path, body)).status).toBe(200);
  expect(pair.prefill.received).toHaveLength(1);
  expect(pair.decode.received[1]?.json).toEqual(body);
  expect(codes(pair)).toEqual(['handoff_not_possible']);
});

test('a client that leaves cancels both legs', async () => {
  await using pair = await startLearned();
  pair.prefill.script = HANG;
  pair.decode.script = HANG;
  const client = new AbortController();
  pair.chat(CHAT_BODY, {}, client.signal).catch(() => undefined);
  await until(() => pair.prefill.received.length === 2 && pair.decode.received.length === 2);
  client.abort();
  await until(() => pair.prefill.received[1]?.isAborted && pair.decode.received[1]?.isAborted);
  await until(() => pair.tracer.last.state === 'aborted');
  expect(pair.scheduler.inFlight).toBe(0);
  expect(row(pair)[2]).toBe('engine-1');
});

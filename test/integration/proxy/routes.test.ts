/** The routes beside inference, and what is refused before any leg is sent. */
import { connect } from 'node:net';
import { request as httpRequest } from 'node:http';
import { expect, test, vi } from 'vitest';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import type { Role } from '#shared/vocabulary.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import { silentLogger } from '#engine/log.ts';
import { createProxy } from '#engine/proxy/proxy.ts';
import { CHAT_BODY, post, startHarness, until } from './harness.ts';
import { json, startUpstream } from './scripted-upstream.ts';

const CHAT = '/v1/chat/completions';

async function errorOf(response: Response): Promise<{ error: { message: string; type: string; code: unknown; param: unknown }; pdscope: { code: string } }> {
  return (await response.json()) as Awaited<ReturnType<typeof errorOf>>;
}

test.each([
  ['GET', '/nothing', 404, 'unknown_route', null],
  ['POST', '/v1/images/generations', 404, 'unknown_route', null],
  ['GET', CHAT, 405, 'method_not_allowed', 'POST'],
  ['DELETE', '/status', 405, 'method_not_allowed', 'GET, HEAD'],
])('%s %s is answered with %i and the list of routes', async (method, path, status, code, allow) => {
  await using harness = await startHarness({});
  const response = await fetch(`${harness.origin}${path}?x=1`, { method });
  expect(response.status).toBe(status);
  const { error, pdscope } = await errorOf(response);
  expect(pdscope.code).toBe(code);
  expect(error.param).toBeNull();
  for (const route of [`POST ${CHAT}`, 'POST /v1/completions', 'GET /v1/models', 'GET /health', 'GET /status', 'POST /instances/add', 'POST /instances/remove', 'GET /metrics']) {
    expect(error.message).toContain(route);
  }
  expect(response.headers.get('allow')).toBe(allow);
});

test.each([
  ['text/plain', 415, 'unsupported_media_type'],
  ['application/jsonx', 415, 'unsupported_media_type'],
  ['application/json; charset=utf-8', 400, 'malformed_json'],
])('Content-Type %s with a malformed body gives %i', async (type, status, code) => {
  await using harness = await startHarness({});
  const response = await post(`${harness.origin}${CHAT}`, '{"model":', { 'content-type': type });
  expect(response.status).toBe(status);
  expect((await errorOf(response)).pdscope.code).toBe(code);
  expect(harness.tracer.last).toMatchObject({ state: 'error', respondedWith: status, error: { code } });
});

test.each(['[]', '"text"', 'null', '', '{"a":1}}'])('the body %s is refused with 400', async (body) => {
  await using harness = await startHarness({});
  const response = await post(`${harness.origin}${CHAT}`, body);
  expect(response.status).toBe(400);
  expect((await errorOf(response)).error.type).toBe('invalid_request_error');
});

test('a compressed request body is refused, not misread', async () => {
  await using harness = await startHarness({});
  expect((await post(`${harness.origin}${CHAT}`, '{}', { 'content-encoding': 'gzip' })).status).toBe(415);
});

test('a body announced over the limit is refused with 413 without being asked for', async () => {
  await using harness = await startHarness({ maxBodyBytes: 1000 });
  const { port, hostname } = new URL(harness.origin);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.on('data', (chunk) => void (text += chunk.toString()));
  socket.write(`POST ${CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n`);
  await until(() => text.includes('body_too_large'));
  expect(text).toMatch(/^HTTP\/1\.1 413 /);
  socket.destroy();
});

test('a chunked body that grows over the limit is refused with 413', async () => {
  await using harness = await startHarness({ maxBodyBytes: 1000 });
  const status = await new Promise<number>((resolve, reject) => {
    const req = httpRequest(`${harness.origin}${CHAT}`, { method: 'POST', headers: { 'content-type': 'application/json' } }, (res) => {
      res.resume();
      resolve(res.statusCode ?? 0);
    });
    req.on('error', reject);
    for (let i = 0; i < 20; i++) req.write('x'.repeat(100));
  });
  expect(status).toBe(413);
});

test('Expect: 100-continue is answered before the body is sent', async () => {
  await using prefill = await startUpstream(json('{"choices":[]}'));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [prefill.origin] });
  const body = JSON.stringify(CHAT_BODY);
  const got = await new Promise<{ continued: boolean; status: number }>((resolve, reject) => {
    let continued = false;
    const req = httpRequest(`${harness.origin}${CHAT}`, { method: 'POST', headers: { 'content-type': 'application/json', expect: '100-continue', 'content-length': body.length } });
    req.on('continue', () => {
      continued = true;
      req.end(body);
    });
    req.on('response', (res) => {
      res.resume();
      resolve({ continued, status: res.statusCode ?? 0 });
    });
    req.on('error', reject);
    req.flushHeaders();
  });
  expect(got).toEqual({ continued: true, status: 200 });
  expect(prefill.received[0]?.headers.expect).toBeUndefined();
});

test('health tells per role, with 503 until both can be served', async () => {
  await using prefill = await startUpstream(json({}));
  await using harness = await startHarness({ prefill: [prefill.origin] });
  const before = await fetch(`${harness.origin}/health`);
  expect(before.status).toBe(503);
  expect(await before.json()).toMatchObject({ status: 'unavailable', roles: { prefill: { status: 'ok', up: 1, total: 1 }, decode: { status: 'unavailable', up: 0, total: 0 } } });
  const down = harness.scheduler.add('decode', prefill.origin);
  harness.scheduler.excluded.set(down, 'down: x');
  expect(await (await fetch(`${harness.origin}/health`)).json()).toMatchObject({ roles: { decode: { up: 0, total: 1, unavailable: [{ name: 'D0', reason: 'down: x' }] } } });
  harness.scheduler.excluded.clear();
  expect((await fetch(`${harness.origin}/health`)).status).toBe(200);
  const head = await fetch(`${harness.origin}/health`, { method: 'HEAD' });
  expect(head.status).toBe(200);
  expect(await head.text()).toBe('');
});

test('status has the demo proxy\'s shape', async () => {
  await using harness = await startHarness({ prefill: ['http://10.0.0.1:8100', 'http://[fd00::1]:8100'], decode: ['http://node'] });
  harness.scheduler.add('both', 'https://node2');
  expect(await (await fetch(`${harness.origin}/status`)).json()).toMatchObject({
    prefill_node_count: 3,
    decode_node_count: 2,
    prefill_nodes: ['10.0.0.1:8100', '[fd00::1]:8100', 'node2:443'],
    decode_nodes: ['node:80', 'node2:443'],
    connector: 'plain',
    policy: 'round-robin',
  });
});

test('metrics hands out the page it is given', async () => {
  await using harness = await startHarness({});
  const response = await fetch(`${harness.origin}/metrics`);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(await response.text()).toBe('pdscope_up 1\n');
});

test('models is the union, with who serves what and what differs', async () => {
  const card = (id: string, max: number, extra = {}): object => ({ id, object: 'model', created: 1, owned_by: 'vllm', root: id, max_model_len: max, ...extra });
  await using p = await startUpstream(json({ object: 'list', data: [card('m', 4096), card('lora', 4096, { parent: 'm' })] }));
  await using d = await startUpstream(json({ object: 'list', data: [card('m', 8192)] }));
  await using harness = await startHarness({ prefill: [p.origin, 'http://127.0.0.1:1'], decode: [d.origin], openaiApiKey: 'sk-env' });
  const page = (await (await fetch(`${harness.origin}/v1/models`)).json()) as { object: string; data: Record<string, unknown>[] };
  expect(page.object).toBe('list');
  expect(page.data.map(({ id }) => id)).toEqual(['m', 'lora', 'test-model']);
  expect(page.data[0]).toMatchObject({
    object: 'model',
    max_model_len: 4096,
    pdscope: { missing_on: ['P1'], differs: { max_model_len: { P0: 4096, D0: 8192 } } },
  });
  expect(page.data[0]?.['pdscope']).toMatchObject({ instances: [{ id: 'p0', role: 'prefill', url: p.origin }, { id: 'd0', role: 'decode' }] });
  expect(page.data[1]).toMatchObject({ parent: 'm', pdscope: { missing_on: ['P1', 'D0'], differs: {} } });
  expect(page.data[2]).toMatchObject({ pdscope: { instances: [{ id: 'p1', is_from_last_probe: true }] } });
  expect(d.received[0]?.headers.authorization).toBe('Bearer sk-env');
  await fetch(`${harness.origin}/v1/models`);
  expect(d.received).toHaveLength(1);
  await fetch(`${harness.origin}/v1/models`, { headers: { authorization: 'Bearer other' } });
  expect(d.received[1]?.headers.authorization).toBe('Bearer other');
});

test('models passes a refusal of every instance on', async () => {
  await using d = await startUpstream(json({ error: 'Unauthorized' }, 401));
  await using harness = await startHarness({ decode: [d.origin] });
  expect((await fetch(`${harness.origin}/v1/models`)).status).toBe(401);
});

function admin(): { apiKey: string; add: ReturnType<typeof vi.fn<(spec: InstanceSpec) => Promise<Instance>>>; remove: ReturnType<typeof vi.fn<(address: string, role: Role) => Promise<void>>> } {
  return {
    apiKey: 'secret',
    add: vi.fn<(spec: InstanceSpec) => Promise<Instance>>(() => Promise.resolve({} as Instance)),
    remove: vi.fn<(address: string, role: Role) => Promise<void>>(() => Promise.resolve()),
  };
}

test('an instance is added and removed in the demo proxy\'s shapes', async () => {
  const double = admin();
  await using harness = await startHarness({ admin: double });
  const body = { type: 'prefill', instance: '10.0.0.1:8100' };
  const added = await post(`${harness.origin}/instances/add`, body, { 'x-api-key': 'secret' });
  expect(added.status).toBe(200);
  expect(await added.json()).toEqual({ message: 'Added 10.0.0.1:8100 to prefill_instances.' });
  expect(double.add).toHaveBeenCalledWith({ role: 'prefill', url: '10.0.0.1:8100' });
  const removed = await post(`${harness.origin}/instances/remove`, body, { 'x-api-key': 'secret' });
  expect(await removed.json()).toEqual({ message: 'Removed 10.0.0.1:8100 from prefill_instances.' });
  expect(double.remove).toHaveBeenCalledWith('10.0.0.1:8100', 'prefill');
});

test.each([
  ['a wrong key', { 'x-api-key': 'wrong' }, '{}', 403, 'invalid_api_key'],
  ['no key', {}, '{}', 403, 'invalid_api_key'],
  ['a content type with parameters', { 'x-api-key': 'secret', 'content-type': 'application/json; charset=utf-8' }, '{}', 415, 'unsupported_media_type'],
  ['malformed JSON', { 'x-api-key': 'secret' }, '{', 400, 'malformed_json'],
  ['an unknown type', { 'x-api-key': 'secret' }, '{"type":"router","instance":"a:1"}', 400, 'invalid_instance'],
  ['no instance', { 'x-api-key': 'secret' }, '{"type":"decode"}', 400, 'invalid_instance'],
] as const)('the admin routes refuse %s', async (_what, headers, body, status, code) => {
  const double = admin();
  await using harness = await startHarness({ admin: double });
  for (const path of ['/instances/add', '/instances/remove']) {
    const response = await post(`${harness.origin}${path}`, body, headers);
    expect(response.status).toBe(status);
    expect((await errorOf(response)).pdscope.code).toBe(code);
  }
  expect(double.add).not.toHaveBeenCalled();
  expect(double.remove).not.toHaveBeenCalled();
});

test('without a configured key the admin routes are closed', async () => {
  const { add, remove } = admin();
  await using harness = await startHarness({ admin: { add, remove } });
  const response = await post(`${harness.origin}/instances/add`, { type: 'prefill', instance: 'a:1' }, { 'x-api-key': '' });
  expect(response.status).toBe(503);
  expect((await errorOf(response)).error.message).toContain('ADMIN_API_KEY');
});

test('what the fleet says against an instance is passed on', async () => {
  const double = admin();
  double.add.mockRejectedValue(new PdscopeError('model_mismatch', 'serves another model'));
  await using harness = await startHarness({ admin: double });
  const response = await post(`${harness.origin}/instances/add`, { type: 'decode', instance: 'a:1' }, { 'x-api-key': 'secret' });
  expect(response.status).toBe(400);
  expect(await errorOf(response)).toMatchObject({ error: { message: 'serves another model' }, pdscope: { code: 'model_mismatch' } });
});

test('connector and policy are switched for new requests', async () => {
  await using prefill = await startUpstream(json('{"choices":[],"kv_transfer_params":{"remote_engine_id":"e"}}'));
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin, decode.origin] });
  await harness.proxy.setConnector('nixl');
  harness.proxy.setPolicy('least-in-flight');
  await post(`${harness.origin}${CHAT}`, CHAT_BODY);
  expect([harness.proxy.connector, harness.proxy.policy]).toEqual(['nixl', 'least-in-flight']);
  expect(decode.received[0]?.json['kv_transfer_params']).toEqual({ remote_engine_id: 'e' });
  expect(harness.tracer.last.init.connector).toBe('nixl');
  expect(harness.tracer.last.decisions[1]).toEqual({
    kind: 'decode', policy: 'least-in-flight', chosen: 'd0', attempt: 1, excluded: [],
    candidates: [{ instance: 'd0', name: 'D0', score: 0, reason: '0 in flight' }, { instance: 'd1', name: 'D1', score: 0, reason: '0 in flight' }],
  });
});

test('a taken port is reported with what to do, and closing a proxy that never listened ends', async () => {
  await using harness = await startHarness({});
  const proxy = createProxy({
    scheduler: harness.scheduler,
    fleet: harness.scheduler,
    tracer: harness.tracer,
    logger: silentLogger,
    connector: 'plain',
    policy: 'random',
    admin: admin(),
    metricsPage: () => Promise.reject(new Error('not asked for')),
    version: '0',
  });
  const port = Number(new URL(harness.origin).port);
  await expect(proxy.listen(port, '127.0.0.1')).rejects.toMatchObject({ code: 'port_in_use', message: expect.stringContaining('--port') });
  await proxy.close();
});

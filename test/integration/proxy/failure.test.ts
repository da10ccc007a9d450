/** What the client, the record and the breaker see when a leg fails; what is tried again and what is not. */
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { CHAT_BODY, post, startHarness, until } from './harness.ts';
import { closedPort, events, json, startUpstream, type Script } from './scripted-upstream.ts';

/** For legs that fall silent: those that do not answer sooner on a slow machine, too. */
const SILENCE_MS = 1500;

const PREFILL_OK = json('{"id":"x","choices":[],"kv_transfer_params":{"remote_engine_id":"e1","remote_block_ids":[1]}}');
const DECODE_OK = json({ ok: 1 });
const reset: Script = (res) => void res.socket?.resetAndDestroy();
const hang: Script = () => undefined;

interface ErrorBody {
  readonly error: { readonly message: string; readonly type: string; readonly param: unknown; readonly code: unknown };
  readonly pdscope: { readonly code: string; readonly leg?: string; readonly instance?: string; readonly instance_name?: string; readonly instance_url?: string };
}

const VLLM_400 = { error: { message: "This model's maximum context length is 8 tokens.", type: 'BadRequestError', param: 'messages', code: 400 } };

test.each(['prefill', 'decode'] as const)('a 4xx of the %s leg reaches the client with its status and words, and is not repeated', async (kind) => {
  await using refusing = await startUpstream(json(VLLM_400, 400));
  await using other = await startUpstream(kind === 'prefill' ? DECODE_OK : PREFILL_OK);
  await using spare = await startUpstream(json(VLLM_400, 400));
  const refusingSide = [refusing.origin, spare.origin];
  await using harness = await startHarness(kind === 'prefill' ? { prefill: refusingSide, decode: [other.origin] } : { prefill: [other.origin], decode: refusingSide });
  const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true });
  expect(response.status).toBe(400);
  expect(response.headers.get('content-type')).toBe('application/json');
  const body = (await response.json()) as ErrorBody;
  expect(body.error).toEqual(VLLM_400.error);
  const name = kind === 'prefill' ? 'P0' : 'D0';
  expect(body.pdscope).toMatchObject({ code: 'upstream_status', leg: kind, instance: name.toLowerCase(), instance_name: name, instance_url: refusing.origin });
  expect(spare.received).toHaveLength(0);
  expect(harness.tracer.last).toMatchObject({ state: 'error', retries: 0, respondedWith: 400, error: { code: 'upstream_status', leg: kind } });
  expect(harness.scheduler.ended.at(-1)).toMatchObject({ name, outcome: 'ok' });
});

test.each([
  ['flat object', '{"object":"error","message":"old shape","type":"T","param":null,"code":429}', 'old shape'],
  ['string', '{"error":"Unauthorized"}', 'Unauthorized'],
  ['FastAPI detail', '{"detail":"from a gateway"}', 'from a gateway'],
  ['text', 'upstream connect error', 'upstream connect error'],
])('the message of an error body given as %s is kept', async (_shape, text, message) => {
  await using prefill = await startUpstream(json(text, 429, { 'retry-after': '7' }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [prefill.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(response.status).toBe(429);
  expect(response.headers.get('retry-after')).toBe('7');
  expect(((await response.json()) as ErrorBody).error.message).toBe(message);
});

test('a 5xx is repeated on another instance and then reaches the client as it is', async () => {
  const broken = json({ error: { message: 'EngineDeadError', type: 'InternalServerError', param: null, code: 500 } }, 500);
  await using prefill = await startUpstream(PREFILL_OK);
  await using first = await startUpstream(broken);
  await using second = await startUpstream(broken);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [first.origin, second.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(response.status).toBe(500);
  expect(((await response.json()) as ErrorBody).error.message).toBe('EngineDeadError');
  expect([prefill, first, second].map(({ received }) => received.length)).toEqual([1, 1, 1]);
  expect(harness.tracer.last.retries).toBe(1);
  expect(harness.scheduler.ended.slice(1)).toEqual([
    { name: 'D0', outcome: 'failed', reason: 'EngineDeadError' },
    { name: 'D1', outcome: 'failed', reason: 'EngineDeadError' },
  ]);
});

test('a 501 says nothing about the instance and is not repeated', async () => {
  await using prefill = await startUpstream(json({ error: { message: 'no', type: 'NotImplementedError', code: 501 } }, 501));
  await using harness = await startHarness({ prefill: [prefill.origin, prefill.origin], decode: [prefill.origin] });
  expect((await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(501);
  expect(harness.scheduler.ended).toMatchObject([{ name: 'P0', outcome: 'ok' }]);
});

test('a refused connection is repeated on another instance and recorded with the reason', async () => {
  const dead = `http://127.0.0.1:${await closedPort()}`;
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(DECODE_OK);
  await using harness = await startHarness({ prefill: [dead, prefill.origin], decode: [decode.origin] });
  expect((await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(200);
  const { retries, decisions, legs, state } = harness.tracer.last;
  expect({ retries, state }).toEqual({ retries: 1, state: 'ok' });
  expect(legs.map(({ init, outcome }) => [init.instance.name, init.attempt, outcome])).toEqual([['P0', 1, 'error'], ['P1', 2, 'ok'], ['D0', 1, 'ok']]);
  expect(legs[0]?.error).toMatchObject({ code: 'connect_failed', leg: 'prefill', instanceName: 'P0' });
  expect(decisions[1]?.candidates.map(({ name }) => name)).toEqual(['P1']);
  expect(decisions[1]?.excluded).toEqual([{ instance: 'p0', name: 'P0', reason: expect.stringContaining('ECONNREFUSED') }]);
  expect(harness.scheduler.ended[0]).toMatchObject({ name: 'P0', outcome: 'failed' });
});

test('the only instance is not tried again when it refuses, but once more when the connection was lost', async () => {
  const dead = `http://127.0.0.1:${await closedPort()}`;
  {
    await using harness = await startHarness({ prefill: [dead], decode: [dead] });
    const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
    expect(response.status).toBe(502);
    expect(((await response.json()) as ErrorBody).pdscope).toMatchObject({ code: 'connect_failed', leg: 'prefill', instance: 'p0' });
    expect(harness.tracer.last).toMatchObject({ retries: 0, legs: { length: 1 } });
  }
  await using prefill = await startUpstream((res, request, index) => (index === 0 ? reset : PREFILL_OK)(res, request, index));
  await using decode = await startUpstream(DECODE_OK);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  expect((await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(200);
  expect(prefill.received).toHaveLength(2);
  prefill.script = reset;
  expect((await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(502);
  expect(prefill.received).toHaveLength(4);
});

test('retries are bounded over the whole request', async () => {
  await using prefill = await startUpstream(reset);
  const origins = Array.from({ length: 6 }, () => prefill.origin);
  await using harness = await startHarness({ prefill: origins, decode: [prefill.origin] });
  expect((await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(502);
  expect(harness.tracer.last.legs).toHaveLength(3);
  expect(harness.tracer.last.retries).toBe(2);
});

test('nixl runs a new pair after a failed decode leg instead of using params twice', async () => {
  let engine = 0;
  await using prefill = await startUpstream((res, request, index) =>
    json(`{"choices":[],"kv_transfer_params":{"remote_engine_id":"e${++engine}"}}`)(res, request, index));
  await using bad = await startUpstream(json({ error: { message: 'KV load failed', code: 500 } }, 500));
  await using good = await startUpstream(DECODE_OK);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [bad.origin, good.origin], connector: 'nixl' });
  expect((await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(200);
  expect(bad.received[0]?.json['kv_transfer_params']).toEqual({ remote_engine_id: 'e1' });
  expect(good.received[0]?.json['kv_transfer_params']).toEqual({ remote_engine_id: 'e2' });
  expect(harness.tracer.last.legs.map(({ init }) => `${init.instance.name}#${init.attempt}`)).toEqual(['P0#1', 'D0#1', 'P0#2', 'D1#2']);
});

test.each([
  ['empty', (res) => void res.writeHead(200, { 'content-length': '0' }).end(), 'empty_response'],
  ['not JSON', (res) => void res.writeHead(200).end('<html>'), 'bad_response'],
  ['an error body', json({ error: { message: 'gateway says no', code: 500 } }), 'upstream_reported_error'],
] as [string, Script, string][])('a 200 of the prefill leg that is %s is a 502, never success', async (_what, script, code) => {
  await using prefill = await startUpstream(script);
  await using decode = await startUpstream(DECODE_OK);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl' });
  const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(response.status).toBe(502);
  expect(((await response.json()) as ErrorBody).pdscope).toMatchObject({ code, leg: 'prefill' });
  expect(decode.received).toHaveLength(0);
  expect(harness.scheduler.ended).toMatchObject([{ name: 'P0', outcome: 'failed' }]);
});

test.each([true, false])('an empty 200 of the decode leg is a 502 (stream: %s)', async (stream) => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream((res) => void res.writeHead(200, { 'content-type': 'text/event-stream' }).end());
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream });
  expect(response.status).toBe(502);
  expect(((await response.json()) as ErrorBody).pdscope).toMatchObject({ code: 'empty_response', leg: 'decode', instance: 'd0' });
});

const FIRST = 'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n';

test.each([
  ['between events', FIRST, FIRST],
  ['inside an event', `${FIRST}data: {"choi`, `${FIRST}data: {"choi\n\n`],
])('a reset %s ends the stream with an error event and no [DONE]', async (_where, sent, kept) => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(async (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(sent);
    await until(() => harness.tracer.last.bytes >= sent.length);
    res.socket?.resetAndDestroy();
  });
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true }, { 'x-request-id': 'r' });
  expect(response.status).toBe(200);
  const text = await response.text();
  expect(text.startsWith(`${kept}data: `)).toBe(true);
  expect(text).not.toContain('[DONE]');
  const event = JSON.parse(text.slice(kept.length + 6)) as ErrorBody;
  expect(event.error).toMatchObject({ type: 'upstream_error', code: 'upstream_reset', message: expect.stringContaining(`decode leg on D0 (${decode.origin})`) });
  expect(event.pdscope).toMatchObject({ leg: 'decode', instance: 'd0', request_id: 'r' });
  await until(() => harness.tracer.last.state !== undefined);
  expect(harness.tracer.last).toMatchObject({ state: 'error', ends: 1, retries: 0, error: { code: 'upstream_reset', leg: 'decode' } });
  expect(harness.scheduler.ended.at(-1)).toMatchObject({ name: 'D0', outcome: 'failed' });
});

test('a whole answer that breaks off takes the connection down with it', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(async (res) => {
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    res.write('{"choices":');
    await until(() => harness.tracer.last.bytes > 0);
    res.socket?.resetAndDestroy();
  });
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  await expect(response.text()).rejects.toThrow('terminated');
  await until(() => harness.tracer.last.state !== undefined);
  expect(harness.tracer.last).toMatchObject({ state: 'error', error: { code: 'upstream_reset' } });
});

test('an error event of the engine passes unchanged and makes the request an error', async () => {
  const sent = `${FIRST}data: {"error": {"message": "boom", "type": "InternalServerError", "param": null, "code": 500}}\n\ndata: [DONE]\n\n`;
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(events([sent.slice(0, 95), sent.slice(95)]));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true });
  expect(await response.text()).toBe(sent);
  await until(() => harness.tracer.last.state !== undefined);
  expect(harness.tracer.last).toMatchObject({ state: 'error', error: { code: 'upstream_reported_error', message: expect.stringContaining('boom') } });
  expect(harness.scheduler.ended.at(-1)).toMatchObject({ name: 'D0', outcome: 'failed' });
});

const FAILED_LOAD = 'data: {"error": {"message": "KV load failed", "type": "InternalServerError", "param": null, "code": 500}}\n\ndata: [DONE]\n\n';

test('a stream that begins with an error is repeated on another instance: no byte of it went out', async () => {
  let engine = 0;
  await using prefill = await startUpstream((res, request, index) => json(`{"choices":[],"kv_transfer_params":{"remote_engine_id":"e${++engine}"}}`)(res, request, index));
  await using bad = await startUpstream(events([FAILED_LOAD]));
  await using good = await startUpstream(events([`${FIRST}data: [DONE]\n\n`]));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [bad.origin, good.origin], connector: 'nixl' });
  const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true });
  expect([response.status, await response.text()]).toEqual([200, `${FIRST}data: [DONE]\n\n`]);
  await until(() => harness.tracer.last.state !== undefined);
  expect(harness.tracer.last).toMatchObject({ state: 'ok', retries: 1 });
  expect(harness.scheduler.ended.filter(({ name }) => name === 'D0')).toMatchObject([{ outcome: 'failed' }]);
});

test.each([[500, 500], [400, 400], ['nonsense', 502]])('a stream that begins with an error of code %s reaches the client with status %s', async (code, status) => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(events([FAILED_LOAD.replace('"code": 500', `"code": ${JSON.stringify(code)}`)]));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], maxRetries: 0 });
  const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true });
  expect([response.status, await response.json()]).toMatchObject([status, { error: { message: 'KV load failed' }, pdscope: { leg: 'decode' } }]);
});

test('the word "error" in an answer is no error', async () => {
  const sent = `data: {"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"error"}]},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`;
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(events([sent]));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  await (await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true })).text();
  await until(() => harness.tracer.last.state !== undefined);
  expect(harness.tracer.last).toMatchObject({ state: 'ok', legs: [{}, { facts: { finishReason: 'stop' } }] });
});

test('a stream that just stops is an error; one with a finish reason but no [DONE] is complete', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(events([FIRST]));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const cut = await (await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true })).text();
  expect(JSON.parse(cut.slice(FIRST.length + 6))).toMatchObject({ error: { code: 'stream_incomplete' } });
  await until(() => harness.tracer.last.state !== undefined);
  expect(harness.tracer.last.state).toBe('error');
  const finished = FIRST.replace('null', '"stop"');
  decode.script = events([finished]);
  expect(await (await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true })).text()).toBe(finished);
  await until(() => harness.tracer.last.state !== undefined);
  expect(harness.tracer.last.state).toBe('ok');
});

test('a silent leg runs into the headers timeout and is repeated on another instance', async () => {
  await using silent = await startUpstream(hang);
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(DECODE_OK);
  await using harness = await startHarness({ prefill: [silent.origin, prefill.origin], decode: [decode.origin], timeouts: { headersMs: SILENCE_MS } });
  expect((await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(200);
  expect(harness.tracer.last.legs[0]?.error).toMatchObject({ code: 'headers_timeout', leg: 'prefill' });
  await until(() => silent.received[0]?.isAborted);
  await using alone = await startHarness({ prefill: [silent.origin], decode: [decode.origin], timeouts: { headersMs: SILENCE_MS } });
  const response = await post(`${alone.origin}/v1/chat/completions`, CHAT_BODY);
  expect(response.status).toBe(504);
  expect(((await response.json()) as ErrorBody).pdscope.code).toBe('headers_timeout');
});

test('a stream that falls silent runs into the idle timeout', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream((res) => void res.writeHead(200, { 'content-type': 'text/event-stream' }).write(FIRST));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], timeouts: { idleMs: SILENCE_MS } });
  const text = await (await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true })).text();
  expect(JSON.parse(text.slice(FIRST.length + 6))).toMatchObject({ error: { code: 'idle_timeout' } });
  await until(() => decode.received[0]?.isAborted);
});

test('a connection that does not come about is a connect timeout', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using harness = await startHarness({ decode: [prefill.origin], timeouts: { connectMs: 30 } });
  const instance = harness.scheduler.add('prefill', 'http://127.0.0.1:9');
  // A pool whose connector never answers stands in for a network that drops SYNs, which loopback cannot do.
  const { Pool } = await import('undici');
  Object.assign(instance, { pool: new Pool('http://127.0.0.1:9', { connect: () => undefined }) });
  const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(response.status).toBe(504);
  expect(((await response.json()) as ErrorBody).pdscope).toMatchObject({ code: 'connect_timeout', leg: 'prefill' });
});

test('no instance of a role is a 503 that says why', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using harness = await startHarness({ prefill: [prefill.origin] });
  const none = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(none.status).toBe(503);
  expect(none.headers.get('retry-after')).toBe('1');
  expect(((await none.json()) as ErrorBody).error.message).toContain('No decode instance can take the request: none is registered');
  const down = harness.scheduler.add('decode', 'http://127.0.0.1:9');
  harness.scheduler.excluded.set(down, 'down: connection refused');
  const body = (await (await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).json()) as ErrorBody;
  expect(body.error.message).toContain('D0 (http://127.0.0.1:9): down: connection refused');
  expect(harness.tracer.last.error?.code).toBe('no_instance');
});

test('instances that failed as prefill and are missed as decode are named with what they answered', async () => {
  await using prefill = await startUpstream(json({ id: 'x', choices: [], kv_transfer_params: null }));
  await using both = await startUpstream(json({ error: { message: 'boom' } }, 500));
  await using harness = await startHarness({ connector: 'nixl' });
  harness.scheduler.add('both', both.origin);
  harness.scheduler.add('prefill', prefill.origin);
  const answer = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect([answer.status, await answer.json()]).toMatchObject([503, { error: { code: 'no_instance', message: `No decode instance can take the request: B0 (${both.origin}): failed in this request: boom` } }]);
});

test('a redirect is not followed', async () => {
  await using elsewhere = await startUpstream(PREFILL_OK);
  await using prefill = await startUpstream((res) => void res.writeHead(307, { location: elsewhere.origin }).end());
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [elsewhere.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(response.status).toBe(502);
  expect(((await response.json()) as ErrorBody).pdscope.code).toBe('upstream_redirect');
  expect(elsewhere.received).toHaveLength(0);
});

test('a removed instance\'s leg is repeated elsewhere', async () => {
  await using hanging = await startUpstream(hang);
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(DECODE_OK);
  await using harness = await startHarness({ prefill: [hanging.origin, prefill.origin], decode: [decode.origin] });
  const answer = post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  await until(() => hanging.received.length === 1);
  await harness.scheduler.instances[0]?.pool.destroy();
  expect((await answer).status).toBe(200);
  expect(harness.tracer.last.legs[0]?.error?.code).toBe('instance_removed');
});

test('a client that reads nothing holds the instance back, and is let go when it stays away', async () => {
  const block = `data: ${'x'.repeat(64 * 1024)}\n\n`;
  let written = 0;
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(async (res, request) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    while (!request.isAborted && written < 4000) {
      written++;
      if (!res.write(block)) await until(() => !res.writableNeedDrain || request.isAborted);
    }
  });
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], timeouts: { idleMs: SILENCE_MS } });
  const { port, hostname } = new URL(harness.origin);
  const socket = connect(Number(port), hostname);
  const body = JSON.stringify({ ...CHAT_BODY, stream: true });
  socket.pause();
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  await until(() => harness.tracer.requests[0]?.state);
  expect(written).toBeLessThan(1000);
  expect(harness.tracer.last).toMatchObject({ state: 'error', error: { code: 'client_stalled' } });
  await until(() => decode.received[0]?.isAborted);
  expect(harness.scheduler.inFlight).toBe(0);
  socket.destroy();
});

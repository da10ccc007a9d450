/** Routes without P/D: to one instance as they are, or refused in words. */
import { expect, test, vi } from 'vitest';
import { startHarness } from './harness.ts';
import { startUpstream, type Script } from './scripted-upstream.ts';

const EMBEDDING = '{"object":"list", "data":[{"embedding":[0.1,1e-3]}],  "id": 12345678901234567890}';
const answering =
  (body: string, type = 'application/json'): Script =>
  (res) =>
    void res.writeHead(200, { 'content-type': type, 'x-own': 'kept' }).end(body);

const RESPONSE_EVENTS = 'event: response.created\ndata: {"type":"response.created"}\n\nevent: response.completed\ndata: {"type":"response.completed"}\n\n';

function post(origin: string, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${origin}${path}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: typeof body === 'string' ? body : JSON.stringify(body) });
}

test.each(['/v1/embeddings', '/tokenize', '/detokenize', '/pooling', '/rerank', '/v1/chat/completions/render', '/v1/completions/derender'])(
  '%s goes to one instance byte for byte, and so does its answer',
  async (path) => {
    await using prefill = await startUpstream(answering(EMBEDDING));
    await using harness = await startHarness({ prefill: [prefill.origin] });
    const body = '{ "input" : "x", "n":1.0,"max_tokens":  7 }';
    const answer = await post(harness.origin, path, body, { 'x-request-id': 'mine' });
    expect([answer.status, answer.headers.get('x-own'), answer.headers.get('x-request-id'), await answer.text()]).toEqual([200, 'kept', 'mine', EMBEDDING]);
    expect(prefill.received.map(({ url, body: sent, headers }) => [url, sent.toString(), headers['x-request-id']])).toEqual([[path, body, 'mine']]);
    expect(harness.tracer.last).toMatchObject({ init: { api: 'forward', path, connector: 'plain' }, state: 'ok', legs: [{ init: { kind: 'forward', rewrites: [] }, outcome: 'ok' }] });
  },
);

test('a stream of the Responses API ends well without [DONE], on a decode instance only', async () => {
  await using prefill = await startUpstream(answering('{}'));
  await using decode = await startUpstream(answering(RESPONSE_EVENTS, 'text/event-stream'));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  for (let round = 0; round < 3; round += 1) {
    const answer = await post(harness.origin, '/v1/responses', { input: 'hi', stream: true });
    expect([answer.status, await answer.text()]).toEqual([200, RESPONSE_EVENTS]);
  }
  expect([prefill.received.length, decode.received.length]).toEqual([0, 3]);
  expect(harness.tracer.last).toMatchObject({ state: 'ok', legs: [{ outcome: 'ok' }] });
  expect(harness.tracer.last.decisions[0]?.excluded).toEqual([{ instance: 'p0', name: 'P0', reason: 'role prefill: /v1/responses generates a whole answer' }]);
});

test('a stream of the Messages API that ends with an error event reaches the client as it is, and is an error in the record', async () => {
  const events = 'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":0}}}\n\nevent: error\ndata: {"type":"error","error":{"type":"internal_error","message":"KV load failed"}}\n\n';
  await using decode = await startUpstream(answering(events, 'text/event-stream'));
  await using harness = await startHarness({ decode: [decode.origin] });
  const answer = await post(harness.origin, '/v1/messages', { model: 'm', max_tokens: 9, messages: [], stream: true });
  expect([answer.status, await answer.text()]).toEqual([200, events]);
  expect(harness.tracer.last).toMatchObject({ state: 'error', error: { leg: 'forward', message: expect.stringContaining('KV load failed') }, legs: [{ outcome: 'error' }] });
});

test('what builds on the state of one instance is refused while several could have it', async () => {
  await using decode = await startUpstream(answering('{"id":"resp_2"}'));
  await using harness = await startHarness({ decode: [decode.origin] });
  const follow = { input: 'more', previous_response_id: 'resp_1' };
  expect((await post(harness.origin, '/v1/responses', follow)).status).toBe(200);
  harness.scheduler.add('decode', 'http://127.0.0.1:9');
  const refused = await post(harness.origin, '/v1/responses', follow);
  expect([refused.status, await refused.json()]).toMatchObject([404, { error: { code: 'instance_state', message: expect.stringContaining('previous_response_id') } }]);
  expect((await post(harness.origin, '/v1/responses', { input: 'x', background: true })).status).toBe(404);
  expect(decode.received).toHaveLength(1);
  const byId = await fetch(`${harness.origin}/v1/responses/resp_1`);
  expect([byId.status, await byId.json()]).toMatchObject([404, { error: { message: expect.stringContaining('ask that instance directly') } }]);
});

test('a whole answer may take as long as that of a decode leg: its head comes with its last token', async () => {
  await using decode = await startUpstream(answering('{}'));
  await using harness = await startHarness({ timeouts: { headersMs: 7000 } });
  const asked = vi.spyOn(harness.scheduler.add('decode', decode.origin).pool, 'dispatch');
  for (const stream of [false, true]) await (await post(harness.origin, '/v1/responses', { input: 'x', stream })).text();
  expect(asked.mock.calls.map(([{ headersTimeout }]) => headersTimeout)).toEqual([21_000, 7000]);
});

test("an instance's refusal and a missing instance reach the client in words", async () => {
  await using decode = await startUpstream((res) => void res.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"The model does not support Embeddings API","type":"NotFoundError","param":null,"code":404}}'));
  await using harness = await startHarness({ decode: [decode.origin] });
  const refused = await post(harness.origin, '/v1/embeddings', { input: 'x' });
  expect([refused.status, await refused.json()]).toMatchObject([404, { error: { message: expect.stringContaining('does not support Embeddings API') }, pdscope: { leg: 'forward', instance_name: 'D0' } }]);
  await using empty = await startHarness({});
  const none = await post(empty.origin, '/tokenize', { prompt: 'x' });
  expect([none.status, await none.json()]).toMatchObject([503, { error: { code: 'no_instance', message: expect.stringContaining('--both') } }]);
});

test('routes that pdscope does not know are refused with those it does', async () => {
  await using harness = await startHarness({});
  for (const path of ['/v1/audio/transcriptions', '/cohere/v2/chat', '/v1/load_lora_adapter']) {
    const refused = await post(harness.origin, path, {});
    expect([refused.status, await refused.json()]).toMatchObject([404, { error: { message: expect.stringContaining('POST /v1/embeddings') } }]);
  }
});

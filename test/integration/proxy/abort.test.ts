/** The client's disconnect reaches whichever engine works for it, at once; closing the proxy ends in time. */
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { CHAT_BODY, post, startHarness, until } from './harness.ts';
import { json, startUpstream, type Script } from './scripted-upstream.ts';

const PREFILL_OK = json('{"choices":[],"kv_transfer_params":{"remote_engine_id":"e1"}}');
const hang: Script = () => undefined;
const FIRST = 'data: {"choices":[]}\n\n';
const endless: Script = (res) => void res.writeHead(200, { 'content-type': 'text/event-stream' }).write(FIRST);

test.each(['prefill', 'decode'] as const)('a disconnect before the head of the %s leg aborts that leg', async (kind) => {
  await using prefill = await startUpstream(kind === 'prefill' ? hang : PREFILL_OK);
  await using decode = await startUpstream(hang);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl' });
  const client = new AbortController();
  post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true }, {}, client.signal).catch(() => undefined);
  const leg = await until(() => (kind === 'prefill' ? prefill : decode).received[0]);
  expect(leg.isAborted).toBe(false);
  client.abort();
  await until(() => leg.isAborted);
  await until(() => harness.tracer.last.state);
  expect(harness.tracer.last).toMatchObject({ state: 'aborted', ends: 1, retries: 0, error: { code: 'client_closed' } });
  expect(harness.tracer.last.legs.at(-1)).toMatchObject({ outcome: 'aborted' });
  expect(harness.scheduler.ended.at(-1)).toEqual({ name: kind === 'prefill' ? 'P0' : 'D0', outcome: 'aborted', reason: undefined });
  expect(harness.scheduler.inFlight).toBe(0);
  expect(decode.received).toHaveLength(kind === 'prefill' ? 0 : 1);
});

test('a disconnect in the middle of the stream aborts the decode leg', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(endless);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const client = new AbortController();
  const answer = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true }, {}, client.signal);
  const first = await answer.body?.getReader().read();
  expect(Buffer.from(first?.value ?? []).toString()).toBe(FIRST);
  client.abort();
  await until(() => decode.received[0]?.isAborted);
  await until(() => harness.tracer.last.state);
  expect(harness.tracer.last).toMatchObject({ state: 'aborted', respondedWith: 200, ends: 1, legs: [{ outcome: 'ok' }, { outcome: 'aborted' }] });
  expect(harness.scheduler.inFlight).toBe(0);
});

test('a disconnect that meets the prefill answer leaves no leg running', async () => {
  let answerPrefill = (): void => undefined;
  await using prefill = await startUpstream((res, request, index) => {
    answerPrefill = () => void PREFILL_OK(res, request, index);
  });
  await using decode = await startUpstream(hang);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const client = new AbortController();
  post(`${harness.origin}/v1/chat/completions`, CHAT_BODY, {}, client.signal).catch(() => undefined);
  await until(() => prefill.received[0]);
  client.abort();
  answerPrefill();
  await until(() => harness.tracer.last.state);
  expect(harness.tracer.last.state).toBe('aborted');
  expect(harness.scheduler.inFlight).toBe(0);
  await until(() => decode.received.every(({ isAborted }) => isAborted));
});

test('a client that leaves in the middle of its body starts no leg', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [prefill.origin] });
  const { port, hostname } = new URL(harness.origin);
  const socket = connect(Number(port), hostname);
  socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"model":');
  await until(() => harness.tracer.requests.length === 1);
  socket.destroy();
  await until(() => harness.tracer.last.state);
  expect(harness.tracer.last).toMatchObject({ state: 'aborted', ends: 1, legs: [], error: { code: 'client_closed' } });
  expect(prefill.received).toHaveLength(0);
});

test('a half-closed connection counts as a disconnect', async () => {
  await using prefill = await startUpstream(hang);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [prefill.origin] });
  const { port, hostname } = new URL(harness.origin);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  const body = JSON.stringify(CHAT_BODY);
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  await until(() => prefill.received[0]);
  socket.end();
  await until(() => prefill.received[0]?.isAborted);
  await until(() => harness.tracer.last.state);
  expect(harness.tracer.last.state).toBe('aborted');
  socket.destroy();
});

test('pipelined requests are answered in order, and aborted together with their connection', async () => {
  let running = 0;
  await using prefill = await startUpstream((res, request, index) => {
    running++;
    if (request.json['model'] === 'hang') return;
    return PREFILL_OK(res, request, index);
  });
  await using decode = await startUpstream((res, request, index) => json({ got: request.json['model'] })(res, request, index));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const { port, hostname } = new URL(harness.origin);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.on('data', (chunk) => void (text += chunk.toString()));
  const send = (model: string): void => {
    const body = JSON.stringify({ ...CHAT_BODY, model });
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  };
  send('one');
  send('two');
  await until(() => text.includes('{"got":"two"}'));
  expect(text.indexOf('{"got":"one"}')).toBeGreaterThan(0);
  expect(text.indexOf('{"got":"one"}')).toBeLessThan(text.indexOf('{"got":"two"}'));
  send('hang');
  send('hang');
  await until(() => running === 4);
  socket.destroy();
  await until(() => prefill.received.slice(2).every(({ isAborted }) => isAborted));
  await until(() => harness.tracer.requests.every(({ ends }) => ends === 1));
  expect(harness.tracer.requests.map(({ state }) => state)).toEqual(['ok', 'ok', 'aborted', 'aborted']);
});

test('close lets a running answer end, cuts what does not, and refuses new requests', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(endless);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const stream = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true });
  const closed = harness.proxy.close();
  const text = await stream.text();
  await closed;
  expect(JSON.parse(text.slice(FIRST.length + 6))).toMatchObject({ error: { code: 'shutting_down' } });
  expect(harness.tracer.last).toMatchObject({ state: 'error', error: { code: 'shutting_down' } });
  await until(() => decode.received[0]?.isAborted);
  await expect(post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).rejects.toThrow('fetch failed');
});

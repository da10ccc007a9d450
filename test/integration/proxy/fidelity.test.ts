/** What the client gets is what the decode instance sent; what each leg gets is what the protocol says. */
import { request as httpRequest } from 'node:http';
import { expect, test } from 'vitest';
import { CHAT_BODY, post, startHarness } from './harness.ts';
import { events, json, startUpstream } from './scripted-upstream.ts';

const PREFILL_OK = json({ id: 'x', choices: [{ index: 0, finish_reason: 'length' }], usage: { prompt_tokens: 11, total_tokens: 12, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 4 } }, kv_transfer_params: null });
const STREAM = [
  'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
  'data: {"id":"c","choices":[{"index":0,"delta":{"content":"h\u00e9llo \u{1f600}"},"finish_reason":null}]}\n\n',
  'data: {"id":"c","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}\n\n',
  'data: {"id":"c","choices":[],"usage":{"prompt_tokens":11,"total_tokens":14,"completion_tokens":3}}\n\n',
  'data: [DONE]\n\n',
];

test('a stream arrives byte for byte, and its end is read for the record', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(events(STREAM));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true }, { 'x-request-id': 'req-1' });
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(response.headers.get('x-request-id')).toBe('req-1');
  expect(Buffer.from(await response.arrayBuffer())).toEqual(Buffer.from(STREAM.join('')));
  const record = harness.tracer.last;
  expect(record).toMatchObject({ state: 'ok', ends: 1, respondedWith: 200, events: 5, bytes: Buffer.byteLength(STREAM.join('')) });
  const [prefillLeg, decodeLeg] = record.legs;
  expect(prefillLeg).toMatchObject({ outcome: 'ok', status: 200, facts: { finishReason: 'length', usage: { promptTokens: 11, completionTokens: 1, cachedTokens: 4 } } });
  expect(decodeLeg).toMatchObject({ outcome: 'ok', status: 200, facts: { finishReason: 'stop', usage: { promptTokens: 11, completionTokens: 3 } } });
  expect(harness.scheduler.ended).toEqual([
    { name: 'P0', outcome: 'ok', reason: undefined },
    { name: 'D0', outcome: 'ok', reason: undefined },
  ]);
});

test('plain sends the client\'s own bytes to decode and the rewritten body to prefill', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const body = '{ "model":"m", "seed": 9007199254740993, "messages":[{"role":"user","content":"a"}],\n "max_tokens":50, "min_tokens":5, "stream_options":{"include_usage":true}, "stream":true, "x_unknown":1.0 }';
  const response = await post(`${harness.origin}/v1/chat/completions`, body);
  expect(await response.text()).toBe('{"ok":1}');
  expect(decode.received[0]?.body.toString()).toBe(body);
  expect(prefill.received[0]?.body.toString()).toBe(
    '{"model":"m", "seed": 9007199254740993, "messages":[{"role":"user","content":"a"}],"max_tokens":1,"stream":false,"x_unknown":1.0}',
  );
  expect(prefill.received[0]?.url).toBe('/v1/chat/completions');
  expect(harness.tracer.last.legs[0]?.init.rewrites).toEqual([
    { field: 'stream', from: 'true', to: 'false' },
    { field: 'stream_options', from: '{"include_usage":true}' },
    { field: 'max_tokens', from: '50', to: '1' },
    { field: 'min_tokens', from: '5' },
  ]);
  expect(harness.tracer.last.legs[1]?.init.rewrites).toEqual([]);
});

test('nixl relays kv_transfer_params as the bytes they came in', async () => {
  const params = '{"do_remote_prefill":true, "remote_block_ids":[[1,2]],"remote_port":5600,"future":{"a":1.0},"room":9223372036854775807}';
  await using prefill = await startUpstream(json(`{"id":"x","choices":[],"kv_transfer_params": ${params} ,"usage":null}`));
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl' });
  const body = '{"model":"m","prompt":"a","seed":18446744073709551615}';
  expect((await post(`${harness.origin}/v1/completions`, body)).status).toBe(200);
  expect(decode.received[0]?.body.toString()).toBe(`{"model":"m","prompt":"a","seed":18446744073709551615,"kv_transfer_params":${params}}`);
  expect(prefill.received[0]?.body.toString()).toBe(
    '{"model":"m","prompt":"a","seed":18446744073709551615,"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}}',
  );
  const [prefillLeg, decodeLeg] = harness.tracer.last.legs;
  expect(prefillLeg?.facts?.kvTransferParams).toBe(params);
  expect(decodeLeg?.init.kvTransferParams).toBe(params);
});

test('nixl without params from prefill is a decode-only run and is recorded as one', async () => {
  await using prefill = await startUpstream(json('{"id":"x","choices":[],"kv_transfer_params":null}'));
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl' });
  const body = '{"model":"m","prompt":"a"}';
  expect((await post(`${harness.origin}/v1/completions`, body)).status).toBe(200);
  expect(decode.received[0]?.body.toString()).toBe(body);
  expect(harness.tracer.last.legs[1]?.init.rewrites).toEqual([
    { field: 'kv_transfer_params', to: "none: the prefill answer's kv_transfer_params were null" },
  ]);
});

test.each([
  ['plain', 'chat/completions', { ...CHAT_BODY, n: 2 }, 'left out: n=2: the handoff serves one sequence'],
  ['nixl', 'chat/completions', { ...CHAT_BODY, n: 2 }, 'left out: n=2: the handoff serves one sequence'],
  ['nixl', 'completions', { model: 'm', prompt: ['a', 'b'] }, 'left out: 2 prompts: the handoff serves one sequence'],
] as const)('%s sends several sequences to decode only (%s)', async (connector, path, body, why) => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector });
  expect((await post(`${harness.origin}/v1/${path}`, body)).status).toBe(200);
  expect(prefill.received).toHaveLength(0);
  expect(decode.received[0]?.json).toEqual(body);
  expect(harness.tracer.last.legs).toHaveLength(1);
  expect(harness.tracer.last.legs[0]?.init.rewrites).toEqual([{ field: '(prefill leg)', to: why }]);
});

test('status, header spelling, duplicates and length come from decode; hop-by-hop fields do not', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream((res) => {
    res.writeHead(201, 'Made', [
      'Content-Type', 'application/json', 'X-Twice', 'a', 'X-Twice', 'b', 'Connection', 'X-Hop', 'X-Hop', 'secret',
      'Keep-Alive', 'timeout=9', 'X-Request-ID', 'other', 'Content-Length', '13', 'Date', 'Thu, 01 Jan 2026 00:00:00 GMT',
    ]);
    res.end('{"answer": 1}');
  });
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const { status, message, raw, text } = await new Promise<{ status: number; message: string; raw: string[]; text: string }>((resolve, reject) => {
    const req = httpRequest(`${harness.origin}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-request-id': 'mine' } }, (res) => {
      let text = '';
      res.on('data', (chunk: Buffer) => void (text += chunk.toString()));
      res.on('end', () => resolve({ status: res.statusCode ?? 0, message: res.statusMessage ?? '', raw: res.rawHeaders, text }));
    });
    req.on('error', reject);
    req.end(JSON.stringify(CHAT_BODY));
  });
  expect({ status, message, text }).toEqual({ status: 201, message: 'Made', text: '{"answer": 1}' });
  expect(raw.slice(0, 12)).toEqual([
    'Content-Type', 'application/json', 'X-Twice', 'a', 'X-Twice', 'b', 'Content-Length', '13',
    'Date', 'Thu, 01 Jan 2026 00:00:00 GMT', 'X-Request-Id', 'mine',
  ]);
  expect(raw.map((name) => name.toLowerCase())).not.toContain('x-hop');
});

test('both legs carry the client\'s headers, one request id, and its Authorization', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], openaiApiKey: 'sk-env' });
  await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY, {
    authorization: 'Bearer sk-client', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'x-session-id': 's1', te: 'trailers', 'accept-encoding': 'gzip',
  });
  const [p, d] = [prefill.received[0], decode.received[0]];
  for (const leg of [p, d]) {
    expect(leg?.headers).toMatchObject({ authorization: 'Bearer sk-client', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'x-session-id': 's1' });
    expect(leg?.headers['te']).toBeUndefined();
    expect(leg?.headers['content-length']).toBe(String(leg?.body.length));
    expect(leg?.headers['x-request-id']).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
  }
  expect(p?.headers['x-request-id']).toBe(d?.headers['x-request-id']);
  expect(p?.headers['accept-encoding']).toBe('identity');
  expect(d?.headers['accept-encoding']).toBe('gzip');
});

test.each([
  ['the configured key', 'sk-env', 'Bearer sk-env'],
  ['nothing', undefined, undefined],
  ['nothing for an empty key', '', undefined],
])('without the client\'s Authorization legs carry %s', async (_what, openaiApiKey, expected) => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], ...(openaiApiKey !== undefined && { openaiApiKey }) });
  await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(prefill.received[0]?.headers.authorization).toBe(expected);
  expect(decode.received[0]?.headers.authorization).toBe(expected);
});

test('an X-Request-Id that is too long is replaced, and a body\'s request_id stands in for a missing one', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const long = await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY, { 'x-request-id': 'x'.repeat(257) });
  expect(long.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  const named = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, request_id: 'from-body' });
  expect(named.headers.get('x-request-id')).toBe('from-body');
  expect(decode.received[1]?.headers['x-request-id']).toBe('from-body');
  expect(harness.tracer.last.parsed?.requestId).toBe('from-body');
});

test('a compressed answer passes through as it is', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  const packed = (await import('node:zlib')).gzipSync(STREAM.join(''));
  await using decode = await startUpstream((res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
    res.end(packed);
  });
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  const response = await post(`${harness.origin}/v1/chat/completions`, { ...CHAT_BODY, stream: true });
  expect(await response.text()).toBe(STREAM.join(''));
  expect(harness.tracer.last).toMatchObject({ state: 'ok', events: 0, bytes: packed.length });
});

test('instances on IPv6 addresses are reached', async () => {
  await using prefill = await startUpstream(PREFILL_OK, '::1');
  await using decode = await startUpstream(json({ ok: 1 }), '::1');
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  expect((await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY)).status).toBe(200);
  const status = (await (await fetch(`${harness.origin}/status`)).json()) as { prefill_nodes: string[] };
  expect(status.prefill_nodes).toEqual([`[::1]:${prefill.port}`]);
});

test('bodies are captured only when asked for', async () => {
  await using prefill = await startUpstream(PREFILL_OK);
  await using decode = await startUpstream(json({ ok: 1 }));
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin] });
  await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(harness.tracer.last.legs[1]?.facts?.body).toBeUndefined();
  harness.tracer.wantsBodies = true;
  await post(`${harness.origin}/v1/chat/completions`, CHAT_BODY);
  expect(harness.tracer.last.legs[1]?.facts?.body?.toString()).toBe('{"ok":1}');
});

/** Streaming turns of a conversation whose decode leg runs whole: the official client gets out of the stream what the whole answer says. */
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import type { RequestRecord } from './harness.ts';
import { post, startHarness, until, type Harness } from './harness.ts';
import { json, startUpstream, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

const PREFILL_OK = json('{"id":"x","choices":[],"kv_transfer_params":{"remote_engine_id":"e1","remote_block_ids":[[1,2,3]]}}');
const HELD = '{"do_remote_decode":true,"remote_block_ids":[[7]],"remote_engine_id":"d","remote_num_tokens":9}';

interface Case extends AsyncDisposable {
  readonly client: OpenAI;
  readonly direct: OpenAI;
  readonly harness: Harness;
  readonly prefill: ScriptedUpstream;
  readonly decode: ScriptedUpstream;
}

async function startCase(script: Script): Promise<Case> {
  const prefill = await startUpstream(PREFILL_OK);
  const decode = await startUpstream(script);
  const harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl-bidirectional', protocol: { reemitStreams: true } });
  return {
    client: new OpenAI({ baseURL: `${harness.origin}/v1`, apiKey: 'k', maxRetries: 0, defaultHeaders: { 'x-conversation-id': 'c1' } }),
    direct: new OpenAI({ baseURL: `${decode.origin}/v1`, apiKey: 'k', maxRetries: 0 }),
    harness,
    prefill,
    decode,
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await Promise.all([prefill.close(), decode.close()]);
    },
  };
}

async function lastRequest({ harness }: Case): Promise<RequestRecord> {
  await until(() => harness.tracer.last.state);
  return harness.tracer.last;
}

const messages = [{ role: 'user' as const, content: 'Köln? 🌧' }];
const TOKEN = { token: 'R', logprob: -0.1234567890123456, bytes: [82], top_logprobs: [] };
const TOOL_CALLS = [
  { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city": "Köln"}' } },
  { id: 'call_2', type: 'function', function: { name: 'time', arguments: '{}' } },
];

function chat(choices: readonly object[], extra: object = {}): string {
  return JSON.stringify({
    id: 'chatcmpl-1', object: 'chat.completion', created: 1789095808, model: 'm',
    choices: choices.map((choice, index) => ({ index, logprobs: null, finish_reason: 'stop', stop_reason: null, token_ids: null, ...choice })),
    service_tier: null, system_fingerprint: 'vllm-0.29.0-1a2b', usage: { prompt_tokens: 9, total_tokens: 12, completion_tokens: 3 }, prompt_logprobs: null, ...extra,
  }).replace(/\}$/, `,"kv_transfer_params":${HELD}}`);
}

// The client starts from null, the stream says ''.
const EMPTY: unknown = expect.toSatisfy((text) => text === '' || text === null);

const message = (content: string | null, more: object = {}): object => ({ role: 'assistant', content, refusal: null, annotations: null, audio: null, function_call: null, tool_calls: [], reasoning: null, ...more });

test.each<[string, string]>([
  ['text', chat([{ message: message('R\u00e4in "🌧"\n\u2028\\n') }])],
  ['log probabilities', chat([{ message: message('R'), logprobs: { content: [TOKEN] }, finish_reason: 'length' }])],
  ['tool calls', chat([{ message: message(null, { tool_calls: TOOL_CALLS }), finish_reason: 'tool_calls' }])],
  ['text and a tool call', chat([{ message: message('so:', { tool_calls: TOOL_CALLS.slice(0, 1) }), finish_reason: 'tool_calls' }])],
  ['a refusal', chat([{ message: message(null, { refusal: 'no' }) }])],
  ['several choices', chat([{ message: message('one') }, { message: message('two'), finish_reason: 'length' }])],
  ['no text at all', chat([{ message: message('') }])],
])('chat, %s: the stream adds up to the whole answer', async (_what, body) => {
  await using c = await startCase(json(body));
  const whole = await c.direct.chat.completions.create({ model: 'm', messages });
  const tools = [{ type: 'function' as const, function: { name: 'weather', parameters: {} } }];
  const added = await c.client.chat.completions.stream({ model: 'm', messages, stream_options: { include_usage: true }, ...(body.includes('call_1') && { tools }) }).finalChatCompletion();
  expect({ ...added, object: 'chat.completion' }).toMatchObject({
    id: whole.id, created: whole.created, model: whole.model, system_fingerprint: whole.system_fingerprint, usage: whole.usage,
    choices: whole.choices.map(({ index, finish_reason, logprobs, message: { content, refusal, tool_calls } }) => ({
      index,
      finish_reason,
      ...(logprobs !== null && { logprobs: { content: logprobs?.content } }),
      message: {
        role: 'assistant',
        content: content === null || content === '' ? EMPTY : content,
        ...(refusal !== null && { refusal }),
        ...(tool_calls !== undefined && tool_calls.length > 0 && { tool_calls }),
      },
    })),
  });
});

test('events as vLLM writes them: role, reasoning, text, end, usage, [DONE]; no transfer params; values untouched', async () => {
  const body = chat([{ message: message('hi', { reasoning: 'so' }), logprobs: { content: [] }, stop_reason: 128001, token_ids: [1, 2] }], { created: 17890958080000000000 }).replace('17890958080000000000', '1.50e3');
  await using c = await startCase(json(body, 200, { 'x-served-by': 'd0', 'content-type': 'application/json; charset=utf-8' }));
  const response = await post(`${c.harness.origin}/v1/chat/completions`, { model: 'm', messages, stream: true, stream_options: { include_usage: true } }, { 'x-session-id': 's' });
  const text = await response.text();
  const head = '"id":"chatcmpl-1","object":"chat.completion.chunk","created":1.50e3,"model":"m","system_fingerprint":"vllm-0.29.0-1a2b",';
  expect(text.split('\n\n')).toEqual([
    `data: {${head}"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
    `data: {${head}"choices":[{"index":0,"delta":{"reasoning":"so"},"logprobs":{"content":[]},"finish_reason":null,"token_ids":[1,2]}]}`,
    `data: {${head}"choices":[{"index":0,"delta":{"content":"hi"},"logprobs":null,"finish_reason":null}]}`,
    `data: {${head}"choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":128001}]}`,
    `data: {${head}"choices":[],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3}}`,
    'data: [DONE]',
    '',
  ]);
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(response.headers.get('content-length')).toBeNull();
  expect(response.headers.get('x-served-by')).toBe('d0');
  expect(c.decode.received[0]?.json).toMatchObject({ stream: false, kv_transfer_params: { remote_engine_id: 'e1' } });
  expect(c.decode.received[0]?.json).not.toHaveProperty('stream_options');
  expect(await lastRequest(c)).toMatchObject({ state: 'ok', events: 6, respondedWith: 200, legs: [{ outcome: 'ok' }, { outcome: 'ok', facts: { finishReason: 'stop' } }] });
});

test('without include_usage there is no usage', async () => {
  await using c = await startCase(json(chat([{ message: message('hi') }])));
  const text = await (await post(`${c.harness.origin}/v1/chat/completions`, { model: 'm', messages, stream: true }, { 'x-session-id': 's' })).text();
  expect(text).not.toContain('usage');
  expect(text.endsWith('"stop_reason":null}]}\n\ndata: [DONE]\n\n')).toBe(true);
});

test('completions: every choice with its text, log probabilities and end', async () => {
  const choices = [
    { index: 0, text: ' wör"ld', logprobs: { tokens: ['a'], token_logprobs: [-0.5], top_logprobs: null, text_offset: [0] }, finish_reason: 'length', stop_reason: null },
    { index: 1, text: ' moon', logprobs: null, finish_reason: 'stop', stop_reason: 'x' },
  ];
  await using c = await startCase(json({ id: 'cmpl-1', object: 'text_completion', created: 1, model: 'm', choices, usage: { prompt_tokens: 1, total_tokens: 3, completion_tokens: 2 } }));
  const seen: unknown[] = [];
  let usage: unknown;
  for await (const chunk of await c.client.completions.create({ model: 'm', prompt: 'hello', stream: true, stream_options: { include_usage: true } })) {
    expect(chunk).toMatchObject({ id: 'cmpl-1', object: 'text_completion', created: 1, model: 'm' });
    seen.push(...chunk.choices);
    usage ??= chunk.usage ?? undefined;
  }
  expect(seen).toEqual(choices);
  expect(usage).toEqual({ prompt_tokens: 1, total_tokens: 3, completion_tokens: 2 });
});

test('the whole answer is kept for the next turn', async () => {
  await using c = await startCase(json(chat([{ message: message('hi') }])));
  for (const history of [messages, [...messages, { role: 'assistant' as const, content: 'hi' }, ...messages]]) {
    for await (const _chunk of await c.client.chat.completions.create({ model: 'm', messages: history, stream: true }));
  }
  await lastRequest(c);
  expect(c.prefill.received.map(({ json: { kv_transfer_params: params } }) => params)).toEqual([expect.objectContaining({ remote_block_ids: null }), JSON.parse(HELD)]);
});

test('a request without a conversation streams as ever', async () => {
  await using c = await startCase(json(chat([{ message: message('hi') }])));
  await (await post(`${c.harness.origin}/v1/chat/completions`, { model: 'm', messages, stream: true })).text();
  expect(c.decode.received[0]?.json).toMatchObject({ stream: true });
});

test('an engine that fails is an error status, not a stream', async () => {
  await using c = await startCase(json({ error: { message: 'no room', type: 'BadRequestError', code: 400 } }, 400));
  const error = await c.client.chat.completions.create({ model: 'm', messages, stream: true }).then(() => undefined, (thrown: unknown) => thrown);
  expect(error).toMatchObject({ status: 400, message: '400 no room' });
});

test('an answer without choices is 502', async () => {
  await using c = await startCase(json('{"id":"x"}'));
  const response = await post(`${c.harness.origin}/v1/chat/completions`, { model: 'm', messages, stream: true, conversation_id: 1 });
  expect([response.status, await response.json()]).toMatchObject([502, { pdscope: { code: 'bad_response' } }]);
});

test('a client that leaves while decode works stops the engine', async () => {
  await using c = await startCase(() => undefined);
  const leaving = new AbortController();
  post(`${c.harness.origin}/v1/chat/completions`, { model: 'm', messages, stream: true, conversation_id: 1 }, {}, leaving.signal).catch(() => undefined);
  await until(() => c.decode.received.length === 1);
  leaving.abort();
  await until(() => c.decode.received[0]?.isAborted);
  expect(await lastRequest(c)).toMatchObject({ state: 'aborted' });
});

test('a slow client gets it all', async () => {
  const text = 'x'.repeat(4_000_000);
  await using c = await startCase(json(chat([{ message: message(text) }, { message: message(text) }])));
  const response = await post(`${c.harness.origin}/v1/chat/completions`, { model: 'm', messages, stream: true, conversation_id: 1 });
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.length;
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(bytes).toBe((await lastRequest(c)).bytes);
  expect(bytes).toBeGreaterThan(8_000_000);
});

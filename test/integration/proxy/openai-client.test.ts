/** The official client sees through the proxy what it would see from the instance: same objects, same errors. */
import OpenAI, { APIError, BadRequestError } from 'openai';
import { expect, test } from 'vitest';
import { startHarness, type Harness } from './harness.ts';
import { events, json, startUpstream, type Script, type ScriptedUpstream } from './scripted-upstream.ts';

const PREFILL_OK = json('{"id":"x","choices":[],"kv_transfer_params":{"remote_engine_id":"e1","remote_block_ids":[[1,2,3]]}}');

interface Case extends AsyncDisposable {
  /** Through the proxy. */
  readonly proxied: OpenAI;
  /** Straight to the decode instance. */
  readonly direct: OpenAI;
  /** Bytes of the last proxied answer. */
  readonly lastBytes: () => Promise<string>;
  readonly harness: Harness;
  readonly decode: ScriptedUpstream;
}

async function startCase(script: Script): Promise<Case> {
  const prefill = await startUpstream(PREFILL_OK);
  const decode = await startUpstream(script);
  const harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl' });
  let last: Promise<string> = Promise.resolve('');
  const capture: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    last = response.clone().text();
    // The client aborts a stream that broke off, and this copy with it; whoever asks for its bytes is still told.
    last.catch(() => undefined);
    return response;
  };
  return {
    proxied: new OpenAI({ baseURL: `${harness.origin}/v1`, apiKey: 'sk-1', maxRetries: 0, fetch: capture }),
    direct: new OpenAI({ baseURL: `${decode.origin}/v1`, apiKey: 'sk-1', maxRetries: 0 }),
    lastBytes: () => last,
    harness,
    decode,
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await Promise.all([prefill.close(), decode.close()]);
    },
  };
}

const messages = [{ role: 'user' as const, content: 'What is the weather in Köln? 🌧' }];
const CHAT_ANSWER = '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"R\\u00e4in 🌧","tool_calls":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3},"kv_transfer_params":null}';
const chatChunk = (choice: object, extra = {}): string =>
  `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, finish_reason: null, ...choice }], ...extra })}\n\n`;
const CHAT_STREAM = [
  chatChunk({ delta: { role: 'assistant', content: '' } }),
  chatChunk({ delta: { content: 'Rä' } }),
  chatChunk({ delta: { content: 'in 🌧' } }),
  chatChunk({ delta: {}, finish_reason: 'stop' }),
  'data: [DONE]\n\n',
];

test('chat, whole', async () => {
  await using c = await startCase(json(CHAT_ANSWER));
  const body = { model: 'm', messages };
  expect(await c.proxied.chat.completions.create(body)).toEqual(await c.direct.chat.completions.create(body));
  expect(await c.lastBytes()).toBe(CHAT_ANSWER);
  expect(c.decode.received[0]?.headers.authorization).toBe('Bearer sk-1');
});

test('chat, streamed', async () => {
  await using c = await startCase(events(CHAT_STREAM));
  let text = '';
  for await (const chunk of await c.proxied.chat.completions.create({ model: 'm', messages, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta.content ?? '';
  }
  expect(text).toBe('Räin 🌧');
  expect(await c.lastBytes()).toBe(CHAT_STREAM.join(''));
  expect(c.decode.received[0]?.json).toMatchObject({ stream: true, stream_options: { include_usage: true }, kv_transfer_params: { remote_engine_id: 'e1', remote_block_ids: [[1, 2, 3]] } });
});

test('tools, streamed in pieces', async () => {
  const stream = [
    chatChunk({ delta: { role: 'assistant', tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'weather', arguments: '' } }] } }),
    chatChunk({ delta: { tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] } }),
    chatChunk({ delta: { tool_calls: [{ index: 0, function: { arguments: '"Köln"}' } }] } }),
    chatChunk({ delta: {}, finish_reason: 'tool_calls' }),
    'data: [DONE]\n\n',
  ];
  await using c = await startCase(events(stream));
  const tools = [{ type: 'function' as const, function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
  const final = await c.proxied.chat.completions.stream({ model: 'm', messages, tools, tool_choice: 'auto' }).finalChatCompletion();
  expect(final.choices[0]?.message.tool_calls?.[0]).toMatchObject({ id: 'call_1', function: { name: 'weather', arguments: '{"city":"Köln"}' } });
  expect(final.choices[0]?.finish_reason).toBe('tool_calls');
  expect(await c.lastBytes()).toBe(stream.join(''));
  // Tools shape the prompt: both legs must carry them.
  expect(c.harness.tracer.last.legs[0]?.init.body.toString()).toContain('"tools":[{"type":"function"');
});

test('completions, whole and streamed', async () => {
  const answer = '{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" world","logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":1,"total_tokens":2,"completion_tokens":1}}';
  const stream = [
    'data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" wor","finish_reason":null}]}\n\n',
    'data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"ld","finish_reason":"length"}]}\n\n',
    'data: [DONE]\n\n',
  ];
  await using c = await startCase((res, request, index) => (request.json['stream'] === true ? events(stream) : json(answer))(res, request, index));
  const whole = await c.proxied.completions.create({ model: 'm', prompt: 'hello', max_tokens: 1 });
  expect(whole.choices[0]?.text).toBe(' world');
  expect(await c.lastBytes()).toBe(answer);
  let text = '';
  for await (const chunk of await c.proxied.completions.create({ model: 'm', prompt: 'hello', stream: true })) text += chunk.choices[0]?.text ?? '';
  expect(text).toBe(' world');
  expect(await c.lastBytes()).toBe(stream.join(''));
});

test('errors arrive as the client\'s own error classes, with the leg beside them', async () => {
  await using c = await startCase(json({ error: { message: 'max_tokens is too large', type: 'BadRequestError', param: 'max_tokens', code: 400 } }, 400));
  const error = await c.proxied.chat.completions.create({ model: 'm', messages }).then(() => undefined, (thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(BadRequestError);
  expect(error).toMatchObject({ status: 400, param: 'max_tokens', message: '400 max_tokens is too large', requestID: c.harness.tracer.last.init.requestId });
  expect(JSON.parse(await c.lastBytes())).toMatchObject({ pdscope: { leg: 'decode', instance_name: 'D0' } });
});

test('a stream that breaks off throws in the client', async () => {
  let breakOff = (): void => undefined;
  await using c = await startCase((res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(CHAT_STREAM[0]);
    breakOff = () => res.socket?.resetAndDestroy();
  });
  const seen: string[] = [];
  const consume = async (): Promise<void> => {
    for await (const chunk of await c.proxied.chat.completions.create({ model: 'm', messages, stream: true })) {
      seen.push(chunk.id);
      // Only now: a reset takes along what is still on its way.
      breakOff();
    }
  };
  const error = await consume().then(() => undefined, (thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(APIError);
  expect(error).toMatchObject({ code: 'upstream_reset', message: expect.stringContaining('decode leg on D0') });
  expect(seen).toEqual(['chatcmpl-1']);
});

test('models are listed', async () => {
  await using c = await startCase(json({ object: 'list', data: [{ id: 'm', object: 'model', created: 1, owned_by: 'vllm' }] }));
  const ids: string[] = [];
  for await (const model of c.proxied.models.list()) ids.push(model.id);
  expect(ids).toContain('m');
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';
import { CHAT, COMPLETIONS, json, prompt, send, sseObjects } from './sim-client.ts';

const MESSAGES = [{ role: 'user', content: 'Tell me about the river.' }];
let instance: SimInstance;

beforeAll(async () => {
  instance = await startSimInstance({ role: 'both', speed: 100, loras: ['sql-adapter'], maxModelLen: 4096 });
});
afterAll(async () => {
  await instance.close();
});

describe('information routes', () => {
  it('marks every answer as simulated', async () => {
    for (const path of ['/health', '/version', '/metrics', '/v1/models', '/nowhere']) {
      expect((await send(instance, path)).headers['x-pdscope-simulated']).toBe('1');
    }
  });

  it('answers health, ping, version and load', async () => {
    expect(await send(instance, '/health')).toMatchObject({ status: 200, text: '' });
    expect(await send(instance, '/ping', { method: 'POST' })).toMatchObject({ status: 200, text: '' });
    expect(json(await send(instance, '/version'))).toEqual({ version: '0.29.0+sim' });
    expect(json(await send(instance, '/load'))).toEqual({ server_load: 0 });
  });

  it('lists the model and its adapters in the shape of vLLM', async () => {
    const { object, data } = json(await send(instance, '/v1/models'));
    expect(object).toBe('list');
    expect(data).toHaveLength(2);
    expect(data[0]).toMatchObject({
      id: 'sim/Qwen3-8B', object: 'model', owned_by: 'vllm', root: 'sim/Qwen3-8B', parent: null, max_model_len: 4096,
    });
    expect(data[1]).toMatchObject({ id: 'sql-adapter', parent: 'sim/Qwen3-8B', max_model_len: null });
  });

  it('tokenizes and detokenizes', async () => {
    const text = 'Prefill, then decode: 42 tokens.';
    const tokenized = json(await send(instance, '/tokenize', { body: { prompt: text, return_token_strs: true } }));
    expect(tokenized.count).toBe(tokenized.tokens.length);
    expect(tokenized.token_strs.join('')).toBe(text);
    expect(json(await send(instance, '/detokenize', { body: { tokens: tokenized.tokens } }))).toEqual({ prompt: text });
    const chat = json(await send(instance, '/tokenize', { body: { messages: MESSAGES } }));
    expect(json(await send(instance, '/detokenize', { body: { tokens: chat.tokens } })).prompt).toBe(
      '<|im_start|>user\nTell me about the river.<|im_end|>\n<|im_start|>assistant\n',
    );
  });

  it('shows its configuration in development mode', async () => {
    const { vllm_config: config } = json(await send(instance, '/server_info?config_format=json'));
    expect(config.cache_config.block_size).toBe(16);
    expect(config.kv_transfer_config).toMatchObject({ kv_connector: 'NixlConnector', engine_id: instance.engineId });
  });
});

describe('streams', () => {
  it('writes a chat stream byte for byte as vLLM does', async () => {
    const answer = await send(instance, CHAT, { headers: { 'x-request-id': 'abc' }, body: { messages: MESSAGES, max_tokens: 2, stream: true } });
    expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    const [, first, last] = sseObjects(answer.text);
    const head = `{"id":"chatcmpl-abc","object":"chat.completion.chunk","created":${first.created},"model":"sim/Qwen3-8B"`;
    const text = (value: string): string => JSON.stringify(value);
    expect(answer.text).toBe(
      `data: ${head},"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}\n\n` +
        `data: ${head},"choices":[{"index":0,"delta":{"content":${text(first.choices[0].delta.content)}},"logprobs":null,"finish_reason":null,"token_ids":null}]}\n\n` +
        `data: ${head},"choices":[{"index":0,"delta":{"content":${text(last.choices[0].delta.content)}},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}\n\n` +
        'data: [DONE]\n\n',
    );
  });

  it('writes a completion stream byte for byte as vLLM does', async () => {
    const answer = await send(instance, COMPLETIONS, { headers: { 'x-request-id': 'abc' }, body: { prompt: 'the', max_tokens: 1, stream: true } });
    const [only] = sseObjects(answer.text);
    expect(answer.text).toBe(
      `data: {"id":"cmpl-abc","object":"text_completion","created":${only.created},"model":"sim/Qwen3-8B","choices":[{"index":0,"text":${JSON.stringify(only.choices[0].text)},"logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}\n\ndata: [DONE]\n\n`,
    );
  });

  it('says the same streamed and whole, with the usage in one extra chunk', async () => {
    const body = { messages: MESSAGES, max_tokens: 40, seed: 7 };
    const whole = json(await send(instance, CHAT, { body }));
    const streamed = sseObjects((await send(instance, CHAT, { body: { ...body, stream: true, stream_options: { include_usage: true } } })).text);
    const usage = streamed.pop();
    expect(usage.choices).toEqual([]);
    expect(usage.usage).toMatchObject({
      prompt_tokens: whole.usage.prompt_tokens, completion_tokens: whole.usage.completion_tokens, total_tokens: whole.usage.total_tokens,
    });
    expect(Object.keys(usage.usage.prompt_tokens_details)).toEqual(['cached_tokens']);
    expect(usage.metrics.time_to_first_token_ms).toBeGreaterThan(0);
    expect(streamed.map((chunk) => chunk.choices[0].delta.content).join('')).toBe(whole.choices[0].message.content);
    expect(streamed.every((chunk) => chunk.usage === undefined)).toBe(true);
  });

  it('counts up with continuous usage', async () => {
    const body = { prompt: 'the river', max_tokens: 3, ignore_eos: true, stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
    const chunks = sseObjects((await send(instance, COMPLETIONS, { body })).text);
    expect(chunks.map((chunk) => chunk.usage.completion_tokens)).toEqual([1, 2, 3, 3]);
    expect(chunks.map((chunk) => chunk.usage.prompt_tokens_details !== undefined)).toEqual([false, false, false, true]);
  });

  it('puts several tokens into a chunk with stream_interval', async () => {
    const body = { prompt: 'the', max_tokens: 7, ignore_eos: true, stream: true, stream_interval: 3, return_token_ids: true };
    const chunks = sseObjects((await send(instance, COMPLETIONS, { body })).text);
    expect(chunks.map((chunk) => chunk.choices[0].token_ids.length)).toEqual([3, 3, 1]);
  });

  it('ends a stream that stops by itself with an empty finish chunk', async () => {
    const chunks = sseObjects((await send(instance, CHAT, { body: { messages: MESSAGES, stream: true, response_format: { type: 'json_object' } } })).text);
    expect(chunks.at(-1).choices[0]).toEqual({
      index: 0, delta: { content: '' }, logprobs: null, finish_reason: 'stop', stop_reason: null, token_ids: null,
    });
  });
});

describe('whole answers', () => {
  it('hold every field, null where unset', async () => {
    const body = json(await send(instance, CHAT, { headers: { 'x-request-id': 'r1' }, body: { messages: MESSAGES, max_tokens: 3 } }));
    expect(Object.keys(body)).toEqual([
      'id', 'object', 'created', 'model', 'choices', 'service_tier', 'system_fingerprint', 'usage', 'prompt_logprobs',
      'prompt_token_ids', 'prompt_text', 'kv_transfer_params', 'ec_transfer_params', 'metrics',
    ]);
    expect(body).toMatchObject({ id: 'chatcmpl-r1', object: 'chat.completion', kv_transfer_params: null, ec_transfer_params: null });
    expect(body.system_fingerprint).toMatch(/^vllm-0\.29\.0\+sim-[0-9a-f]{8}$/u);
    expect(body.choices[0]).toMatchObject({ index: 0, finish_reason: 'length', stop_reason: null, logprobs: null, token_ids: null });
    expect(body.usage.completion_tokens).toBe(3);
  });

  it('report cached tokens on the second asking, by whole blocks', async () => {
    const body = { prompt: prompt(50, 'cached'), max_tokens: 1 };
    expect(json(await send(instance, COMPLETIONS, { body })).usage.prompt_tokens_details.cached_tokens).toBe(0);
    const usage = json(await send(instance, COMPLETIONS, { body })).usage;
    expect(usage.prompt_tokens_details.cached_tokens).toBe(Math.floor((usage.prompt_tokens - 1) / 16) * 16);
  });

  it('give n choices per prompt, and one block of choices per prompt', async () => {
    const body = json(await send(instance, COMPLETIONS, { body: { prompt: ['the river', 'a mountain'], n: 2, max_tokens: 4, ignore_eos: true } }));
    expect(body.choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2, 3]);
    expect(body.usage.completion_tokens).toBe(16);
    expect(body.choices[0].text).not.toBe(body.choices[1].text);
  });

  it('take token ids as prompt', async () => {
    const body = json(await send(instance, COMPLETIONS, { body: { prompt: [1000, 1001, 1002], max_tokens: 2, return_token_ids: true } }));
    expect(body.usage.prompt_tokens).toBe(3);
    expect(body.choices[0].prompt_token_ids).toEqual([1000, 1001, 1002]);
    expect(body.choices[0].token_ids).toHaveLength(2);
  });

  it('carry logprobs in both shapes', async () => {
    const chat = json(await send(instance, CHAT, { body: { messages: MESSAGES, max_tokens: 3, logprobs: true, top_logprobs: 2 } }));
    const { content } = chat.choices[0].logprobs;
    expect(content).toHaveLength(3);
    expect(content[0].top_logprobs).toHaveLength(2);
    expect(content[0].top_logprobs[0].token).toBe(content[0].token);
    const completion = json(await send(instance, COMPLETIONS, { body: { prompt: 'the', max_tokens: 3, logprobs: 1 } }));
    const { tokens, text_offset: offsets, token_logprobs: values } = completion.choices[0].logprobs;
    expect(tokens.join('')).toBe(completion.choices[0].text);
    expect(offsets).toEqual([0, tokens[0].length, tokens[0].length + tokens[1].length]);
    expect(values.every((value: number) => value <= 0)).toBe(true);
  });

  it('stop before a stop string and name it', async () => {
    const body = { prompt: 'the river', max_tokens: 60, ignore_eos: true };
    const full: string = json(await send(instance, COMPLETIONS, { body })).choices[0].text;
    const stop = full.slice(20, 26);
    const cut = json(await send(instance, COMPLETIONS, { body: { ...body, stop } })).choices[0];
    expect(cut).toMatchObject({ text: full.slice(0, full.indexOf(stop)), finish_reason: 'stop', stop_reason: stop });
  });

  it('write JSON when asked to, fitting the schema', async () => {
    const schema = { type: 'object', properties: { kind: { enum: ['a', 'b'] }, count: { type: 'integer', minimum: 3, maximum: 5 } } };
    const body = { messages: MESSAGES, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } };
    const value = JSON.parse(json(await send(instance, CHAT, { body })).choices[0].message.content);
    expect(['a', 'b']).toContain(value.kind);
    expect([3, 4, 5]).toContain(value.count);
  });

  it('go to max_tokens with ignore_eos, and to max_completion_tokens before max_tokens', async () => {
    const body = { messages: MESSAGES, max_tokens: 9, max_completion_tokens: 300, ignore_eos: true };
    expect(json(await send(instance, CHAT, { body })).usage.completion_tokens).toBe(300);
  });

  it('report the load in a header when asked to', async () => {
    const body = { messages: MESSAGES, max_tokens: 1 };
    const text = await send(instance, CHAT, { body, headers: { 'endpoint-load-metrics-format': 'TEXT' } });
    expect(text.headers['endpoint-load-metrics']).toBe('TEXT named_metrics.kv_cache_usage_perc=0, named_metrics.num_requests_waiting=0');
    expect((await send(instance, CHAT, { body })).headers['endpoint-load-metrics']).toBeUndefined();
  });

  it('take their id from the header, else from the body', async () => {
    const body = { messages: MESSAGES, max_tokens: 1, request_id: 'from-body' };
    expect(json(await send(instance, CHAT, { body })).id).toBe('chatcmpl-from-body');
    expect(json(await send(instance, CHAT, { body, headers: { 'x-request-id': 'from-header' } })).id).toBe('chatcmpl-from-header');
  });

  it('serve an adapter under its name', async () => {
    expect(json(await send(instance, CHAT, { body: { model: 'sql-adapter', messages: MESSAGES, max_tokens: 1 } })).model).toBe('sql-adapter');
  });
});

describe('tools', () => {
  const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];

  it('are called for certain when required, streamed and whole alike', async () => {
    const body = { messages: MESSAGES, tools, tool_choice: 'required' };
    const whole = json(await send(instance, CHAT, { body })).choices[0];
    expect(whole).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } });
    const [call] = whole.message.tool_calls;
    expect(call.function.name).toBe('get_weather');
    expect(Object.keys(JSON.parse(call.function.arguments))).toEqual(['city']);
    const chunks = sseObjects((await send(instance, CHAT, { body: { ...body, stream: true } })).text).slice(1);
    const deltas = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    expect(deltas[0]).toMatchObject({ index: 0, id: call.id, type: 'function', function: { name: 'get_weather' } });
    expect(deltas.map((delta) => delta.function.arguments).join('')).toBe(call.function.arguments);
    expect(chunks.at(-1).choices[0].finish_reason).toBe('tool_calls');
  });

  it('are never called with tool_choice none', async () => {
    const { message, finish_reason: reason } = json(await send(instance, CHAT, { body: { messages: MESSAGES, tools, tool_choice: 'none', max_tokens: 5 } })).choices[0];
    expect(message.tool_calls).toBeUndefined();
    expect(reason).toBe('length');
  });
});

describe('reasoning', () => {
  const THINKING = { messages: MESSAGES, chat_template_kwargs: { enable_thinking: true } };

  it('comes before the answer, streamed and whole alike, and is counted', async () => {
    const whole = json(await send(instance, CHAT, { body: THINKING }));
    const { reasoning, content } = whole.choices[0].message;
    expect(reasoning.length).toBeGreaterThan(20);
    expect(content.length).toBeGreaterThan(20);
    expect(`${reasoning}${content}`).not.toContain('think>');
    const thought = whole.usage.completion_tokens_details.reasoning_tokens;
    expect(thought).toBeGreaterThan(10);
    expect(thought).toBeLessThan(whole.usage.completion_tokens);
    const chunks = sseObjects((await send(instance, CHAT, { body: { ...THINKING, stream: true, stream_options: { include_usage: true } } })).text);
    const usage = chunks.pop()?.usage;
    expect(usage.completion_tokens_details).toEqual({ reasoning_tokens: thought });
    const deltas = chunks.slice(1).map((chunk) => chunk.choices[0].delta);
    expect(deltas.map((delta) => delta.reasoning ?? '').join('')).toBe(reasoning);
    expect(deltas.map((delta) => delta.content ?? '').join('')).toBe(content);
    const lastThought = deltas.findLastIndex((delta) => delta.reasoning !== undefined);
    expect(deltas.findIndex((delta) => delta.content !== undefined && delta.content !== '')).toBeGreaterThan(lastThought);
  });

  it('cut off leaves no answer, and can be left out', async () => {
    const cut = json(await send(instance, CHAT, { body: { ...THINKING, max_tokens: 4 } })).choices[0];
    expect(cut).toMatchObject({ finish_reason: 'length', message: { content: null } });
    expect(cut.message.reasoning.length).toBeGreaterThan(0);
    const hidden = json(await send(instance, CHAT, { body: { ...THINKING, include_reasoning: false } })).choices[0].message;
    expect(hidden.reasoning).toBeNull();
    expect(hidden.content.length).toBeGreaterThan(20);
  });

  it('leads to tool calls as well', async () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'integer' } } } } }];
    const body = { ...THINKING, tools, tool_choice: 'required' };
    const whole = json(await send(instance, CHAT, { body })).choices[0];
    expect(whole).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } });
    const chunks = sseObjects((await send(instance, CHAT, { body: { ...body, stream: true, stream_interval: 500 } })).text);
    const deltas = chunks.slice(1).map((chunk) => chunk.choices[0].delta);
    expect(deltas.map((delta) => delta.reasoning ?? '').join('')).toBe(whole.message.reasoning);
    const args = deltas.flatMap((delta) => delta.tool_calls ?? []).map((call) => call.function.arguments).join('');
    expect(args).toBe(whole.message.tool_calls[0].function.arguments);
  });

  it('of earlier turns is left out of the prompt, so that the next turn does not extend the last', async () => {
    const asked = { role: 'user', content: 'and then' };
    const text = 'the answer.';
    const count = async (content: string): Promise<number> =>
      json(await send(instance, '/tokenize', { body: { messages: [...MESSAGES, { role: 'assistant', content }, asked] } })).count;
    expect(await count(`<think>the river is long</think>\n\n${text}`)).toBe(await count(text));
  });
});

describe('whole answers', () => {
  it('carry prompt log probabilities where each API has them', async () => {
    const chat = json(await send(instance, CHAT, { body: { messages: MESSAGES, max_tokens: 1, prompt_logprobs: 1 } }));
    expect(chat.prompt_logprobs).toHaveLength(chat.usage.prompt_tokens);
    expect(chat.prompt_logprobs[0]).toBeNull();
    const completion = json(await send(instance, COMPLETIONS, { body: { prompt: ['the river', 'a'], max_tokens: 1, prompt_logprobs: 0 } }));
    expect(completion.choices.map((choice: { prompt_logprobs: unknown[] }) => choice.prompt_logprobs.length)).toEqual([2, 1]);
    const [token] = Object.values(completion.choices[0].prompt_logprobs[1]) as { rank: number; decoded_token: string }[];
    expect(token).toMatchObject({ rank: 1, decoded_token: ' river' });
  });

  it('carry everything of every choice: text, log probabilities, tokens and finish', async () => {
    const body = { messages: MESSAGES, n: 3, max_tokens: 4, ignore_eos: true, logprobs: true, top_logprobs: 1, return_token_ids: true };
    const { choices, usage } = json(await send(instance, CHAT, { body }));
    expect(choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2]);
    for (const choice of choices) {
      expect(choice.logprobs.content.map((entry: { token: string }) => entry.token).join('')).toBe(choice.message.content);
      expect(choice.token_ids).toHaveLength(4);
      expect(choice.finish_reason).toBe('length');
    }
    expect(usage.completion_tokens).toBe(12);
  });
});

describe('a patched engine', () => {
  it('says kv_transfer_params on the last chunk of a stream, an ordinary one nowhere', async () => {
    const patched = await startSimInstance({ role: 'both', speed: 100, paramsInStream: true });
    try {
      const body = { messages: MESSAGES, max_tokens: 2, stream: true, kv_transfer_params: { do_remote_decode: true } };
      const chunks = sseObjects((await send(patched, CHAT, { body })).text);
      expect(chunks.filter((chunk) => 'kv_transfer_params' in chunk)).toEqual([chunks.at(-1)]);
      expect(chunks.at(-1)).toMatchObject({ choices: [{ finish_reason: 'length' }], kv_transfer_params: { do_remote_prefill: true } });
      expect((await send(instance, CHAT, { body })).text).not.toContain('kv_transfer_params');
    } finally {
      await patched.close();
    }
  });
});

describe('refusals', () => {
  const chat = (fields: object): object => ({ messages: MESSAGES, ...fields });

  it.each([
    ['an unknown model', CHAT, chat({ model: 'nope' }), 404, 'NotFoundError', 'The model `nope` does not exist.'],
    ['missing messages', CHAT, {}, 400, 'Bad Request', "'loc': ('body', 'messages'), 'msg': 'Field required'"],
    ['stream_options without stream', CHAT, chat({ stream_options: { include_usage: true } }), 400, 'Bad Request', 'Stream options can only be defined'],
    ['min_tokens above max_tokens', CHAT, chat({ min_tokens: 5, max_tokens: 1 }), 400, 'BadRequestError', 'min_tokens must be less than or equal to max_tokens=1, got 5.'],
    ['max_tokens above the limit', CHAT, chat({ max_tokens: 100_000 }), 400, 'BadRequestError', 'is too large: 100000'],
    ['max_tokens of zero', CHAT, chat({ max_tokens: 0 }), 400, 'BadRequestError', 'max_tokens must be at least 1'],
    ['a prompt that is too long', COMPLETIONS, { prompt: prompt(5000) }, 400, 'BadRequestError', "maximum context length is 4096 tokens"],
    ['a missing prompt', COMPLETIONS, {}, 400, 'BadRequestError', 'Either prompt or prompt_embeds'],
    ['a wrong type', CHAT, chat({ max_tokens: 'many' }), 400, 'Bad Request', 'Input should be a valid integer'],
    ['required tools without tools', CHAT, chat({ tool_choice: 'required' }), 400, 'BadRequestError', '`tools` must be set'],
    ['top_logprobs without logprobs', CHAT, chat({ top_logprobs: 2 }), 400, 'Bad Request', '`logprobs` must be set to true'],
    ['negative logprobs', COMPLETIONS, { prompt: 'a', logprobs: -2 }, 400, 'Bad Request', '`logprobs` must be a positive value'],
    ['prompt_logprobs with stream', CHAT, chat({ prompt_logprobs: 1, stream: true }), 400, 'Bad Request', 'not available when `stream=True`'],
    ['best_of below n', COMPLETIONS, { prompt: 'a', n: 3, best_of: 2 }, 400, 'BadRequestError', 'best_of must be greater than or equal to n, got n=3 and best_of=2.'],
    ['several greedy choices', CHAT, chat({ n: 2, temperature: 0 }), 400, 'BadRequestError', 'n must be 1 when using greedy sampling, got 2.'],
    ['a temperature below zero', CHAT, chat({ temperature: -1 }), 400, 'BadRequestError', 'temperature must be non-negative'],
    ['a top_p above one', CHAT, chat({ top_p: 1.5 }), 400, 'BadRequestError', 'top_p must be in (0, 1], got 1.5.'],
    ['n of zero', CHAT, chat({ n: 0 }), 400, 'BadRequestError', 'n must be between 1 and'],
    ['a body that is no object', CHAT, [1], 400, 'Bad Request', 'Input should be a valid dictionary'],
  ])('%s', async (_name, path, body, status, type, message) => {
    const answer = await send(instance, path, { body });
    expect(answer.status).toBe(status);
    const { error } = json(answer);
    expect(error).toMatchObject({ type, code: status });
    expect(error.message).toContain(message);
    expect(Object.keys(error)).toEqual(['message', 'type', 'param', 'code']);
  });

  it('of malformed JSON and of other content types are 400', async () => {
    expect(await send(instance, CHAT, { body: '{"messages": [' })).toMatchObject({ status: 400 });
    const typed = await send(instance, CHAT, { body: '{}', headers: { 'content-type': 'text/plain' } });
    expect(typed.status).toBe(400);
    expect(json(typed).error.message).toContain("Only 'application/json' is allowed");
  });

  it('of unknown paths and methods are 404 and 405', async () => {
    expect((await send(instance, '/nope')).status).toBe(404);
    expect((await send(instance, CHAT)).status).toBe(405);
  });

  it('ask for the key under /v1 only, with a string error', async () => {
    const guarded = await startSimInstance({ role: 'both', apiKey: 'k', speed: 100 });
    try {
      expect(await send(guarded, '/v1/models')).toMatchObject({ status: 401, text: '{"error":"Unauthorized"}' });
      expect((await send(guarded, '/v1/models', { headers: { authorization: 'Bearer k' } })).status).toBe(200);
      expect((await send(guarded, '/metrics')).status).toBe(200);
    } finally {
      await guarded.close();
    }
  });
});

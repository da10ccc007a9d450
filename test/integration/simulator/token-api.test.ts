/** Tokens in and out: render, generate, derender, as a router drives them with one another. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';
import { decodeTokens, EOS_TOKEN } from '#engine/simulator/tokenizer.ts';
import { CHAT, COMPLETIONS, json, prompt, send, sseObjects } from './sim-client.ts';

const GENERATE = '/inference/v1/generate';
const MESSAGES = [{ role: 'user', content: 'tell me about the river' }];

let instance: SimInstance;
beforeEach(async () => {
  instance = await startSimInstance({ role: 'both', speed: 100, maxModelLen: 4096, dpSize: 2 });
});
afterEach(async () => {
  await instance.close();
});

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of a foreign protocol, asserted field by field
const post = async (path: string, body: unknown, headers: Record<string, string> = {}): Promise<any> => json(await send(instance, path, { body, headers }));

describe('render', () => {
  it('gives the tokens that chat would use, with everything to generate from them', async () => {
    const body = { messages: MESSAGES, temperature: 0.5, seed: 7, stop: 'x', min_tokens: 2, priority: 3, cache_salt: 's' };
    const rendered = await post(`${CHAT}/render`, { ...body, kv_transfer_params: { do_remote_decode: true }, vllm_xargs: { a: 1 } });
    const { prompt_token_ids: ids } = await post(CHAT, { ...body, max_tokens: 3, stop: undefined, return_token_ids: true });
    expect(rendered.token_ids).toEqual(ids);
    expect(rendered).toMatchObject({
      features: null, model: null, stream: false, stream_options: null, cache_salt: 's', priority: 3, kv_transfer_params: null,
      sampling_params: {
        n: 1, temperature: 0.5, seed: 7, stop: ['x'], min_tokens: 2, max_tokens: 4096 - ids.length, logprobs: null,
        extra_args: { a: 1, kv_transfer_params: { do_remote_decode: true } },
      },
    });
    expect(rendered.request_id).toMatch(/^chatcmpl-[0-9a-f]{32}$/u);
  });

  it('lists one request per prompt, and keeps stream with its options', async () => {
    const rendered = await post(`${COMPLETIONS}/render`, { prompt: ['the river', 'a mountain'], stream: true, stream_options: { include_usage: true } });
    expect(rendered.map((one: { token_ids: number[] }) => decodeTokens(one.token_ids))).toEqual(['the river', 'a mountain']);
    expect(rendered[1]).toMatchObject({ stream: true, stream_options: { include_usage: true }, sampling_params: { max_tokens: 16 } });
    expect(await post(`${COMPLETIONS}/render`, { prompt: 'the' })).toHaveLength(1);
  });

  it('names media by hash and place', async () => {
    const content = [{ type: 'text', text: 'look' }, { type: 'image_url', image_url: { url: 'file:///a.png' } }, { type: 'input_audio', input_audio: { data: 'AAAA' } }];
    const { features, token_ids: ids } = await post(`${CHAT}/render`, { messages: [{ role: 'user', content }] });
    expect(Object.keys(features.mm_hashes)).toEqual(['image', 'audio']);
    expect(features.mm_hashes.image[0]).toMatch(/^[0-9a-f]{32}$/u);
    const [place] = features.mm_placeholders.audio;
    expect(new Set(ids.slice(place.offset, place.offset + place.length)).size).toBe(1);
    expect(features.kwargs_data.image).toEqual([expect.any(String)]);
  });

  it('refuses what the route itself refuses', async () => {
    expect((await send(instance, `${CHAT}/render`, { body: { messages: MESSAGES, min_tokens: 4, max_tokens: 1 } })).status).toBe(400);
    expect((await send(instance, `${CHAT}/render`, { body: { messages: MESSAGES, use_beam_search: true } })).status).toBe(400);
    expect((await send(instance, `${COMPLETIONS}/render`)).status).toBe(405);
  });
});

describe('generate', () => {
  const tokens = (fields: object = {}, params: object = {}): object => ({ token_ids: [1000, 1001, 1002], sampling_params: { max_tokens: 5, ignore_eos: true, ...params }, ...fields });

  it('answers token ids, usage and nulls', async () => {
    const body = await post(GENERATE, tokens({ request_id: 'from-body' }), { 'x-request-id': 'r1' });
    expect(Object.keys(body)).toEqual(['request_id', 'created', 'model', 'choices', 'usage', 'prompt_logprobs', 'kv_transfer_params', 'ec_transfer_params']);
    expect(body).toMatchObject({ request_id: 'generate-tokens-r1', kv_transfer_params: null, usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 } });
    expect(body.choices[0]).toMatchObject({ index: 0, finish_reason: 'length', logprobs: null });
    const same = await post(COMPLETIONS, { prompt: [1000, 1001, 1002], max_tokens: 5, ignore_eos: true, return_token_ids: true });
    expect(body.choices[0].token_ids).toEqual(same.choices[0].token_ids);
    expect((await post(GENERATE, tokens({ request_id: 'from-body' }))).request_id).toBe('generate-tokens-from-body');
  });

  it('streams the same tokens, with usage last and [DONE]', async () => {
    const whole = await post(GENERATE, tokens({}, { n: 2 }));
    const answer = await send(instance, GENERATE, { body: tokens({ stream: true, stream_options: { include_usage: true } }, { n: 2 }) });
    expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    const chunks = sseObjects(answer.text);
    const last = chunks.pop();
    expect(last).toMatchObject({ choices: [], usage: { completion_tokens: 10 } });
    for (const index of [0, 1]) {
      const own = chunks.filter((chunk) => chunk.choices[0].index === index);
      expect(own.flatMap((chunk) => chunk.choices[0].token_ids)).toEqual(whole.choices[index].token_ids);
      expect(own.map((chunk) => chunk.choices[0].finish_reason)).toEqual([null, null, null, null, 'length']);
    }
    expect(chunks.every((chunk) => chunk.usage === null)).toBe(true);
  });

  it('goes up to the model limit without max_tokens, and ends with EOS where the model stops', async () => {
    const long = await post(GENERATE, { token_ids: Array.from({ length: 3900 }, () => 1000), sampling_params: { ignore_eos: true } });
    expect(long.usage).toMatchObject({ prompt_tokens: 3900, completion_tokens: 196 });
    const stopped = await post(GENERATE, { token_ids: [1000], sampling_params: {} });
    expect(stopped.choices[0].finish_reason).toBe('stop');
    expect(stopped.choices[0].token_ids.at(-1)).toBe(EOS_TOKEN);
    expect(stopped.usage.completion_tokens).toBe(stopped.choices[0].token_ids.length);
  });

  it('hands over what extra_args ask for, and ignores the top-level field', async () => {
    const keep = { do_remote_decode: true, do_remote_prefill: false };
    expect((await post(GENERATE, tokens({ kv_transfer_params: keep }, { max_tokens: 1 }))).kv_transfer_params).toBeNull();
    const kept = await post(GENERATE, tokens({}, { max_tokens: 1, extra_args: { kv_transfer_params: keep } }));
    expect(kept.kv_transfer_params).toMatchObject({ do_remote_prefill: true, remote_num_tokens: 3 });
    expect(instance.stats().leases).toBe(1);
  });

  it('carries log probabilities by token id', async () => {
    const body = await post(GENERATE, tokens({}, { logprobs: 2, prompt_logprobs: 0 }));
    const { content } = body.choices[0].logprobs;
    expect(content.map(({ token }: { token: string }) => token)).toEqual(body.choices[0].token_ids.map((id: number) => `token_id:${id}`));
    expect(content[0].top_logprobs).toHaveLength(2);
    expect(body.prompt_logprobs.map((entry: object | null) => entry && Object.keys(entry))).toEqual([null, ['1001'], ['1002']]);
  });

  it('runs on the rank asked for', async () => {
    const long = { token_ids: Array.from({ length: 64 }, (_, index) => 1000 + index), sampling_params: { max_tokens: 1 } };
    await post(GENERATE, long, { 'x-data-parallel-rank': '1' });
    expect((await post(GENERATE, long, { 'x-data-parallel-rank': '1' })).usage.prompt_tokens_details.cached_tokens).toBe(48);
    expect((await post(GENERATE, long, { 'x-data-parallel-rank': '0' })).usage.prompt_tokens_details.cached_tokens).toBe(0);
  });

  it.each([
    ['no tokens', { token_ids: [], sampling_params: {} }, 'at least 1 item'],
    ['no sampling parameters', { token_ids: [1] }, "'loc': ('body', 'sampling_params')"],
    ['a token that does not exist', { token_ids: [9_999_999], sampling_params: {} }, 'out of vocabulary'],
    ['min_tokens above max_tokens', { token_ids: [1], sampling_params: { min_tokens: 3, max_tokens: 2 } }, 'min_tokens must be less than or equal'],
    ['media outside the prompt', { token_ids: [1], sampling_params: {}, features: { mm_hashes: { image: ['a'] }, mm_placeholders: { image: [{ offset: 0, length: 9 }] } } }, 'within the token_ids'],
    ['hashes without places', { token_ids: [1], sampling_params: {}, features: { mm_hashes: { image: ['a'] }, mm_placeholders: {} } }, 'the same modalities'],
  ])('refuses %s', async (_name, body, message) => {
    const answer = await send(instance, GENERATE, { body });
    expect(answer.status).toBe(400);
    expect(json(answer).error.message).toContain(message);
  });

  it('refuses a rank out of range, and is guarded by the key', async () => {
    expect((await send(instance, GENERATE, { body: tokens(), headers: { 'x-data-parallel-rank': '2' } })).status).toBe(400);
    const guarded = await startSimInstance({ role: 'both', apiKey: 'k' });
    try {
      expect((await send(guarded, GENERATE, { body: tokens() })).status).toBe(401);
    } finally {
      await guarded.close();
    }
  });
});

describe('render, generate, derender', () => {
  // oxlint-disable-next-line typescript/no-explicit-any -- as above
  const roundTrip = async (request: object): Promise<any> => {
    const rendered = await post(`${CHAT}/render`, request);
    const answer = await post(GENERATE, rendered);
    return post(`${CHAT}/derender`, { generate_response: answer, prompt_tokens: rendered.token_ids.length, chat_request: request });
  };

  it('says what chat says, but for what only an engine knows', async () => {
    const request = { messages: MESSAGES, max_tokens: 20, logprobs: true, top_logprobs: 2, n: 2 };
    const [made, direct] = [await roundTrip(request), await post(CHAT, request)];
    const comparable = (choices: { index: number; message: { content: string }; logprobs: object; finish_reason: string }[]): unknown[] =>
      choices.map(({ index, message, logprobs, finish_reason: reason }) => ({ index, content: message.content, logprobs, reason }));
    expect(comparable(made.choices)).toEqual(comparable(direct.choices));
    expect(made.usage).toMatchObject({ prompt_tokens: direct.usage.prompt_tokens, completion_tokens: direct.usage.completion_tokens });
    expect(made).toMatchObject({ object: 'chat.completion', model: 'sim/Qwen3-8B', id: expect.stringMatching(/^generate-tokens-chatcmpl-/u) });
  });

  it('tells reasoning from the answer', async () => {
    const request = { messages: MESSAGES, chat_template_kwargs: { enable_thinking: true } };
    const [{ message }, direct] = [(await roundTrip(request)).choices[0], (await post(CHAT, request)).choices[0].message];
    expect(message.reasoning.length).toBeGreaterThan(20);
    expect({ reasoning: message.reasoning, content: message.content }).toEqual({ reasoning: direct.reasoning, content: direct.content });
    expect((await roundTrip({ ...request, max_tokens: 3 })).choices[0].message).toMatchObject({ content: null });
  });

  it('reads forced tool calls and JSON answers', async () => {
    const parameters = { type: 'object', properties: { city: { type: 'string' } } };
    const tools = [{ type: 'function', function: { name: 'get_weather', parameters } }];
    const required = (await roundTrip({ messages: MESSAGES, tools, tool_choice: 'required' })).choices[0];
    expect(required).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } });
    expect(required.message.tool_calls[0].function.name).toBe('get_weather');
    const named = (await roundTrip({ messages: MESSAGES, tools, tool_choice: { type: 'function', function: { name: 'get_weather' } } })).choices[0];
    expect(Object.keys(JSON.parse(named.message.tool_calls[0].function.arguments))).toEqual(['city']);
    const schema = { type: 'object', properties: { kind: { enum: ['a'] } } };
    const answer = await roundTrip({ messages: MESSAGES, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } });
    expect(JSON.parse(answer.choices[0].message.content)).toEqual({ kind: 'a' });
  });

  it('gives several completions in one answer', async () => {
    const request = { prompt: ['the river', 'a mountain'], max_tokens: 4, logprobs: 1 };
    const rendered = await post(`${COMPLETIONS}/render`, request);
    const answers = await Promise.all(rendered.map((one: object) => post(GENERATE, one)));
    const made = await post(`${COMPLETIONS}/derender`, { generate_responses: answers, prompt_tokens: [2, 2], completion_request: request });
    const direct = await post(COMPLETIONS, request);
    expect(made.choices.map(({ index, text, logprobs }: { index: number; text: string; logprobs: object }) => ({ index, text, logprobs }))).toEqual(
      direct.choices.map(({ index, text, logprobs }: { index: number; text: string; logprobs: object }) => ({ index, text, logprobs })),
    );
    expect(made.usage.prompt_tokens).toBe(4);
  });

  it.each([
    ['no answer', `${CHAT}/derender`, {}, "'loc': ('body', 'generate_response')"],
    ['an empty choice', `${CHAT}/derender`, { generate_response: { choices: [{ index: 0, token_ids: [] }] } }, 'empty or null token_ids'],
    ['streaming', `${CHAT}/derender`, { stream: true, generate_chunk: {} }, 'Input should be False'],
    ['no completions', `${COMPLETIONS}/derender`, { generate_responses: [] }, 'must not be empty'],
    ['counts that do not fit', `${COMPLETIONS}/derender`, { generate_responses: [{ choices: [{ token_ids: [1000] }] }], prompt_tokens: [1, 2] }, 'must equal generate_responses length'],
  ])('refuses to derender %s', async (_name, path, body, message) => {
    const answer = await send(instance, path, { body });
    expect(answer.status).toBe(400);
    expect(json(answer).error.message).toContain(message);
  });
});

describe('token ids of an answer', () => {
  it('come back from its text, so that the next turn extends what is cached', async () => {
    const { choices } = await post(COMPLETIONS, { prompt: prompt(20), max_tokens: 200, ignore_eos: true, return_token_ids: true });
    const { tokens } = await post('/tokenize', { prompt: choices[0].text });
    expect(tokens).toEqual(choices[0].token_ids);
  });
});

import { describe, expect, it } from 'vitest';
import { CHAT, json, namedEvents, send, simStarter, waitFor } from './sim-client.ts';

const MESSAGES = '/v1/messages';
const MODEL = 'sim/Qwen3-8B';
const ASK = { model: MODEL, max_tokens: 6, system: 'be short', messages: [{ role: 'user', content: 'tell me' }] };
const CHAT_ASK = { messages: [{ role: 'system', content: 'be short' }, { role: 'user', content: 'tell me' }], max_tokens: 6 };
const TOOL = { name: 'find', description: 'finds', input_schema: { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] } };

const start = simStarter({ role: 'both', speed: 100 });

describe('messages', () => {
  it('answer what chat answers, in blocks, with usage and stop reason, and nothing that is unset', async () => {
    const instance = await start({ promptTokensDetails: false });
    const chat = json(await send(instance, CHAT, { body: CHAT_ASK }));
    const body = json(await send(instance, MESSAGES, { body: ASK, headers: { 'x-request-id': 'mine' } }));
    expect(body).toEqual({
      id: 'chatcmpl-mine', type: 'message', role: 'assistant', model: MODEL, stop_reason: 'max_tokens',
      content: [{ type: 'text', text: chat.choices[0].message.content }],
      usage: { input_tokens: chat.usage.prompt_tokens, output_tokens: 6 },
    });
  });

  it('count cached tokens beside the others, as the Messages API has it', async () => {
    const instance = await start({ kvEvents: {} });
    const long = { ...ASK, messages: [{ role: 'user', content: 'the river '.repeat(40) }] };
    const first = json(await send(instance, MESSAGES, { body: long })).usage;
    const second = json(await send(instance, MESSAGES, { body: long })).usage;
    expect(first).toMatchObject({ cache_read_input_tokens: 0, cache_creation_input_tokens: 0 });
    expect(second.cache_read_input_tokens).toBeGreaterThanOrEqual(16);
    expect(second.input_tokens + second.cache_read_input_tokens).toBe(first.input_tokens);
  });

  it('stream named events that add up to the same text, without [DONE]', async () => {
    const instance = await start();
    const whole = json(await send(instance, MESSAGES, { body: ASK }));
    const answer = await send(instance, MESSAGES, { body: { ...ASK, stream: true } });
    expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    const events = namedEvents(answer.text);
    expect(events.every(({ name, data }) => name === data.type)).toBe(true);
    expect(events.map(({ name }) => name).filter((name, index, list) => name !== list[index - 1])).toEqual([
      'message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop',
    ]);
    expect(events.filter(({ name }) => name === 'content_block_delta').map(({ data }) => data.delta.text).join('')).toBe(whole.content[0].text);
    const prompt = whole.usage.input_tokens + whole.usage.cache_read_input_tokens;
    expect(events[0]?.data.message).toMatchObject({ content: [], model: MODEL, stop_reason: null, usage: { input_tokens: prompt, output_tokens: 0 } });
    const { delta, usage } = events.at(-2)?.data ?? {};
    expect([delta, usage.input_tokens + usage.cache_read_input_tokens, usage.output_tokens]).toEqual([{ stop_reason: 'max_tokens' }, prompt, 6]);
    expect(answer.text).not.toContain('[DONE]');
  });

  it('have tool calls and thinking as blocks of their own', async () => {
    const instance = await start();
    const call = { ...ASK, max_tokens: 400, tools: [TOOL], tool_choice: { type: 'any' } };
    const called = json(await send(instance, MESSAGES, { body: call }));
    expect(called).toMatchObject({ stop_reason: 'tool_use', content: [{ type: 'tool_use', name: 'find', input: { what: expect.any(String) } }] });
    const streamed = namedEvents((await send(instance, MESSAGES, { body: { ...call, stream: true } })).text);
    const parts = streamed.filter(({ name }) => name === 'content_block_delta').map(({ data }) => data.delta.partial_json).join('');
    expect(JSON.parse(parts)).toEqual(called.content[0].input);
    const thinking = namedEvents((await send(instance, MESSAGES, { body: { ...ASK, max_tokens: 400, stream: true, chat_template_kwargs: { enable_thinking: true } } })).text);
    const started = thinking.filter(({ name }) => name === 'content_block_start').map(({ data }) => [data.index, data.content_block.type]);
    expect(started).toEqual([[0, 'thinking'], [1, 'text']]);
    expect(thinking.filter(({ data }) => data.delta?.type === 'signature_delta')).toHaveLength(1);
  });

  it('render as the chat request that they stand for: system texts, roles, tool results, images', async () => {
    const instance = await start({ promptTokensDetails: false });
    const messages = [
      { role: 'ctx', content: [{ type: 'text', text: 'look' }, { type: 'image', source: { type: 'url', url: 'https://example.com/cat.png' } }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'find', input: { what: 'x' } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'found' }] }] },
      { role: 'system', content: 'and kind' },
    ];
    const system = [{ type: 'text', text: 'be short' }, { type: 'text', text: 'x-anthropic-billing-header: cc_version=1' }];
    const chat = {
      messages: [
        { role: 'system', content: 'be shortand kind' },
        { role: 'user', content: [{ type: 'text', text: 'look' }, { type: 'image_url', image_url: { url: 'https://example.com/cat.png' } }] },
        { role: 'assistant', tool_calls: [{ id: 'c1', type: 'function', function: { name: 'find', arguments: '{"what":"x"}' } }] },
        { role: 'tool', tool_call_id: 'c1', content: 'found' },
      ],
    };
    const { count } = json(await send(instance, '/tokenize', { body: chat }));
    expect(json(await send(instance, `${MESSAGES}/count_tokens`, { body: { model: MODEL, system, messages } }))).toEqual({
      input_tokens: count, context_management: { original_input_tokens: count },
    });
    const answered = json(await send(instance, MESSAGES, { body: { model: MODEL, system, messages, max_tokens: 2 } }));
    expect(answered.usage.input_tokens).toBe(count);
    const told = json(await send(instance, CHAT, { body: { ...chat, max_tokens: 2 } }));
    expect(answered.content[0].text).toBe(told.choices[0].message.content);
  });

  it('hand over like the others, whole; a stream tells no parameters', async () => {
    const instance = await start();
    const body = { ...ASK, max_tokens: 1, kv_transfer_params: { do_remote_decode: true } };
    expect(json(await send(instance, MESSAGES, { body })).kv_transfer_params).toMatchObject({ do_remote_prefill: true });
    expect((await send(instance, MESSAGES, { body: { ...body, stream: true } })).text).not.toContain('kv_transfer_params');
    expect(instance.stats().leases).toBe(2);
  });

  it('refuse in the shape of the Messages API, and what pydantic refuses in that of vLLM', async () => {
    const instance = await start({ maxModelLen: 64 });
    const unknown = await send(instance, MESSAGES, { body: { ...ASK, model: 'other' } });
    expect([unknown.status, json(unknown)]).toEqual([404, { type: 'error', error: { type: 'NotFoundError', message: 'The model `other` does not exist.' } }]);
    const long = await send(instance, MESSAGES, { body: { ...ASK, messages: [{ role: 'user', content: 'the river '.repeat(80) }] } });
    expect([long.status, json(long)]).toMatchObject([400, { type: 'error', error: { type: 'BadRequestError', message: expect.stringContaining('maximum context length') } }]);
    for (const wrong of [{ ...ASK, max_tokens: undefined }, { ...ASK, max_tokens: 0 }, { ...ASK, messages: undefined }, { ...ASK, model: undefined }]) {
      const refused = await send(instance, MESSAGES, { body: wrong });
      expect([refused.status, json(refused).error.type]).toEqual([400, 'Bad Request']);
    }
  });

  it('end when their client leaves', async () => {
    const instance = await start({ speed: 1 });
    const controller = new AbortController();
    const sent = send(instance, MESSAGES, { body: { ...ASK, max_tokens: 500 }, signal: controller.signal }).catch(() => 'left');
    await waitFor('it runs', () => instance.stats().running === 1);
    controller.abort();
    await waitFor('abort', () => instance.stats().aborted === 1);
    expect(await sent).toBe('left');
  });
});

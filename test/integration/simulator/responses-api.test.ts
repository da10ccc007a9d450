import { describe, expect, it } from 'vitest';
import { CHAT, COMPLETIONS, json, namedEvents, send, simStarter, waitFor } from './sim-client.ts';

const RESPONSES = '/v1/responses';

const start = simStarter({ role: 'both', speed: 100 });

describe('responses', () => {
  it('answer with one message and its usage', async () => {
    const instance = await start();
    const body = json(await send(instance, RESPONSES, { body: { input: 'tell me', instructions: 'be short', max_output_tokens: 6 } }));
    expect(body.id).toMatch(/^resp_[0-9a-f]{32}$/u);
    expect(body).toMatchObject({
      object: 'response', status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, model: 'sim/Qwen3-8B', kv_transfer_params: null,
      usage: { output_tokens: 6, total_tokens: body.usage.input_tokens + 6 },
    });
    expect(body.output).toHaveLength(1);
    expect(body.output[0]).toMatchObject({ type: 'message', role: 'assistant', content: [{ type: 'output_text', annotations: [] }] });
    const messages = [{ role: 'system', content: 'be short' }, { role: 'user', content: 'tell me' }];
    const chat = json(await send(instance, CHAT, { body: { messages, max_tokens: 6 } }));
    expect(body.output[0].content[0].text).toBe(chat.choices[0].message.content);
    expect(body.usage.input_tokens).toBe(chat.usage.prompt_tokens);
  });

  it('stream named events that add up to the same text, without [DONE]', async () => {
    const instance = await start();
    const input = [{ role: 'user', content: [{ type: 'input_text', text: 'tell me' }] }];
    const whole = json(await send(instance, RESPONSES, { body: { input } }));
    const answer = await send(instance, RESPONSES, { body: { input, stream: true } });
    expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    const all = namedEvents(answer.text);
    expect(all.map(({ data }) => data.sequence_number)).toEqual(all.map((_, index) => index));
    expect(all.every(({ name, data }) => name === data.type)).toBe(true);
    const names = all.map(({ name }) => name).filter((name, index, list) => name !== list[index - 1]);
    expect(names).toEqual([
      'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added', 'response.output_text.delta',
      'response.output_text.done', 'response.content_part.done', 'response.output_item.done', 'response.completed',
    ]);
    const text = all.filter(({ name }) => name === 'response.output_text.delta').map(({ data }) => data.delta).join('');
    expect(text).toBe(whole.output[0].content[0].text);
    expect(all.at(-1)?.data.response).toMatchObject({ status: 'completed', usage: { output_tokens: whole.usage.output_tokens } });
    expect(answer.text).not.toContain('[DONE]');
  });

  it('hand over like the others', async () => {
    const instance = await start();
    const body = { input: 'tell me', max_output_tokens: 1, kv_transfer_params: { do_remote_decode: true } };
    expect(json(await send(instance, RESPONSES, { body })).kv_transfer_params).toMatchObject({ do_remote_prefill: true });
    expect(instance.stats().leases).toBe(1);
  });

  it('are not stored: unknown ids, cancels and earlier responses are 404', async () => {
    const instance = await start();
    const asked = [
      await send(instance, `${RESPONSES}/resp_1`),
      await send(instance, `${RESPONSES}/resp_1/cancel`, { method: 'POST' }),
      await send(instance, RESPONSES, { body: { input: 'x', previous_response_id: 'resp_1' } }),
    ];
    for (const answer of asked) {
      expect(answer.status).toBe(404);
      expect(json(answer).error.message).toBe("Response with id 'resp_1' not found.");
    }
    expect((await send(instance, RESPONSES, { body: {} })).status).toBe(400);
    expect((await send(instance, RESPONSES, { body: { input: 'x', background: true } })).status).toBe(400);
    const metrics = (await send(instance, '/metrics')).text;
    expect(metrics).not.toContain('resp_1');
  });

  it('end when their client leaves', async () => {
    const instance = await start({ speed: 1 });
    const controller = new AbortController();
    const sent = send(instance, RESPONSES, { body: { input: 'tell me' }, signal: controller.signal }).catch(() => 'left');
    await waitFor('it runs', () => instance.stats().running === 1);
    controller.abort();
    await waitFor('abort', () => instance.stats().aborted === 1);
    expect(await sent).toBe('left');
  });
});

describe('a pooling model', () => {
  it('embeds texts and tokens, and does not generate', async () => {
    const instance = await start({ pooling: true });
    const body = json(await send(instance, '/v1/embeddings', { body: { input: ['the river', 'a mountain', 'the river'] } }));
    expect(body).toMatchObject({ object: 'list', usage: { prompt_tokens: 6, total_tokens: 6, completion_tokens: 0 } });
    const [first, second, third] = body.data.map(({ embedding }: { embedding: number[] }) => embedding);
    expect(first).toEqual(third);
    expect(first).not.toEqual(second);
    expect(Math.hypot(...first)).toBeCloseTo(1, 10);
    const packed = json(await send(instance, '/v1/embeddings', { body: { input: 'the river', encoding_format: 'base64' } })).data[0].embedding;
    const floats = new Float32Array(Uint8Array.from(Buffer.from(packed, 'base64')).buffer);
    expect(floats).toHaveLength(first.length);
    expect(floats[0]).toBeCloseTo(first[0], 6);
    for (const path of [CHAT, COMPLETIONS, RESPONSES, '/inference/v1/generate', `${CHAT}/render`]) {
      expect((await send(instance, path, { body: { input: 'x' } })).status).toBe(404);
    }
  });

  it('is the only one that has embeddings', async () => {
    const answer = await send(await start(), '/v1/embeddings', { body: { input: 'x' } });
    expect(answer.status).toBe(404);
    expect(json(answer).error).toMatchObject({ code: 404 });
  });
});

describe('profiling', () => {
  it('answers 200 with nothing when a profiler is configured, else 404', async () => {
    const [profiled, plain] = [await start({ profiler: true }), await start()];
    for (const path of ['/start_profile', '/stop_profile']) {
      expect(await send(profiled, path, { method: 'POST' })).toMatchObject({ status: 200, text: '' });
      expect((await send(plain, path, { method: 'POST' })).status).toBe(404);
    }
  });
});

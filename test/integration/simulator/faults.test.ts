import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance } from '#engine/simulator/sim-instance.ts';
import { CHAT, COMPLETIONS, json, prompt, send, waitFor } from './sim-client.ts';

let instance: SimInstance;
beforeEach(async () => {
  instance = await startSimInstance({ role: 'both', speed: 100 });
});
afterEach(async () => {
  await instance.close();
});

const BODY = { prompt: prompt(40), max_tokens: 12, ignore_eos: true };

describe('faults on demand', () => {
  it('refuse: the port is closed, open streams are cut, and none brings both back', async () => {
    const open = send(instance, COMPLETIONS, { body: { ...BODY, max_tokens: 1500, stream: true } });
    await waitFor('it runs', () => instance.stats().running === 1);
    await instance.setFault('refuse');
    expect((await open).isCut).toBe(true);
    await expect(send(instance, '/health')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await waitFor('abort', () => instance.stats().running === 0);
    await instance.setFault('none');
    expect((await send(instance, COMPLETIONS, { body: BODY })).status).toBe(200);
  });

  it('hang: requests are taken and never answered; healing cuts them', async () => {
    await instance.setFault('hang');
    const held = send(instance, CHAT, { body: { messages: [] } }).then(() => 'answered', (error: { code?: string }) => error.code);
    await waitFor('it arrived', () => instance.received.some((request) => request.path === CHAT && request.body.length > 0));
    expect(instance.stats().inFlight).toBe(0);
    await instance.setFault('none');
    expect(await held).toBe('ECONNRESET');
    expect((await send(instance, '/health')).status).toBe(200);
  });

  it('slow: all simulated times grow by the factor, and shrink again', async () => {
    const generationMs = async (): Promise<number> => json(await send(instance, COMPLETIONS, { body: BODY })).metrics.generation_time_ms;
    await instance.setFault('slow', 200);
    expect(instance.fault).toBe('slow');
    // 11 decode steps of at least 20.6 ms, less what late timers catch up.
    expect(await generationMs()).toBeGreaterThan(150);
    await instance.setFault('none');
    expect(instance.fault).toBe('none');
  });

  it('error-400: every inference request is refused in the shape of vLLM while health stays good', async () => {
    await instance.setFault('error-400');
    for (const [path, body] of [[CHAT, { messages: [] }], [COMPLETIONS, BODY], ['/inference/v1/generate', {}], ['/v1/responses', {}]] as const) {
      const answer = await send(instance, path, { body });
      expect(answer.status).toBe(400);
      expect(json(answer).error).toMatchObject({ type: 'BadRequestError', code: 400 });
    }
    expect(json(await send(instance, '/v1/messages', { body: {} }))).toMatchObject({ type: 'error', error: { type: 'BadRequestError' } });
    expect((await send(instance, '/health')).status).toBe(200);
    expect((await send(instance, '/tokenize', { body: { prompt: 'a' } })).status).toBe(200);
    expect(instance.stats().inFlight).toBe(0);
  });

  it('reset: the connection breaks before any header, with the request received, while health stays good', async () => {
    await instance.setFault('reset');
    await expect(send(instance, COMPLETIONS, { body: { ...BODY, stream: true } })).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(instance.received.some((request) => request.path === COMPLETIONS && request.body.length > 0)).toBe(true);
    expect((await send(instance, '/health')).status).toBe(200);
    await instance.setFault('none');
    expect((await send(instance, COMPLETIONS, { body: BODY })).status).toBe(200);
  });

  it('error-500: inference fails in the shape of vLLM while health stays good', async () => {
    await instance.setFault('error-500');
    const answer = await send(instance, CHAT, { body: { messages: [] } });
    expect(answer.status).toBe(500);
    expect(json(answer).error).toMatchObject({ type: 'InternalServerError', code: 500 });
    expect((await send(instance, '/health')).status).toBe(200);
  });

  it('reset-mid-stream: a stream is cut after the given chunks, a whole answer after its headers', async () => {
    await instance.setFault('reset-mid-stream', 4);
    const streamed = await send(instance, COMPLETIONS, { body: { ...BODY, stream: true } });
    expect(streamed).toMatchObject({ status: 200, isCut: true });
    expect(streamed.text.split('\n\n').length - 1).toBe(4);
    expect(streamed.text).not.toContain('[DONE]');
    const whole = await send(instance, COMPLETIONS, { body: BODY });
    expect(whole).toMatchObject({ status: 200, isCut: true });
    expect(whole.text.length).toBeGreaterThan(0);
  });

  it('empty-200: a success without a body', async () => {
    await instance.setFault('empty-200');
    expect(await send(instance, COMPLETIONS, { body: BODY })).toMatchObject({ status: 200, text: '', isCut: false });
  });

  it('restart: what runs is cut, and the instance answers again on the same address', async () => {
    const open = send(instance, COMPLETIONS, { body: { ...BODY, max_tokens: 1500, stream: true } });
    await waitFor('it runs', () => instance.stats().running === 1);
    const { url, engineId } = instance;
    await instance.restart();
    expect((await open).isCut).toBe(true);
    expect(instance.url).toBe(url);
    expect(instance.engineId).not.toBe(engineId);
    expect((await send(instance, COMPLETIONS, { body: BODY })).status).toBe(200);
  });
});

describe('several at once', () => {
  it('happen one after the other, and none after the end', async () => {
    const events = await startSimInstance({ role: 'both', speed: 100, kvEvents: {}, dpSize: 2 });
    try {
      await Promise.all([events.restart(), events.setFault('restart'), events.setFault('refuse'), events.setFault('none')]);
      expect(events.stats().restarts).toBe(2);
      expect((await send(events, '/health')).status).toBe(200);
    } finally {
      await Promise.all([events.restart(), events.close(), events.restart(), events.close()]);
    }
    expect(events.stats().restarts).toBe(3);
    await expect(send(events, '/health')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });
});

describe('clients that leave', () => {
  it('free their blocks, streaming or not, and are noted', async () => {
    for (const stream of [true, false]) {
      const controller = new AbortController();
      const request = send(instance, COMPLETIONS, { body: { ...BODY, max_tokens: 1500, stream }, signal: controller.signal }).catch(() => {});
      await waitFor('it runs', () => instance.stats().running === 1);
      controller.abort();
      await request;
      await waitFor('it is gone', () => instance.stats().running === 0);
    }
    const stats = instance.stats();
    expect(stats).toMatchObject({ aborted: 2, freeBlocks: stats.blocks, inFlight: 0 });
    const noted = instance.received.filter((request) => request.abortedAtMs !== undefined);
    expect(noted).toHaveLength(2);
    expect(noted.every((request) => (request.abortedAtMs ?? 0) >= request.atMs)).toBe(true);
    expect((await send(instance, '/metrics')).text).toContain('finished_reason="abort",model_name="sim/Qwen3-8B"} 2.0');
  });
});

describe('received requests', () => {
  it('are kept raw and bounded', async () => {
    await instance.close();
    instance = await startSimInstance({ role: 'both', speed: 100, keepReceived: 3 });
    const raw = '{"prompt":  "the", "max_tokens": 1, "unknown": [1, 2]}';
    await send(instance, COMPLETIONS, { body: raw, headers: { 'x-test': 'y' } });
    expect(instance.received[0]).toMatchObject({ method: 'POST', path: COMPLETIONS, headers: { 'x-test': 'y' } });
    expect(instance.received[0]?.body.toString()).toBe(raw);
    for (let index = 0; index < 5; index += 1) await send(instance, `/health?${index}`);
    expect(instance.received.map((request) => request.path)).toEqual(['/health?2', '/health?3', '/health?4']);
  });
});

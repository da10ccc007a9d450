import { afterEach, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { COMPLETIONS, json, prompt, send, sseObjects, waitFor } from './sim-client.ts';

const open: SimInstance[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((instance) => instance.close()));
});

async function start(options: Partial<SimInstanceOptions>): Promise<SimInstance> {
  const instance = await startSimInstance({ role: 'both', speed: 50, ...options });
  open.push(instance);
  return instance;
}

describe('an instance under load', () => {
  it('makes requests wait while the cache is full, and shows it in the metrics', async () => {
    const instance = await start({ blocks: 8, speed: 1, timing: { decodeStepMs: 1000 } });
    const leave = new AbortController();
    send(instance, COMPLETIONS, { body: { prompt: prompt(100), max_tokens: 20, ignore_eos: true }, signal: leave.signal }).catch(() => {});
    await waitFor('it runs', () => instance.stats().running === 1);
    const second = send(instance, COMPLETIONS, { body: { prompt: prompt(60, 'white'), max_tokens: 1 } });
    await waitFor('the second waits', () => instance.stats().waiting === 1);
    const metrics = (await send(instance, '/metrics')).text;
    expect(metrics).toContain('vllm:num_requests_waiting{engine="0",model_name="sim/Qwen3-8B"} 1.0');
    expect(metrics).toContain('reason="capacity"} 1.0');
    expect(metrics).toContain('vllm:kv_cache_usage_perc{engine="0",model_name="sim/Qwen3-8B"} 0.875');
    leave.abort();
    expect((await second).status).toBe(200);
  });

  it('preempts the youngest when decoding runs out of blocks, and all answers stay whole', async () => {
    const instance = await start({ blocks: 10, blockSize: 8 });
    const bodies = ['white', 'green', 'blue'].map((word) => ({ prompt: prompt(16, word), max_tokens: 50, ignore_eos: true }));
    const together = await Promise.all(bodies.map((body) => send(instance, COMPLETIONS, { body })));
    expect((await send(instance, '/metrics')).text).not.toMatch(/vllm:num_preemptions_total\{.*\} 0\.0/u);
    const alone: string[] = [];
    for (const body of bodies) alone.push(json(await send(instance, COMPLETIONS, { body })).choices[0].text);
    expect(together.map((answer) => json(answer).choices[0].text)).toEqual(alone);
    expect(together.map((answer) => json(answer).usage.completion_tokens)).toEqual([50, 50, 50]);
    const stats = instance.stats();
    expect(stats.freeBlocks).toBe(stats.blocks);
  });

  it('runs no more than maxNumSeqs at once', async () => {
    const instance = await start({ maxNumSeqs: 2, speed: 1, timing: { decodeStepMs: 1000 } });
    const leave = new AbortController();
    for (let index = 0; index < 5; index += 1) {
      send(instance, COMPLETIONS, { body: { prompt: prompt(10), max_tokens: 9, ignore_eos: true }, signal: leave.signal }).catch(() => {});
    }
    await waitFor('five are there', () => instance.stats().running + instance.stats().waiting === 5);
    await waitFor('the batch is full', () => instance.stats().running === 2);
    expect(instance.stats()).toMatchObject({ running: 2, waiting: 3 });
    leave.abort();
    await waitFor('all left', () => instance.stats().aborted === 5);
  });

  it('prefills a long prompt in several steps', async () => {
    const instance = await start({ maxBatchedTokens: 64 });
    const usage = json(await send(instance, COMPLETIONS, { body: { prompt: prompt(300), max_tokens: 1 } })).usage;
    expect(usage.prompt_tokens).toBe(300);
    expect((await send(instance, '/metrics')).text).toMatch(/vllm:iteration_tokens_total_count\{.*\} 5\.0/u);
  });

  it('costs more time for more uncached tokens', async () => {
    const instance = await start({ speed: 1, timing: { jitter: 0, prefillBaseMs: 0, prefillMsPerToken: 0.1 } });
    const ttftMs = async (): Promise<number> =>
      json(await send(instance, COMPLETIONS, { body: { prompt: prompt(1000), max_tokens: 1 } })).metrics.time_to_first_token_ms;
    expect(await ttftMs()).toBeGreaterThanOrEqual(100);
    const usage = json(await send(instance, COMPLETIONS, { body: { prompt: prompt(1000), max_tokens: 1 } })).usage;
    expect(usage.prompt_tokens_details.cached_tokens).toBe(992);
  });

  it('streams a thousand answers at once, each whole', async () => {
    const instance = await start({ maxNumSeqs: 1000, blocks: 8192, speed: 1000 });
    const answers = await Promise.all(
      Array.from({ length: 1000 }, (_, index) =>
        send(instance, COMPLETIONS, { body: { prompt: [index, 1000, 1001], max_tokens: 20, ignore_eos: true, stream: true } }),
      ),
    );
    expect(answers.map((answer) => sseObjects(answer.text).length)).toEqual(Array<number>(1000).fill(20));
  });

  it('shares a process with 99 others', async () => {
    const instances = await Promise.all(
      Array.from({ length: 100 }, (_, index) => start({ name: `i${index}`, kvEvents: {}, blocks: 256 })),
    );
    expect(new Set(instances.map((instance) => instance.url)).size).toBe(100);
    const answers = await Promise.all(instances.map((instance) => send(instance, COMPLETIONS, { body: { prompt: prompt(40), max_tokens: 8, ignore_eos: true } })));
    expect(answers.map((answer) => json(answer).usage.completion_tokens)).toEqual(Array<number>(100).fill(8));
    expect(instances.map((instance) => instance.publish.events)).toEqual(Array<number>(100).fill(1));
  });

  it('says which port is taken', async () => {
    const first = await start({});
    const port = Number(new URL(first.url).port);
    await expect(startSimInstance({ role: 'both', port })).rejects.toMatchObject({ code: 'sim-bind-failed', message: expect.stringContaining(String(port)) });
  });
});

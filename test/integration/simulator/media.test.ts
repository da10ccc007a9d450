/** Encode instances, and whether their work is found by those who come after them. */
import { afterEach, describe, expect, it } from 'vitest';
import { createEncoderStore } from '#engine/simulator/media-cache.ts';
import { startSimCluster } from '#engine/simulator/sim-cluster.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { CHAT, json, send } from './sim-client.ts';

const open: { close(): Promise<void> }[] = [];

async function start(options: SimInstanceOptions): Promise<SimInstance> {
  const instance = await startSimInstance({ speed: 100, ...options });
  open.push(instance);
  return instance;
}

afterEach(async () => {
  for (const resource of open.splice(0)) await resource.close();
});

const PARTS = {
  image: { type: 'image_url', image_url: { url: 'https://images.example/a.jpg' } },
  file: { type: 'image_url', image_url: { url: 'file:///srv/a.png' } },
  audio: { type: 'audio_url', audio_url: { url: 'https://sounds.example/a.wav' } },
  input: { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
  video: { type: 'video_url', video_url: { url: 'https://videos.example/a.mp4' } },
};
const request = (...content: object[]): object => ({ messages: [{ role: 'user', content }], max_tokens: 2 });

async function metric(instance: SimInstance, name: string): Promise<number> {
  const { text } = await send(instance, '/metrics');
  return Number(new RegExp(`^vllm:${name}\\{.*\\} (.*)$`, 'mu').exec(text)?.[1]);
}

describe('an encode instance', () => {
  it.each(Object.entries(PARTS))('names a part of kind %s by its content', async (_kind, part) => {
    const encoder = await start({ role: 'encode' });
    const [first, again] = [json(await send(encoder, CHAT, { body: request(part) })), json(await send(encoder, CHAT, { body: request(part) }))];
    const [item] = first.ec_transfer_params.ec_items;
    expect(item.mm_hash).toMatch(/^[0-9a-f]{32}$/u);
    expect(Object.keys(item).length).toBeGreaterThan(1);
    expect(again.ec_transfer_params).toEqual(first.ec_transfer_params);
    expect(first).toMatchObject({ kv_transfer_params: null, choices: [{ finish_reason: 'length', message: { content: '' } }], usage: { completion_tokens: 0 } });
  });

  it('tells different items apart, and takes a uuid for the content', async () => {
    const encoder = await start({ role: 'encode' });
    const { ec_items: items } = json(await send(encoder, CHAT, { body: request(PARTS.image, PARTS.file, { ...PARTS.audio, uuid: 'mine' }) })).ec_transfer_params;
    expect(new Set(items.map((item: { mm_hash: string }) => item.mm_hash)).size).toBe(3);
    expect(items[2].mm_hash).toBe('mine');
  });

  it('encodes features of a rendered request at the token endpoint', async () => {
    const encoder = await start({ role: 'encode' });
    const body = {
      token_ids: [1000, 151655, 151655],
      features: { mm_hashes: { image: ['abc'] }, mm_placeholders: { image: [{ offset: 1, length: 2 }] } },
      sampling_params: { max_tokens: 1 },
    };
    const answer = json(await send(encoder, '/inference/v1/generate', { body }));
    expect(answer.ec_transfer_params.ec_items).toEqual([{ mm_hash: 'abc', image_grid_thw: [[1, 16, 16]] }]);
  });

  it('fails its leg on demand, in both ways', async () => {
    const encoder = await start({ role: 'encode' });
    await encoder.setFault('error-400');
    expect(json(await send(encoder, CHAT, { body: request(PARTS.image) })).error).toMatchObject({ type: 'BadRequestError', code: 400 });
    await encoder.setFault('reset');
    await expect(send(encoder, CHAT, { body: request(PARTS.image) })).rejects.toMatchObject({ code: 'ECONNRESET' });
    await encoder.setFault('none');
    expect((await send(encoder, CHAT, { body: { ...request(PARTS.image), stream: true } })).status).toBe(400);
    expect((await send(encoder, CHAT, { body: request(PARTS.image) })).status).toBe(200);
  });
});

describe('an instance behind an encode stage', () => {
  it('finds what the stage encoded, and only that', async () => {
    const encoderStore = createEncoderStore();
    const [encoder, prefill] = [await start({ role: 'encode', encoderStore }), await start({ role: 'prefill', encoderStore })];
    await send(encoder, CHAT, { body: request(PARTS.image) });
    expect((await send(prefill, CHAT, { body: request(PARTS.image, PARTS.video) })).status).toBe(200);
    expect(prefill.stats().media).toEqual({ cached: 0, loaded: 1, encoded: 1 });
    await send(prefill, CHAT, { body: request(PARTS.image, PARTS.video) });
    expect(prefill.stats().media).toEqual({ cached: 2, loaded: 1, encoded: 1 });
    expect(encoder.stats().media).toEqual({ cached: 0, loaded: 0, encoded: 1 });
    expect(await metric(prefill, 'mm_cache_queries_total')).toBe(4);
    expect(await metric(prefill, 'mm_cache_hits_total')).toBe(2);
  });

  it('encodes for itself what came from nowhere', async () => {
    const prefill = await start({ role: 'prefill' });
    expect((await send(prefill, CHAT, { body: request(PARTS.input) })).status).toBe(200);
    expect(prefill.stats().media).toEqual({ cached: 0, loaded: 0, encoded: 1 });
  });

  it('needs no encoder output for a prompt whose KV it is handed', async () => {
    const [prefill, decode] = [await start({ role: 'prefill' }), await start({ role: 'decode' })];
    const body = request(PARTS.image);
    const { kv_transfer_params: params } = json(await send(prefill, CHAT, { body: { ...body, max_tokens: 1, kv_transfer_params: { do_remote_decode: true } } }));
    const answer = json(await send(decode, CHAT, { body: { ...body, kv_transfer_params: params } }));
    expect(answer.usage.prompt_tokens_details).toMatchObject({ cached_tokens: answer.usage.prompt_tokens - 1, multimodal_tokens: 64 });
    expect(decode.stats().media).toEqual({ cached: 0, loaded: 0, encoded: 0 });
  });

  it('shares a store within a cluster', async () => {
    const cluster = await startSimCluster({ encode: 1, prefill: 1, decode: 0, speed: 100 });
    open.push(cluster);
    const [encoder, prefill] = cluster.instances;
    if (encoder === undefined || prefill === undefined) throw new Error('two instances were asked for');
    await send(encoder, CHAT, { body: request(PARTS.file) });
    await send(prefill, CHAT, { body: request(PARTS.file) });
    expect(prefill.stats().media.loaded).toBe(1);
  });
});

import { afterEach, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { CHAT, COMPLETIONS, json, listen, prompt, replay, send, waitFor, type KvListener } from './sim-client.ts';

interface StoredMap {
  readonly type: string;
  readonly block_hashes: readonly (bigint | Uint8Array)[];
  readonly parent_block_hash: bigint | Uint8Array | null;
  readonly token_ids: readonly number[];
  readonly extra_keys: readonly unknown[];
  readonly lora_name: string | null;
}

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const resource of open.splice(0).reverse()) await resource.close();
});

async function start(options: Partial<SimInstanceOptions> = {}): Promise<SimInstance> {
  const instance = await startSimInstance({ role: 'both', speed: 200, kvEvents: {}, ...options });
  open.push(instance);
  return instance;
}

async function subscribe(instance: SimInstance, rank = 0): Promise<KvListener> {
  const listener = await listen(instance, rank);
  open.push(listener);
  return listener;
}

async function complete(instance: SimInstance, body: object, headers: Readonly<Record<string, string>> = {}): Promise<{ usage: { prompt_tokens: number } }> {
  const answer = await send(instance, COMPLETIONS, { body, headers });
  expect(answer.status).toBe(200);
  return json(answer);
}

describe('KV events over ZMQ', () => {
  it('store the prompt in one event, then generated blocks one by one, chained by parent', async () => {
    const instance = await start();
    const listener = await subscribe(instance);
    await complete(instance, { prompt: prompt(40), max_tokens: 30, ignore_eos: true });
    const events = (await waitFor('three events', () => listener.events().length >= 3 && listener.events())) as readonly StoredMap[];
    // 40 prompt tokens and 29 computed output tokens: 2 full prompt blocks, then blocks 3 and 4.
    expect(events.map((event) => [event.type, event.block_hashes.length])).toEqual([['BlockStored', 2], ['BlockStored', 1], ['BlockStored', 1]]);
    const [first, second, third] = events as [StoredMap, StoredMap, StoredMap];
    expect(first.parent_block_hash).toBeNull();
    expect(first.token_ids).toHaveLength(32);
    expect(second.parent_block_hash).toBe(first.block_hashes[1]);
    expect(third.parent_block_hash).toBe(second.block_hashes[0]);
    expect(typeof first.block_hashes[0]).toBe('bigint');
    const seqs = listener.messages.map((message) => message.seq);
    expect(seqs).toEqual(seqs.map((_, index) => (seqs[0] ?? 0n) + BigInt(index)));
    expect(listener.messages[0]).toMatchObject({ topic: 'kv-events', rank: 0 });
  });

  it('say nothing about blocks that were found in the cache', async () => {
    const instance = await start();
    const listener = await subscribe(instance);
    await complete(instance, { prompt: prompt(40), max_tokens: 1 });
    await waitFor('store', () => listener.events().length === 1);
    await complete(instance, { prompt: prompt(40), max_tokens: 1 });
    await complete(instance, { prompt: prompt(70), max_tokens: 1 });
    await waitFor('store of the rest', () => listener.events().length === 2);
    const [first, rest] = listener.events() as [StoredMap, StoredMap];
    expect(rest.parent_block_hash).toBe(first.block_hashes[1]);
    expect(rest.block_hashes).toHaveLength(2);
  });

  it('announce the reused prefix as well when the request asks for a full report', async () => {
    const instance = await start();
    const listener = await subscribe(instance);
    await complete(instance, { prompt: prompt(40), max_tokens: 1 });
    await complete(instance, { prompt: prompt(70), max_tokens: 1, vllm_xargs: { kv_cache_report_mode: 'full' } });
    const [stored, again, rest] = (await waitFor('three events', () => listener.events().length >= 3 && listener.events())) as [StoredMap, StoredMap, StoredMap];
    expect(again).toEqual(stored);
    expect(rest.parent_block_hash).toBe(stored.block_hashes[1]);
    expect(instance.stats().residentBlocks).toBe(4);
  });

  it('come positional and 12 wide with array encoding, with digests as bytes when asked', async () => {
    const instance = await start({ kvEvents: { encoding: 'array', hashForm: 'bytes', topic: 'kv@a@b' }, blocks: 4, blockSize: 8 });
    const listener = await subscribe(instance);
    await complete(instance, { prompt: prompt(20), max_tokens: 1 });
    await complete(instance, { prompt: prompt(28, 'white'), max_tokens: 1 });
    const events = (await waitFor('removal', () => listener.events().length >= 4 && listener.events())) as readonly unknown[][];
    const [stored, removed] = events as [unknown[], unknown[]];
    expect(stored).toHaveLength(12);
    expect(stored.slice(0, 1)).toEqual(['BlockStored']);
    expect(stored.slice(4)).toEqual([8, null, 'GPU', null, [null, null], 0, 'full_attention', null]);
    const hashes = stored[1] as Uint8Array[];
    expect(hashes.map((hash) => hash.length)).toEqual([32, 32]);
    // The last block of the least recently used chain goes first.
    expect(removed).toEqual(['BlockRemoved', [hashes[1]], 'GPU', 0]);
    expect(listener.messages[0]?.topic).toBe('kv@a@b');
  });

  it('carry adapter, salt and media in extra_keys, and separate the caches by them', async () => {
    const instance = await start({ loras: ['sql-adapter'] });
    const listener = await subscribe(instance);
    await complete(instance, { model: 'sql-adapter', prompt: prompt(40), cache_salt: 'tenant', max_tokens: 1 });
    await complete(instance, { prompt: prompt(40), max_tokens: 1 });
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
    await send(instance, CHAT, { body: { messages: [{ role: 'user', content: [image] }], max_tokens: 1 } });
    const [salted, plain, media] = (await waitFor('three stores', () => listener.events().length >= 3 && listener.events())) as [StoredMap, StoredMap, StoredMap];
    expect(salted.extra_keys).toEqual([['sql-adapter', 'tenant'], ['sql-adapter']]);
    expect(salted.lora_name).toBe('sql-adapter');
    expect(plain.extra_keys).toEqual([null, null]);
    expect(plain.block_hashes[0]).not.toBe(salted.block_hashes[0]);
    const [, ...later] = media.extra_keys as readonly [string, number][][];
    expect(later[0]?.[0]?.[1]).toBeLessThan(0);
    expect(media.token_ids).toContain(151655);
  });

  it('announce a cleared cache, which is refused while blocks are in use', async () => {
    const instance = await start();
    const listener = await subscribe(instance);
    await complete(instance, { prompt: prompt(40), max_tokens: 1 });
    expect(instance.stats().residentBlocks).toBe(2);
    expect(json(await send(instance, '/reset_prefix_cache', { method: 'POST' }))).toEqual({ success: true });
    await waitFor('clear', () => listener.events().length === 2);
    expect(listener.events()[1]).toEqual({ type: 'AllBlocksCleared' });
    expect(instance.stats().residentBlocks).toBe(0);
    await send(instance, COMPLETIONS, { body: { prompt: prompt(40), max_tokens: 1, kv_transfer_params: { do_remote_decode: true } } });
    expect(json(await send(instance, '/reset_prefix_cache', { method: 'POST' }))).toEqual({ success: false });
  });

  it('are replayed from a number on, with the end marker', async () => {
    const instance = await start({ kvEvents: { bufferSteps: 4 } });
    for (let index = 0; index < 6; index += 1) await complete(instance, { prompt: [index, ...Array<number>(15).fill(1000), 5], max_tokens: 1 });
    expect((await replay(instance, 4n)).map((message) => message.seq)).toEqual([4n, 5n]);
    // Older batches are gone without an error: the first number tells.
    expect((await replay(instance, 0n)).map((message) => message.seq)).toEqual([2n, 3n, 4n, 5n]);
    expect(await replay(instance, 99n)).toEqual([]);
    expect(instance.publish).toMatchObject({ replayRequests: 3, replayedBatches: 6 });
  });

  it('skip numbers under the gap fault; the replay still has them, and the fault ends by itself', async () => {
    const instance = await start();
    const listener = await subscribe(instance);
    const before = instance.publish.batches;
    await instance.setFault('event-gap', 2);
    expect(instance.fault).toBe('event-gap');
    for (let index = 0; index < 3; index += 1) await complete(instance, { prompt: [index, ...Array<number>(15).fill(1000), 5], max_tokens: 1 });
    await waitFor('the batch after the gap', () => listener.messages.length === 1);
    expect(listener.messages[0]?.seq).toBe(BigInt(before + 2));
    expect(instance.publish.skipped).toBe(2);
    expect(instance.fault).toBe('none');
    expect((await replay(instance, BigInt(before))).map((message) => message.seq)).toEqual([before, before + 1, before + 2].map(BigInt));
  });

  it('start again at 0 on the same port after a restart, with other hashes for the same tokens', async () => {
    const instance = await start();
    const listener = await subscribe(instance);
    const { kvEvents, engineId, url } = instance;
    await complete(instance, { prompt: prompt(40), max_tokens: 1 });
    await waitFor('store', () => listener.events().length === 1);
    await instance.setFault('restart');
    expect(instance).toMatchObject({ kvEvents, url, fault: 'none' });
    expect(instance.engineId).not.toBe(engineId);
    expect(instance.stats()).toMatchObject({ residentBlocks: 0, restarts: 1 });
    // The subscriber reconnects by itself; provoke batches until one comes through.
    const seen = listener.messages.length;
    for (let index = 0; listener.messages.length === seen && index < 500; index += 1) {
      await complete(instance, { prompt: [index % 200, ...prompt(40).split(' ').map(() => 1000)], max_tokens: 1 });
    }
    await waitFor('a batch of the new life', () => listener.messages.length > seen);
    expect(listener.messages[seen]?.seq).toBeLessThan(500n);
    const [first] = await replay(instance, 0n);
    expect(first?.seq).toBe(0n);
  });

  it('have a port, numbers and a cache per data-parallel rank', async () => {
    const instance = await start({ dpSize: 3 });
    const listeners = [await subscribe(instance, 0), await subscribe(instance, 2)];
    const pin = (rank: string): Promise<unknown> => complete(instance, { prompt: prompt(40), max_tokens: 1 }, { 'x-data-parallel-rank': rank });
    await pin('2');
    await pin('2');
    // Subscribing to one rank clears the caches of all, which the other listener may still hear.
    const stored = (index: number): number => (listeners[index]?.events() ?? []).filter((event) => (event as StoredMap).type === 'BlockStored').length;
    await waitFor('rank 2', () => stored(1) === 1);
    expect(listeners[1]?.messages.at(-1)?.rank).toBe(2);
    expect(stored(0)).toBe(0);
    await pin('0');
    await waitFor('rank 0', () => stored(0) === 1);
    expect(instance.kvEvents?.ranks).toBe(3);
    const refused = await send(instance, COMPLETIONS, { body: { prompt: 'x' }, headers: { 'x-data-parallel-rank': '3' } });
    expect(refused.status).toBe(400);
    expect((await send(instance, COMPLETIONS, { body: { prompt: 'x', max_tokens: 1 }, headers: { 'x-data-parallel-rank': 'two' } })).status).toBe(200);
  });
});

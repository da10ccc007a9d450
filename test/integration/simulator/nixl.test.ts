import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { createSharedStore } from '#engine/simulator/shared-store.ts';
import { WAIT_LIMIT_MS } from '../../support/wait-limit.ts';
import { CHAT, COMPLETIONS, json, listen, prompt, send, sseObjects, waitFor } from './sim-client.ts';

/** Real time: for leases that end in the test, but not before D asks on a slow machine. */
const LEASE_MS = 2000;

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const resource of open.splice(0).reverse()) await resource.close();
});

async function start(role: 'prefill' | 'decode', options: Partial<SimInstanceOptions> = {}): Promise<SimInstance> {
  const instance = await startSimInstance({ role, speed: 100, ...options });
  open.push(instance);
  return instance;
}

const KEEP = { do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null, remote_block_ids: null, remote_host: null, remote_port: null };
const BODY = { prompt: prompt(57) };

async function prefill(instance: SimInstance): Promise<Record<string, unknown>> {
  const answer = await send(instance, COMPLETIONS, { headers: { 'x-request-id': 'r' }, body: { ...BODY, max_tokens: 1, kv_transfer_params: KEEP } });
  return json(answer).kv_transfer_params;
}

const decodeBody = (params: unknown, extra: object = {}): object => ({ ...BODY, max_tokens: 20, ignore_eos: true, kv_transfer_params: params, ...extra });

describe('NIXL pull', () => {
  it('answers on P with the whole reference and pins the blocks', async () => {
    const p = await start('prefill');
    const params = await prefill(p);
    expect(params).toEqual({
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [[1, 2, 3, 4]],
      remote_engine_id: p.engineId,
      remote_request_id: expect.stringMatching(/^cmpl-r-0-[0-9a-f]{8}$/u),
      remote_host: '127.0.0.1',
      remote_port: expect.any(Number),
      tp_size: 1,
      remote_num_tokens: 57,
      remote_blocks_expiry_time: null,
      transfer_mode: 'pull',
    });
    expect(p.stats()).toMatchObject({ pinnedBlocks: 4, leases: 1 });
  });

  it('lets D pull: the blocks are stored there, P is freed, and the usage counts them as cached', async () => {
    const p = await start('prefill');
    const d = await start('decode', { kvEvents: {} });
    const listener = await listen(d);
    open.push(listener);
    const answer = json(await send(d, COMPLETIONS, { body: decodeBody(await prefill(p)) }));
    expect(answer.usage).toMatchObject({ prompt_tokens: 57, prompt_tokens_details: { cached_tokens: 56 } });
    expect(answer.kv_transfer_params).toBeNull();
    expect(p.stats()).toMatchObject({ pinnedBlocks: 0, leases: 0, freeBlocks: p.stats().blocks });
    await waitFor('store', () => listener.events().length >= 1);
    expect(listener.events()[0]).toMatchObject({ type: 'BlockStored', parent_block_hash: null, token_ids: expect.objectContaining({ length: 48 }) });
    const metrics = (await send(d, '/metrics')).text;
    expect(metrics).toContain('vllm:prompt_tokens_by_source_total{engine="0",model_name="sim/Qwen3-8B",source="external_kv_transfer"} 56.0');
    expect(metrics).toMatch(/vllm:nixl_xfer_time_seconds_count\{.*\} 1\.0/u);
  });

  it('says the same first token on P and on D', async () => {
    const p = await start('prefill', { seed: 1 });
    const d = await start('decode', { seed: 2 });
    const first = json(await send(p, COMPLETIONS, { body: { ...BODY, max_tokens: 1 } })).choices[0].text;
    expect(json(await send(d, COMPLETIONS, { body: { ...BODY, max_tokens: 5 } })).choices[0].text.startsWith(first)).toBe(true);
  });

  it('refuses a reference that was used, with 500 before the first byte or an error object in the stream', async () => {
    const p = await start('prefill');
    const d = await start('decode');
    const params = await prefill(p);
    expect((await send(d, COMPLETIONS, { body: decodeBody(params) })).status).toBe(200);
    const again = await send(d, COMPLETIONS, { body: decodeBody(params) });
    expect(again.status).toBe(500);
    expect(json(again)).toEqual({ error: { message: 'Internal server error', type: 'InternalServerError', param: null, code: 500 } });
    const streamed = await send(d, COMPLETIONS, { body: decodeBody(params, { stream: true }) });
    expect(streamed.status).toBe(200);
    expect(sseObjects(streamed.text)).toEqual([{ error: { message: 'Internal server error', type: 'InternalServerError', param: null, code: 500 } }]);
    expect((await send(d, '/metrics')).text).toMatch(/vllm:nixl_num_failed_transfers_total\{.*\} 2\.0/u);
  });

  it.each<[string, (p: SimInstance) => Promise<void>]>([
    ['dropped leases', (p) => p.setFault('drop-lease')],
    ['a restart of P', (p) => p.restart()],
    ['a P that is gone', (p) => p.close()],
  ])('fails after %s', async (_name, spoil) => {
    const p = await start('prefill');
    const d = await start('decode');
    const params = await prefill(p);
    await spoil(p);
    expect(p.stats().pinnedBlocks).toBe(0);
    expect((await send(d, COMPLETIONS, { body: decodeBody(params) })).status).toBe(500);
    expect(d.stats()).toMatchObject({ running: 0, loading: 0, freeBlocks: d.stats().blocks });
  });

  it('recomputes instead when the policy says so', async () => {
    const p = await start('prefill');
    const d = await start('decode', { kvLoadFailurePolicy: 'recompute' });
    const params = await prefill(p);
    await p.setFault('drop-lease');
    const answer = json(await send(d, COMPLETIONS, { body: decodeBody(params) }));
    expect(answer.usage.prompt_tokens_details.cached_tokens).toBe(0);
  });

  it.each(['remote_engine_id', 'remote_request_id', 'remote_host', 'remote_port'])('waits for ever without %s, until the client leaves', async (field) => {
    const p = await start('prefill');
    const d = await start('decode');
    const leave = new AbortController();
    const params = { ...(await prefill(p)), [field]: null };
    send(d, COMPLETIONS, { body: decodeBody(params), signal: leave.signal }).catch(() => {});
    await waitFor('it waits for remote KV', () => d.stats().loading === 1);
    // Others are served meanwhile; nothing will ever come for this one.
    expect((await send(d, COMPLETIONS, { body: { ...BODY, max_tokens: 3 } })).status).toBe(200);
    expect(d.stats()).toMatchObject({ loading: 1, running: 0 });
    expect(p.stats().leases).toBe(1);
    leave.abort();
    await waitFor('its blocks are free', () => d.stats().freeBlocks === d.stats().blocks);
    expect(d.stats()).toMatchObject({ loading: 0, aborted: 1 });
  });

  it.each<[string, unknown]>([['missing', undefined], ['null', null], ['empty', []]])('dies of do_remote_prefill with %s remote_block_ids', async (_name, blockIds) => {
    const p = await start('prefill');
    const d = await start('decode', { speed: 1, timing: { decodeStepMs: 50 } });
    const running = send(d, COMPLETIONS, { body: { ...BODY, max_tokens: 1000, ignore_eos: true } });
    await waitFor('something runs', () => d.stats().running === 1);
    const fatal = await send(d, COMPLETIONS, { body: decodeBody({ ...(await prefill(p)), remote_block_ids: blockIds }) });
    expect([fatal.status, (await running).status]).toEqual([500, 500]);
    expect(json(fatal).error.message).toContain('EngineCore');
    expect(d.death).toContain('assert num_external_tokens == 0');
    expect((await send(d, '/health')).status).toBe(503);
    expect((await send(d, COMPLETIONS, { body: { ...BODY, max_tokens: 1 } })).status).toBe(500);
    const deadlineMs = performance.now() + WAIT_LIMIT_MS;
    const isRefused = (): Promise<boolean> => send(d, '/health').then(() => false, (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED');
    while (!(await isRefused())) if (performance.now() > deadlineMs) throw new Error('the process did not exit');
    await d.setFault('none');
    expect(await isRefused()).toBe(true);
    await d.restart();
    expect(d.death).toBeUndefined();
    expect((await send(d, '/health')).status).toBe(200);
    expect((await send(d, COMPLETIONS, { body: { ...BODY, max_tokens: 1 } })).status).toBe(200);
  });

  it.each([
    ['prefill', 'kv_consumer', KEEP],
    ['decode', 'kv_producer', { do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [[1]] }],
  ] as const)('a strict role: %s instance that is a %s asserts', async (role, kvRole, params) => {
    const instance = await start(role, { kvRole });
    expect((await send(instance, COMPLETIONS, { body: { ...BODY, max_tokens: 1, kv_transfer_params: params } })).status).toBe(500);
    expect(instance.death).toContain(kvRole);
  });

  it('copies blindly: KV of another prompt makes an answer of noise, a counter, and nothing else', async () => {
    const p = await start('prefill');
    const d = await start('decode');
    const params = await prefill(p);
    const answer = await send(d, COMPLETIONS, { body: decodeBody(params, { prompt: prompt(57, 'white'), max_tokens: 4 }) });
    expect(answer.status).toBe(200);
    expect(json(answer).choices[0].text).toBe('!!!!');
    expect(d.stats().corruptedLoads).toBe(1);
    // What was stored on the way is as wrong as what was loaded.
    const again = json(await send(d, COMPLETIONS, { body: { prompt: prompt(57, 'white'), max_tokens: 4 } }));
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe(48);
    expect(again.choices[0].text).toBe('!!!!');
  });

  it('ends leases that nobody uses, and counts them', async () => {
    const p = await start('prefill', { leaseMs: 30 });
    await prefill(p);
    await waitFor('expiry', () => p.stats().leases === 0);
    expect((await send(p, '/metrics')).text).toMatch(/vllm:nixl_num_kv_expired_reqs_total\{.*\} 1\.0/u);
  });

  it('keeps a lease alive by heartbeats while D has no room, unless tp_size is missing', async () => {
    // Each D has room for one request only, and that one goes on until its client leaves.
    const busy = async (): Promise<{ d: SimInstance; leave: AbortController }> => {
      const d = await start('decode', { blocks: 8, leaseMs: LEASE_MS, speed: 1, timing: { decodeStepMs: 3000 } });
      const leave = new AbortController();
      send(d, COMPLETIONS, { body: { prompt: prompt(80, 'white'), max_tokens: 40, ignore_eos: true }, signal: leave.signal }).catch(() => {});
      await waitFor('D is full', () => d.stats().running === 1);
      return { d, leave };
    };
    const [kept, lost] = [await busy(), await busy()];
    // Now, so that the leases last until D asks.
    const p = await start('prefill', { leaseMs: LEASE_MS });
    const [params, other] = [await prefill(p), await prefill(p)];
    const { tp_size: _dropped, ...noHeartbeat } = other;
    const answers = [
      send(kept.d, COMPLETIONS, { body: decodeBody(params, { max_tokens: 2 }) }),
      send(lost.d, COMPLETIONS, { body: decodeBody(noHeartbeat, { max_tokens: 2 }) }),
    ];
    await waitFor('the lease without heartbeats ends', () => p.stats().leases === 1);
    kept.leave.abort();
    lost.leave.abort();
    expect((await Promise.all(answers)).map((answer) => answer.status)).toEqual([200, 500]);
  });

  it('frees P when D refuses the request, or its client leaves before it was scheduled', async () => {
    const p = await start('prefill');
    const d = await start('decode', { blocks: 8, speed: 1, timing: { decodeStepMs: 3000 } });
    const refused = await send(d, COMPLETIONS, { body: decodeBody(await prefill(p), { min_tokens: 30 }) });
    expect(refused.status).toBe(400);
    expect(p.stats().leases).toBe(0);
    const busy = new AbortController();
    send(d, COMPLETIONS, { body: { prompt: prompt(100, 'white'), max_tokens: 25, ignore_eos: true }, signal: busy.signal }).catch(() => {});
    await waitFor('D is full', () => d.stats().running === 1);
    const leaving = new AbortController();
    send(d, COMPLETIONS, { body: decodeBody(await prefill(p)), signal: leaving.signal }).catch(() => {});
    await waitFor('it waits', () => d.stats().waiting === 1);
    expect(p.stats().leases).toBe(1);
    leaving.abort();
    await waitFor('P is freed', () => p.stats().leases === 0);
    busy.abort();
  });

  it('a D that dies tells nobody: P waits for its lease to end', async () => {
    const p = await start('prefill', { leaseMs: LEASE_MS });
    const d = await start('decode', { timing: { transferBaseMs: 60_000 }, speed: 1 });
    const params = await prefill(p);
    send(d, COMPLETIONS, { body: decodeBody(params) }).catch(() => {});
    await waitFor('loading', () => d.stats().loading === 1);
    await d.restart();
    expect(d.stats()).toMatchObject({ loading: 0, freeBlocks: d.stats().blocks });
    await waitFor('expiry', () => p.stats().leases === 0);
    expect((await send(p, '/metrics')).text).toMatch(/vllm:nixl_num_kv_expired_reqs_total\{.*\} 1\.0/u);
  });

  it('counts a request that waits for remote KV as deferred', async () => {
    const p = await start('prefill');
    const d = await start('decode', { timing: { transferBaseMs: 60_000 }, speed: 1 });
    const leave = new AbortController();
    const params = await prefill(p);
    send(d, COMPLETIONS, { body: decodeBody(params), signal: leave.signal }).catch(() => {});
    await waitFor('loading', () => d.stats().loading === 1);
    expect((await send(d, '/metrics')).text).toContain('vllm:num_requests_waiting_by_reason{engine="0",model_name="sim/Qwen3-8B",reason="deferred"} 1.0');
    leave.abort();
    await waitFor('abort', () => d.stats().aborted === 1);
  });

  it('answers on its side channel, which is how other processes pull', async () => {
    const p = await start('prefill');
    const params = await prefill(p);
    const channel = { url: `http://127.0.0.1:${String(params['remote_port'])}` };
    const ask = async (op: string, blockIds: readonly number[]): Promise<{ isOk: boolean; reason?: string }> =>
      json(
        await send(channel, '/kv', {
          body: { op, engineId: p.engineId, mode: 'nixl-pull', key: params['remote_request_id'], blockIds, check: { tokens: 0, digest: 0 } },
        }),
      );
    expect(await ask('open', [1, 99])).toMatchObject({ isOk: false, reason: expect.stringContaining('block 99') });
    expect(await ask('open', [1, 2, 3, 4])).toEqual({ isOk: true, isGarbage: true });
    expect(await ask('heartbeat', [])).toEqual({ isOk: true });
    expect(await ask('done', [])).toEqual({ isOk: true });
    expect(await ask('done', [])).toMatchObject({ isOk: false, reason: expect.stringContaining('copied already') });
    expect(await ask('dance', [])).toEqual({ isOk: false, reason: 'malformed message' });
    expect(p.stats().pinnedBlocks).toBe(0);
  });

  it('pulls over HTTP from a side channel that is not in this process', async () => {
    const asked: unknown[] = [];
    const foreign = http.createServer((request, response) => {
      request.on('data', (chunk: Buffer) => asked.push(JSON.parse(chunk.toString())));
      request.on('end', () => response.end(JSON.stringify({ isOk: true })));
    });
    await new Promise<void>((resolve) => {
      foreign.listen(0, '127.0.0.1', resolve);
    });
    open.push(foreign);
    const d = await start('decode');
    const { port } = foreign.address() as AddressInfo;
    const params = {
      do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [[7, 8, 9, 10]], remote_engine_id: 'e', remote_request_id: 'r',
      remote_host: 'localhost', remote_port: port, tp_size: 1,
    };
    const answer = json(await send(d, COMPLETIONS, { body: decodeBody(params) }));
    expect(answer.usage.prompt_tokens_details.cached_tokens).toBe(56);
    const reference = { engineId: 'e', mode: 'nixl-pull', key: 'r' };
    const check = { tokens: 56, digest: expect.any(Number) };
    expect(asked).toEqual([
      { op: 'open', ...reference, blockIds: [7, 8, 9, 10], check, waitMs: 0, isRegistration: false },
      { op: 'done', ...reference },
    ]);
  });

  it('works for each rank of a data-parallel P under its own engine id', async () => {
    const p = await start('prefill', { dpSize: 2 });
    const d = await start('decode');
    const answer = await send(p, COMPLETIONS, { headers: { 'x-data-parallel-rank': '1' }, body: { ...BODY, max_tokens: 1, kv_transfer_params: KEEP } });
    const params = json(answer).kv_transfer_params;
    expect(params.remote_engine_id).toBe(`${p.engineId ?? ''}_dp1`);
    const other = json(await send(p, COMPLETIONS, { headers: { 'x-data-parallel-rank': '0' }, body: { ...BODY, max_tokens: 1, kv_transfer_params: KEEP } }));
    expect(params.remote_port).toBe(other.kv_transfer_params.remote_port + 1);
    const wrongRank = { ...params, remote_port: other.kv_transfer_params.remote_port };
    expect((await send(d, COMPLETIONS, { body: decodeBody(wrongRank) })).status).toBe(500);
    expect(json(await send(d, COMPLETIONS, { body: decodeBody(params) })).usage.prompt_tokens_details.cached_tokens).toBe(56);
  });
});

describe('plain', () => {
  it('recomputes on D without a shared store, and reads the store where there is one', async () => {
    const sharedStore = createSharedStore();
    const p = await start('prefill', { sharedStore });
    const [alone, sharing] = [await start('decode'), await start('decode', { sharedStore })];
    await send(p, COMPLETIONS, { body: { ...BODY, max_tokens: 1 } });
    const cached = async (d: SimInstance): Promise<number> =>
      json(await send(d, COMPLETIONS, { body: { ...BODY, max_tokens: 3 } })).usage.prompt_tokens_details.cached_tokens;
    expect(await cached(alone)).toBe(0);
    expect(await cached(sharing)).toBe(48);
  });
});

describe('encode instances', () => {
  it('answer with what they encoded, and remember it', async () => {
    const e = await startSimInstance({ role: 'encode', speed: 100 });
    open.push(e);
    const part = { type: 'image_url', image_url: { url: 'https://example.test/a.png' } };
    const body = { messages: [{ role: 'user', content: [part] }] };
    const [first, second] = [json(await send(e, CHAT, { body })), json(await send(e, CHAT, { body }))];
    expect(first.ec_transfer_params.ec_items).toEqual([{ mm_hash: expect.stringMatching(/^[0-9a-f]{32}$/u), image_grid_thw: [[1, 16, 16]] }]);
    expect(second.ec_transfer_params).toEqual(first.ec_transfer_params);
    expect((await send(e, '/metrics')).text).toMatch(/vllm:mm_cache_hits_total\{.*\} 1\.0/u);
    const named = json(await send(e, CHAT, { body: { messages: [{ role: 'user', content: [{ ...part, uuid: 'u1' }] }] } }));
    expect(named.ec_transfer_params.ec_items[0].mm_hash).toBe('u1');
  });
});

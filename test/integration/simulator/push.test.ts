import { afterEach, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { CHAT, COMPLETIONS, json, prompt, send, waitFor, type Answer } from './sim-client.ts';

const open: SimInstance[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((instance) => instance.close()));
});

async function start(role: 'prefill' | 'decode', options: Partial<SimInstanceOptions> = {}): Promise<SimInstance> {
  const instance = await startSimInstance({ role, speed: 100, transfer: 'nixl-push', ...options });
  open.push(instance);
  return instance;
}

const BODY = { prompt: prompt(57) };
const KEEP = { do_remote_decode: true, do_remote_prefill: false };

function prefill(p: SimInstance, id = 'r', params: object = KEEP): Promise<Answer> {
  return send(p, COMPLETIONS, { headers: { 'x-request-id': id }, body: { ...BODY, max_tokens: 1, kv_transfer_params: params } });
}

function decode(d: SimInstance, params: object, { id = 'r', path = COMPLETIONS, signal }: { id?: string; path?: string; signal?: AbortSignal } = {}): Promise<Answer> {
  const body = path === CHAT ? { messages: [{ role: 'user', content: 'x' }] } : BODY;
  return send(d, path, {
    headers: { 'x-request-id': id },
    body: { ...body, max_tokens: 5, ignore_eos: true, kv_transfer_params: params },
    ...(signal !== undefined && { signal }),
  });
}

/** What a proxy learns about P beforehand. */
async function coordinates(p: SimInstance): Promise<Record<string, unknown>> {
  const info = json(await send(p, '/server_info?config_format=json'));
  return {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_engine_id: info.vllm_config.kv_transfer_config.engine_id,
    remote_host: info.vllm_env.VLLM_NIXL_SIDE_CHANNEL_HOST,
    remote_port: info.vllm_env.VLLM_NIXL_SIDE_CHANNEL_PORT,
    tp_size: 1,
    pp_size: 1,
    remote_request_id: null,
  };
}

const cached = (answer: Answer): number => json(answer).usage.prompt_tokens_details.cached_tokens;
const isFree = (instance: SimInstance): boolean => instance.stats().freeBlocks === instance.stats().blocks;

describe('NIXL push', () => {
  it('serial: P keeps under the request id, and pushes when D registers', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const { remote_block_ids: blockIds, ...params } = json(await prefill(p)).kv_transfer_params;
    expect(blockIds).toEqual([[1, 2, 3, 4]]);
    expect(params).toEqual({
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_engine_id: p.engineId,
      remote_request_id: expect.stringMatching(/^cmpl-r-0-[0-9a-f]{8}$/u),
      remote_host: '127.0.0.1',
      remote_port: expect.any(Number),
      tp_size: 1,
      pp_size: 1,
      remote_num_tokens: 57,
      transfer_mode: 'push',
    });
    expect(p.stats()).toMatchObject({ pinnedBlocks: 4, leases: 1 });
    const answer = await decode(d, params);
    expect(cached(answer)).toBe(56);
    expect(p.stats()).toMatchObject({ pinnedBlocks: 0, leases: 0 });
    expect([p, d].every(isFree)).toBe(true);
    expect(d.stats().corruptedLoads).toBe(0);
  });

  it('D first: it waits for P, which pushes as soon as it is done', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const answer = decode(d, await coordinates(p));
    await waitFor('D waits', () => d.stats().loading === 1);
    expect((await prefill(p)).status).toBe(200);
    expect(cached(await answer)).toBe(56);
    await waitFor('P is free', () => isFree(p));
  });

  it('says in /server_info what it is', async () => {
    const p = await start('prefill');
    const config = json(await send(p, '/server_info?config_format=json')).vllm_config.kv_transfer_config;
    expect(config).toMatchObject({ kv_connector: 'NixlPushConnector', kv_role: 'kv_both', engine_id: p.engineId });
  });

  it.each<[string, { id?: string; path?: string }]>([['another request id', { id: 'other' }], ['another path', { path: CHAT }]])('%s never meets: D fails after its timeout', async (_name, way) => {
    const p = await start('prefill', { leaseMs: 300 });
    const d = await start('decode', { transferTimeoutMs: 50 });
    await prefill(p);
    const answer = await decode(d, await coordinates(p), way);
    expect(answer.status).toBe(500);
    expect(d.death).toBeUndefined();
    expect(isFree(d)).toBe(true);
    await waitFor('the lease of P ends', () => isFree(p));
  });

  it.each(['remote_engine_id', 'remote_host', 'remote_port', 'tp_size'])('without %s the request fails, and the engine lives', async (field) => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const { [field]: _dropped, ...params } = await coordinates(p);
    expect((await decode(d, params)).status).toBe(500);
    expect((await send(d, '/health')).status).toBe(200);
    expect(d.stats()).toMatchObject({ loading: 0, freeBlocks: d.stats().blocks });
  });

  it.each(['nixl', 'nixl-push'] as const)('does not work with a decode instance of the other kind (%s decodes)', async (transfer) => {
    const p = await start('prefill', { transfer: transfer === 'nixl' ? 'nixl-push' : 'nixl' });
    const d = await start('decode', { transfer });
    const params = json(await prefill(p)).kv_transfer_params;
    expect((await decode(d, params)).status).toBe(500);
    expect(p.stats().leases).toBe(1);
  });

  it('an unknown engine refuses the registration', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const params = await coordinates(p);
    await p.restart();
    expect((await decode(d, params)).status).toBe(500);
  });

  it('a D that leaves while it waits is free at once, and P is freed by its own push', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const leave = new AbortController();
    decode(d, await coordinates(p), { signal: leave.signal }).catch(() => {});
    await waitFor('D waits', () => d.stats().loading === 1);
    leave.abort();
    await waitFor('D is free', () => isFree(d));
    expect((await prefill(p)).status).toBe(200);
    expect(p.stats()).toMatchObject({ leases: 0, pinnedBlocks: 0 });
    // Later requests are not touched by the old registration.
    await prefill(p);
    expect(p.stats().leases).toBe(1);
  });

  it('refuses to be bidirectional', async () => {
    await expect(start('prefill', { bidirectional: true })).rejects.toMatchObject({ code: 'sim-option-invalid' });
  });
});

describe('the side channel between processes', () => {
  const register = (p: SimInstance, port: unknown, signal?: AbortSignal): Promise<Answer> =>
    send({ url: `http://127.0.0.1:${String(port)}` }, '/kv', {
      body: {
        op: 'open', engineId: p.engineId, mode: 'nixl-push', key: 'cmpl-r-0', blockIds: [], check: { tokens: 0, digest: 0x811c9dc5 }, waitMs: 5000, isRegistration: true,
      },
      ...(signal !== undefined && { signal }),
    });

  it('holds the answer until the blocks are there', async () => {
    const p = await start('prefill');
    const { remote_port: port } = await coordinates(p);
    const opened = register(p, port);
    await prefill(p, 'another');
    await prefill(p);
    expect(json(await opened)).toEqual({ isOk: true, isGarbage: false });
    expect(p.stats().leases).toBe(2);
  });

  it('takes a connection that ends as a consumer that left', async () => {
    const p = await start('prefill');
    const { remote_port: port } = await coordinates(p);
    const leave = new AbortController();
    const lost = register(p, port, leave.signal).then(() => 'answered', () => 'left');
    // The registration is in when a second one, sent later, is.
    const second = register(p, port);
    await send({ url: `http://127.0.0.1:${String(port)}` }, '/kv', { body: { op: 'heartbeat', engineId: p.engineId, mode: 'nixl-push', key: 'none' } });
    leave.abort();
    expect(await lost).toBe('left');
    await prefill(p);
    expect((await second).status).toBe(200);
  });
});

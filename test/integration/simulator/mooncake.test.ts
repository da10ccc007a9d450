import { afterEach, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { COMPLETIONS, json, prompt, send, waitFor, type Answer } from './sim-client.ts';

/** Real time: long enough for what does arrive on a slow machine; tests that wait in vain wait as long. */
const TIMEOUT_MS = 1500;

const open: SimInstance[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((instance) => instance.close()));
});

async function start(role: 'prefill' | 'decode', options: Partial<SimInstanceOptions> = {}): Promise<SimInstance> {
  const instance = await startSimInstance({ role, speed: 100, transfer: 'mooncake', ...options });
  open.push(instance);
  return instance;
}

interface Worker {
  readonly engine_id: string;
  readonly worker_addr: Record<string, Record<string, string>>;
}

function bootstrapOf(p: SimInstance): { url: string } {
  if (p.bootstrapUrl === undefined) throw new Error('no bootstrap server');
  return { url: p.bootstrapUrl };
}

/** The table, when all ranks are in. */
async function query(p: SimInstance, ranks = 1): Promise<Record<string, Worker>> {
  for (let attempt = 0; attempt < 1000; attempt += 1) {
    const table = json(await send(bootstrapOf(p), '/query'));
    if (Object.keys(table).length === ranks) return table;
  }
  throw new Error('the ranks did not register');
}

const BODY = { prompt: prompt(57) };

interface LegOptions {
  readonly id?: string | undefined;
  readonly rank?: string;
  readonly body?: object;
  readonly signal?: AbortSignal;
}

function prefill(p: SimInstance, { id = 'xfer-1', rank = '0', body = {}, signal }: LegOptions = {}): Promise<Answer> {
  const params = { do_remote_decode: true, do_remote_prefill: false, transfer_id: id };
  return send(p, COMPLETIONS, {
    headers: { 'x-data-parallel-rank': rank },
    body: { ...BODY, max_tokens: 1, ignore_eos: true, kv_transfer_params: params, ...body },
    ...(signal !== undefined && { signal }),
  });
}

function decode(d: SimInstance, reference: object, { id = 'xfer-1', body = {}, signal }: LegOptions = {}): Promise<Answer> {
  const params = { do_remote_decode: false, do_remote_prefill: true, transfer_id: id, ...reference };
  return send(d, COMPLETIONS, {
    body: { ...BODY, max_tokens: 5, ignore_eos: true, kv_transfer_params: params, ...body },
    ...(signal !== undefined && { signal }),
  });
}

async function referenceTo(p: SimInstance, rank = 0, ranks = 1): Promise<object> {
  return { remote_bootstrap_addr: p.bootstrapUrl, remote_engine_id: (await query(p, ranks))[String(rank)]?.engine_id };
}

const cached = (answer: Answer): number => json(answer).usage.prompt_tokens_details.cached_tokens;
const isFree = (instance: SimInstance): boolean => instance.stats().freeBlocks === instance.stats().blocks;

describe('Mooncake bootstrap server', () => {
  it('lists every rank with its worker, and runs on prefill instances only', async () => {
    const p = await start('prefill', { dpSize: 3 });
    const table = await query(p, 3);
    expect(Object.keys(table)).toEqual(['0', '1', '2']);
    const ports = Object.values(table).map(({ worker_addr: address }) => Number(/^tcp:\/\/127\.0\.0\.1:(\d+)$/u.exec(address['0']?.['0'] ?? '')?.[1]));
    expect(ports).toEqual([ports[0], (ports[0] ?? 0) + 1, (ports[0] ?? 0) + 2]);
    expect(Object.values(table).map(({ engine_id: id }) => id)).toEqual([0, 1, 2].map((rank) => `${p.engineId ?? ''}_dp${rank}`));
    expect((await start('decode')).bootstrapUrl).toBeUndefined();
    expect((await start('prefill', { transfer: 'nixl' })).bootstrapUrl).toBeUndefined();
  });

  it('refuses a worker of another engine and a worker that is there already; takes a further one', async () => {
    const p = await start('prefill');
    await query(p);
    const worker = { engine_id: p.engineId, dp_rank: 0, tp_rank: 0, pp_rank: 0, addr: 'tcp://h:1' };
    const register = (body: object): Promise<Answer> => send(bootstrapOf(p), '/register', { body });
    const foreign = await register({ ...worker, engine_id: 'restarted', tp_rank: 1 });
    expect([foreign.status, json(foreign).detail]).toEqual([400, `Engine ID mismatch for dp_rank=0: expected ${p.engineId ?? ''}, got restarted`]);
    expect((await register(worker)).status).toBe(400);
    expect((await register({ ...worker, dp_rank: 'x' })).status).toBe(400);
    const added = await register({ ...worker, tp_rank: 1 });
    expect([added.status, json(added)]).toEqual([200, { status: 'ok' }]);
    expect((await query(p))['0']?.worker_addr['1']).toEqual({ 0: 'tcp://h:1' });
    expect((await send(bootstrapOf(p), '/nothing')).status).toBe(404);
  });

  it('comes back at the same address with a new engine id after a restart', async () => {
    const p = await start('prefill');
    const [before, url] = [(await query(p))['0']?.engine_id, p.bootstrapUrl];
    await p.restart();
    expect(p.bootstrapUrl).toBe(url);
    const after = (await query(p))['0']?.engine_id;
    expect(after).toBe(p.engineId);
    expect(after).not.toBe(before);
  });
});

describe('Mooncake', () => {
  it.each<[string, (p: SimInstance, d: SimInstance, reference: object) => Promise<Promise<Answer>[]>]>([
    ['prefill', async (p, d, reference) => {
      const first = prefill(p);
      await waitFor('P keeps it', () => p.stats().leases === 1 && p.stats().pinnedBlocks === 4);
      return [first, decode(d, reference)];
    }],
    ['decode', async (p, d, reference) => {
      const first = decode(d, reference);
      await waitFor('D waits', () => d.stats().loading === 1);
      return [prefill(p), first];
    }],
  ])('legs side by side, %s first: D gets the KV, P is freed and says nothing', async (_name, run) => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const [prefilled, decoded] = await Promise.all(await run(p, d, await referenceTo(p)));
    if (prefilled === undefined || decoded === undefined) throw new Error('two legs');
    expect(json(prefilled)).toMatchObject({ kv_transfer_params: null, choices: [{ finish_reason: 'length' }] });
    expect(cached(decoded)).toBe(56);
    expect([p, d].map((instance) => instance.stats())).toMatchObject([{ leases: 0, pinnedBlocks: 0 }, { corruptedLoads: 0, loading: 0 }]);
    expect([p, d].every(isFree)).toBe(true);
  });

  it('addresses the rank by its engine id', async () => {
    const [p, d] = [await start('prefill', { dpSize: 2 }), await start('decode', { transferTimeoutMs: TIMEOUT_MS })];
    const [right, wrong] = [await referenceTo(p, 1, 2), await referenceTo(p, 0, 2)];
    await prefill(p, { rank: '1' });
    expect((await decode(d, wrong)).status).toBe(500);
    expect(p.stats().leases).toBe(1);
    expect(cached(await decode(d, right))).toBe(56);
  });

  it.each<[string, object, string | undefined]>([
    ['ended by a stop token', { ignore_eos: false, stop_token_ids: Array.from({ length: 4000 }, (_, index) => index) }, 'stop'],
    ['had no transfer id', { kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false } }, 'length'],
  ])('nothing is kept of a prefill that %s, and D waits in vain', async (_name, body, reason) => {
    const p = await start('prefill');
    const d = await start('decode', { transferTimeoutMs: 80 });
    const answer = json(await prefill(p, { body }));
    expect(answer).toMatchObject({ kv_transfer_params: null, choices: [{ finish_reason: reason }] });
    expect(p.stats()).toMatchObject({ leases: 0, pinnedBlocks: 0 });
    expect((await decode(d, await referenceTo(p))).status).toBe(500);
    expect(isFree(d)).toBe(true);
  });

  it.each<[string, (p: SimInstance) => object | Promise<object>]>([
    ['an engine id from before a restart', async (p) => {
      const reference = await referenceTo(p);
      await p.restart();
      await query(p);
      return reference;
    }],
    ['a bootstrap server that nobody runs', (p) => ({ remote_bootstrap_addr: 'http://127.0.0.1:1', remote_engine_id: p.engineId })],
  ])('%s hangs until D leaves', async (_name, spoil) => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const reference = await spoil(p);
    const leave = new AbortController();
    decode(d, reference, { signal: leave.signal }).catch(() => {});
    await waitFor('D waits', () => d.stats().loading === 1);
    await prefill(p);
    expect((await send(d, COMPLETIONS, { body: { ...BODY, max_tokens: 2 } })).status).toBe(200);
    expect(d.stats().loading).toBe(1);
    leave.abort();
    await waitFor('D is free', () => isFree(d));
    // P still holds what nobody fetched, until its own timeout.
    expect(p.stats().leases).toBe(1);
  });

  it('P lets go of what nobody fetched after the timeout', async () => {
    const p = await start('prefill', { transferTimeoutMs: TIMEOUT_MS });
    await prefill(p);
    expect(p.stats().pinnedBlocks).toBe(4);
    await waitFor('P is free', () => isFree(p));
    expect(p.stats().leases).toBe(0);
  });

  it('a P that dies while D waits does not wake D', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const leave = new AbortController();
    const waiting = decode(d, await referenceTo(p), { signal: leave.signal }).then(() => 'answered', () => 'left');
    await waitFor('D waits', () => d.stats().loading === 1);
    await p.restart();
    expect((await prefill(p)).status).toBe(200);
    expect(d.stats().loading).toBe(1);
    leave.abort();
    expect(await waiting).toBe('left');
    await waitFor('D is free', () => isFree(d));
  });

  it('a prefill that is aborted keeps nothing, and D does not learn of it', async () => {
    const [p, d] = [await start('prefill', { speed: 1, timing: { prefillBaseMs: 60_000 } }), await start('decode')];
    const [leaveP, leaveD] = [new AbortController(), new AbortController()];
    decode(d, await referenceTo(p), { signal: leaveD.signal }).catch(() => {});
    prefill(p, { signal: leaveP.signal }).catch(() => {});
    await waitFor('both are under way', () => d.stats().loading === 1 && p.stats().running === 1);
    leaveP.abort();
    await waitFor('P is free', () => isFree(p));
    expect([p.stats().leases, d.stats().loading]).toEqual([0, 1]);
    leaveD.abort();
    await waitFor('D is free', () => isFree(d));
    expect(d.stats()).toMatchObject({ loading: 0, aborted: 1 });
  });

  it('an incomplete reference waits without end, and a transfer id used twice waits for a second KV', async () => {
    const [p, d] = [await start('prefill'), await start('decode', { transferTimeoutMs: TIMEOUT_MS })];
    const reference = await referenceTo(p);
    await prefill(p);
    expect((await decode(d, reference)).status).toBe(200);
    expect((await decode(d, reference)).status).toBe(500);
    const leave = new AbortController();
    decode(d, { ...reference, remote_engine_id: null }, { signal: leave.signal }).catch(() => {});
    await waitFor('D waits', () => d.stats().loading === 1);
    leave.abort();
    await waitFor('D is free', () => isFree(d));
  });

  it('strict roles: a producer asked to load dies, and so does a consumer asked to keep', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    expect((await decode(p, await referenceTo(p))).status).toBe(500);
    expect(p.death).toBe('do_remote_prefill on a kv_producer');
    expect((await prefill(d)).status).toBe(500);
    expect(d.death).toBe('do_remote_decode on a kv_consumer');
  });

  it('KV of another prompt under the right transfer id is copied all the same', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const reference = await referenceTo(p);
    await prefill(p, { body: { prompt: prompt(57, 'white') } });
    expect(json(await decode(d, reference)).choices[0].text).toBe('!!!!!');
    expect(d.stats().corruptedLoads).toBe(1);
  });

  it('says in /server_info what it is, and has no NIXL metrics', async () => {
    const p = await start('prefill');
    const info = json(await send(p, '/server_info?config_format=json'));
    expect(info.vllm_config.kv_transfer_config).toMatchObject({ kv_connector: 'MooncakeConnector', kv_role: 'kv_producer', engine_id: p.engineId });
    expect(`http://127.0.0.1:${String(info.vllm_env.VLLM_MOONCAKE_BOOTSTRAP_PORT)}`).toBe(p.bootstrapUrl);
    expect((await send(p, '/metrics')).text).not.toContain('vllm:nixl_');
  });
});

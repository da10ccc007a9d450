import { readFileSync } from 'node:fs';
import { decode as unpack, encode } from '@msgpack/msgpack';
import { afterEach, describe, expect, it } from 'vitest';
import { Router } from 'zeromq';
import { startSimInstance, type SimInstance, type SimInstanceOptions, type SimMoriioOptions } from '#engine/simulator/sim-instance.ts';
import { parseZmqAddress } from '#engine/simulator/transfer/moriio-address.ts';
import { registrationMessage } from '#engine/simulator/transfer/moriio-registration.ts';
import { COMPLETIONS, json, prompt, send, waitFor, type Answer } from './sim-client.ts';

/** Real time: long enough for what does arrive on a slow machine; tests that wait in vain wait as long. */
const TIMEOUT_MS = 1500;

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const resource of open.splice(0).reverse()) await resource.close();
});

async function start(role: 'prefill' | 'decode', moriio: SimMoriioOptions = {}, options: Partial<SimInstanceOptions> = {}): Promise<SimInstance> {
  const instance = await startSimInstance({ role, speed: 100, transfer: 'moriio', moriio, ...options });
  open.push(instance);
  return instance;
}

const HEX = '0123456789abcdef0123456789abcdef';
const requestId = (p: SimInstance, d: SimInstance): string => `___prefill_addr_${p.zmqAddress ?? ''}___decode_addr_${d.zmqAddress ?? ''}_${HEX}`;
const BODY = { prompt: prompt(57) };

interface LegOptions {
  readonly id?: string;
  readonly params?: object;
  readonly rank?: string;
  readonly body?: object;
  readonly signal?: AbortSignal;
}

function leg(instance: SimInstance, { id = 'plain', params = {}, rank, body = {}, signal }: LegOptions): Promise<Answer> {
  return send(instance, COMPLETIONS, {
    headers: { 'x-request-id': id, ...(rank !== undefined && { 'x-data-parallel-rank': rank }) },
    body: { ...BODY, max_tokens: 1, ignore_eos: true, kv_transfer_params: params, ...body },
    ...(signal !== undefined && { signal }),
  });
}

const KEEP = { do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null, remote_block_ids: null, remote_dp_size: 1, remote_tp_size: 1 };
const LOAD = { do_remote_decode: false, do_remote_prefill: true, remote_engine_id: null, remote_block_ids: null, remote_dp_size: 1, remote_tp_size: 1 };
const cached = (answer: Answer): number => json(answer).usage.prompt_tokens_details.cached_tokens;
const isFree = (instance: SimInstance): boolean => instance.stats().freeBlocks === instance.stats().blocks;

interface Golden {
  readonly name: string;
  readonly schema: string;
  readonly payload_hex: string;
  readonly decoded: Readonly<Record<string, unknown>>;
}

function golden(): readonly Golden[] {
  return JSON.parse(readFileSync(new URL('../../fixtures/golden/moriio.json', import.meta.url), 'utf8')) as Golden[];
}

/** The other end of the registrations. */
async function router(): Promise<{ readonly address: string; readonly messages: { identity: Buffer; map: Record<string, unknown> }[] }> {
  const socket = new Router({ linger: 0 });
  await socket.bind('tcp://127.0.0.1:*');
  open.push(socket);
  const messages: { identity: Buffer; map: Record<string, unknown> }[] = [];
  const pump = async (): Promise<void> => {
    for await (const frames of socket) {
      const [identity, payload] = frames;
      if (identity === undefined || payload === undefined || frames.length !== 2) throw new Error(`${frames.length} frames`);
      messages.push({ identity, map: unpack(payload) as Record<string, unknown> });
    }
  };
  void pump();
  return { address: (socket.lastEndpoint ?? '').replace('tcp://', ''), messages };
}

describe('MoRIIO registration', () => {
  it('encodes what real engines encode, byte for byte', () => {
    const vectors = golden().filter(({ name }) => /^(v1-register|v1b-register|v2-typed|head)\//u.test(name));
    expect(vectors.length).toBeGreaterThan(8);
    for (const { name, payload_hex: hex, decoded } of vectors) {
      const isOld = decoded['type'] === 'register';
      const url = isOld ? new URL(String(decoded['request_address'])) : undefined;
      const zmq = isOld
        ? { host: '', handshakePort: Number(decoded['handshake_port']), notifyPort: Number(decoded['notify_port']) }
        : parseZmqAddress(String(decoded['zmq_address']));
      if (zmq === undefined) throw new Error(name);
      const message = registrationMessage(
        {
          type: (isOld ? decoded['role'] : decoded['type']) as 'P' | 'D',
          httpAddress: url?.host ?? String(decoded['http_address']),
          zmq,
          dpSize: Number(decoded['dp_size']),
          options: {
            schema: !isOld ? 'v2' : url?.pathname === '/v1' ? 'v1b' : 'v1',
            mode: decoded['transfer_mode'] as 'READ' | 'WRITE',
          },
        },
        Number(decoded['index'] ?? 1),
      );
      // The engine's tensor-parallel size is not simulated.
      const encoded = Buffer.from(encode({ ...message, tp_size: decoded['tp_size'] })).toString('hex');
      expect({ name, encoded }).toEqual({ name, encoded: hex });
    }
  });

  it('says who and where it is from an anonymous DEALER, again and again', async () => {
    const proxy = await router();
    const p = await start('prefill', { proxy: proxy.address, mode: 'READ', pingMs: 20 }, { dpSize: 2 });
    await waitFor('three pings', () => proxy.messages.length >= 3);
    const [first] = proxy.messages;
    expect(first?.map).toEqual({
      type: 'P',
      http_address: new URL(p.url).host,
      zmq_address: p.zmqAddress,
      dp_size: 2,
      tp_size: 1,
      transfer_mode: 'READ',
    });
    expect(p.zmqAddress).toMatch(/^host:127\.0\.0\.1,handshake:\d+,notify:\d+$/u);
    expect(first?.identity.length).toBe(5);
    expect(new Set(proxy.messages.map(({ identity }) => identity.toString('hex'))).size).toBe(1);
  });

  it.each([['v1', '/v1/completions'], ['v1b', '/v1']] as const)('%s: the older map, with a counter in words', async (schema, path) => {
    const proxy = await router();
    const d = await start('decode', { proxy: proxy.address, schema, pingMs: 20 });
    await waitFor('two pings', () => proxy.messages.length >= 2);
    expect(proxy.messages.slice(0, 2).map(({ map }) => map['index'])).toEqual(['1', '2']);
    const zmq = parseZmqAddress(d.zmqAddress ?? '');
    expect(proxy.messages[0]?.map).toEqual({
      type: 'register', role: 'D', index: '1', request_address: `${d.url}${path}`,
      handshake_port: zmq?.handshakePort, notify_port: zmq?.notifyPort, dp_size: 1, tp_size: 1, transfer_mode: 'WRITE',
    });
  });

  it('is silent while its process is gone, and speaks again after a restart', async () => {
    const proxy = await router();
    const d = await start('decode', { proxy: proxy.address, pingMs: 10 });
    await waitFor('a ping', () => proxy.messages.length >= 1);
    await d.setFault('refuse');
    // A second DEALER tells the time; the ROUTER takes messages of both in turn.
    const clock = await start('prefill', { proxy: proxy.address, pingMs: 10 });
    const ofClock = (): number => proxy.messages.filter(({ map }) => map['http_address'] === new URL(clock.url).host).length;
    await waitFor('what was under way', () => ofClock() >= 50);
    const before = proxy.messages.length - ofClock();
    await waitFor('the clock', () => ofClock() >= 100);
    expect(proxy.messages.length - ofClock()).toBe(before);
    await d.setFault('none');
    await waitFor('it is back', () => proxy.messages.length - ofClock() > before);
  });
});

describe('MoRIIO READ', () => {
  const READ = { mode: 'READ' } as const;

  it('P answers where its blocks are, and D reads them', async () => {
    const [p, d] = [await start('prefill', READ), await start('decode', READ)];
    const id = requestId(p, d);
    const answer = json(await leg(p, { id, params: { ...KEEP, transfer_id: 'tx-1' } }));
    const zmq = parseZmqAddress(p.zmqAddress ?? '');
    expect(answer.kv_transfer_params).toEqual({
      do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [1, 2, 3, 4], remote_engine_id: `127.0.0.1:${zmq?.handshakePort ?? 0}`,
      remote_host: '127.0.0.1', remote_handshake_port: zmq?.handshakePort, remote_notify_port: zmq?.notifyPort, remote_dp_rank: 0,
      remote_dp_rank_override: true, remote_dp_size: 1, remote_dp_size_local: 1, tp_size: 1, transfer_id: 'tx-1',
    });
    expect(p.stats()).toMatchObject({ leases: 1, pinnedBlocks: 4 });
    const decoded = await leg(d, { id, params: answer.kv_transfer_params, body: { max_tokens: 5 } });
    expect(cached(decoded)).toBe(56);
    expect(p.stats()).toMatchObject({ leases: 0, pinnedBlocks: 0 });
    expect([p, d].every(isFree)).toBe(true);
    // Read once.
    expect((await leg(d, { id, params: answer.kv_transfer_params })).status).toBe(500);
  });

  it('without block ids D waits for ever', async () => {
    const [p, d] = [await start('prefill', READ), await start('decode', READ)];
    const leave = new AbortController();
    leg(d, { id: requestId(p, d), params: LOAD, signal: leave.signal }).catch(() => {});
    await waitFor('D waits', () => d.stats().loading === 1);
    leave.abort();
    await waitFor('D is free', () => isFree(d));
    expect(d.stats()).toMatchObject({ aborted: 1, loading: 0 });
  });

  it('keeps blocks for the defer timeout only, and nothing of a request that ended by itself', async () => {
    const [p, d] = [await start('prefill', READ, { transferTimeoutMs: TIMEOUT_MS }), await start('decode', READ)];
    const id = requestId(p, d);
    await leg(p, { id, params: KEEP });
    expect(p.stats().leases).toBe(1);
    await waitFor('P lets go', () => isFree(p));
    const stopped = json(await leg(p, { id, params: KEEP, body: { ignore_eos: false, stop_token_ids: Array.from({ length: 4000 }, (_, index) => index) } }));
    expect(stopped).toMatchObject({ kv_transfer_params: null, choices: [{ finish_reason: 'stop' }] });
    expect(p.stats().leases).toBe(0);
  });
});

describe('MoRIIO WRITE', () => {
  it.each(['prefill', 'decode'])('legs side by side, %s first', async (first) => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const id = requestId(p, d);
    const keep = (): Promise<Answer> => leg(p, { id, params: { ...KEEP, transfer_id: 'tx-9' } });
    const load = (): Promise<Answer> => leg(d, { id, params: { ...LOAD, transfer_id: 'tx-9', remote_dp_rank: 0 }, body: { max_tokens: 5 } });
    const run = first === 'prefill' ? [keep, load] : [load, keep];
    const started = run[0]?.();
    await waitFor('the first is there', () => (first === 'prefill' ? p.stats().leases : d.stats().loading) === 1);
    const answers = await Promise.all([started, run[1]?.()]);
    const decoded = answers[first === 'prefill' ? 1 : 0];
    if (decoded === undefined) throw new Error('two legs');
    expect(cached(decoded)).toBe(56);
    await waitFor('both are free', () => [p, d].every(isFree));
    expect([p, d].map((instance) => instance.stats())).toMatchObject([{ leases: 0 }, { corruptedLoads: 0 }]);
  });

  it('finds peers by parameters when the request id says nothing; the id wins when both speak', async () => {
    const [p, d, other] = [await start('prefill'), await start('decode', {}, { transferTimeoutMs: TIMEOUT_MS }), await start('prefill')];
    const paramsTo = (instance: SimInstance): object => {
      const zmq = parseZmqAddress(instance.zmqAddress ?? '');
      return { remote_host: zmq?.host, remote_handshake_port: zmq?.handshakePort, remote_notify_port: zmq?.notifyPort };
    };
    await leg(p, { params: { ...KEEP, ...paramsTo(d), transfer_id: 'a' } });
    expect(cached(await leg(d, { params: { ...LOAD, ...paramsTo(p), transfer_id: 'a' } }))).toBe(56);
    const id = requestId(p, d);
    await leg(p, { id, params: { ...KEEP, transfer_id: 'b' } });
    expect(cached(await leg(d, { id, params: { ...LOAD, ...paramsTo(other), transfer_id: 'b' } }))).toBeGreaterThan(0);
    expect(p.stats().leases).toBe(0);
  });

  it.each([['prefill', KEEP], ['decode', LOAD]] as const)('%s raises when nothing says where the peer is', async (role, params) => {
    const instance = await start(role);
    expect((await leg(instance, { id: 'no-address', params })).status).toBe(500);
    expect((await send(instance, '/health')).status).toBe(200);
    expect(isFree(instance)).toBe(true);
  });

  it('matches by the request id when there is no transfer id', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const id = requestId(p, d);
    await leg(p, { id, params: KEEP });
    expect(cached(await leg(d, { id, params: LOAD }))).toBe(56);
  });

  it('waits on the rank it is told, and on rank 0 when it is told none', async () => {
    const [p, d] = [await start('prefill', {}, { dpSize: 2 }), await start('decode', {}, { transferTimeoutMs: TIMEOUT_MS })];
    const id = requestId(p, d);
    const answer = json(await leg(p, { id, rank: '1', params: { ...KEEP, transfer_id: 't' } }));
    expect(answer.kv_transfer_params).toMatchObject({ remote_dp_rank: 1, remote_dp_size: 2, remote_handshake_port: parseZmqAddress(p.zmqAddress ?? '')?.handshakePort });
    expect((await leg(d, { id, params: { ...LOAD, transfer_id: 't' } })).status).toBe(500);
    expect(p.stats().leases).toBe(1);
    expect(cached(await leg(d, { id, params: { ...LOAD, transfer_id: 't', remote_dp_rank: 1 } }))).toBe(56);
  });

  it('instances of different modes do not work together, and D waits until its timeout', async () => {
    const [p, d] = [await start('prefill', { mode: 'READ' }), await start('decode', {}, { transferTimeoutMs: 60 })];
    const id = requestId(p, d);
    await leg(p, { id, params: { ...KEEP, transfer_id: 't' } });
    expect((await leg(d, { id, params: { ...LOAD, transfer_id: 't' } })).status).toBe(500);
    expect(p.stats().leases).toBe(1);
  });

  it('a D that leaves while it waits is free at once, and P is freed by its own write', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const id = requestId(p, d);
    const leave = new AbortController();
    leg(d, { id, params: { ...LOAD, transfer_id: 't' }, signal: leave.signal }).catch(() => {});
    await waitFor('D waits', () => d.stats().loading === 1);
    leave.abort();
    await waitFor('D is free', () => isFree(d));
    await leg(p, { id, params: { ...KEEP, transfer_id: 't' } });
    expect(p.stats()).toMatchObject({ leases: 0, pinnedBlocks: 0 });
  });
});

describe('MoRIIO engines of the first generation', () => {
  const peerOf = (instance: SimInstance): Record<string, unknown> => {
    const zmq = parseZmqAddress(instance.zmqAddress ?? '');
    return { remote_host: zmq?.host, remote_port: 1, remote_handshake_port: zmq?.handshakePort, remote_notify_port: zmq?.notifyPort };
  };

  it('find each other by parameters alone', async () => {
    const [p, d] = [await start('prefill', { schema: 'v1' }), await start('decode', { schema: 'v1' })];
    await leg(p, { params: { ...KEEP, ...peerOf(d) } });
    expect(cached(await leg(d, { params: { ...LOAD, ...peerOf(p) } }))).toBe(56);
  });

  it.each(['remote_host', 'remote_port', 'remote_handshake_port', 'remote_notify_port', 'remote_engine_id', 'remote_block_ids', 'remote_dp_size', 'remote_tp_size'])(
    'raise without %s, whatever the request id says', async (field) => {
      const [p, d] = [await start('prefill', { schema: 'v1' }), await start('decode', { schema: 'v1' })];
      const { [field]: _dropped, ...params } = { ...KEEP, ...peerOf(d) } as Record<string, unknown>;
      expect((await leg(p, { id: requestId(p, d), params })).status).toBe(500);
      expect(p.stats().leases).toBe(0);
    },
  );

  it('read transfer_id too, later', async () => {
    const p = await start('prefill', { schema: 'v1b' });
    const params = { ...KEEP, ...peerOf(p) };
    expect((await leg(p, { params })).status).toBe(500);
    expect((await leg(p, { params: { ...params, transfer_id: 't' } })).status).toBe(200);
  });
});

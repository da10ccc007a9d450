import { afterEach, describe, expect, it } from 'vitest';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import { CHAT, json, prompt, send, sseObjects, waitFor, type Answer } from './sim-client.ts';

const open: SimInstance[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((instance) => instance.close()));
});

async function start(role: 'prefill' | 'decode', options: Partial<SimInstanceOptions> = {}): Promise<SimInstance> {
  const instance = await startSimInstance({ role, speed: 100, bidirectional: true, ...options });
  open.push(instance);
  return instance;
}

interface Message {
  readonly role: string;
  readonly content: string;
}

const KEEP = { do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null, remote_block_ids: null, remote_host: null, remote_port: null };
const FIRST: readonly Message[] = [{ role: 'user', content: prompt(100) }];

function ask(instance: SimInstance, messages: readonly Message[], body: object): Promise<Answer> {
  return send(instance, CHAT, { body: { messages, ...body } });
}

function prefill(p: SimInstance, messages: readonly Message[], params: object = KEEP): Promise<Answer> {
  return ask(p, messages, { max_completion_tokens: 1, kv_transfer_params: params });
}

function decode(d: SimInstance, messages: readonly Message[], params: object, extra: object = {}): Promise<Answer> {
  return ask(d, messages, { max_completion_tokens: 40, kv_transfer_params: params, ...extra });
}

const paramsOf = (answer: Answer): Record<string, unknown> => json(answer).kv_transfer_params;
const cachedOf = (answer: Answer): number => json(answer).usage.prompt_tokens_details.cached_tokens;
const textOf = (answer: Answer): string => json(answer).choices[0].message.content;
const isFree = (instance: SimInstance): boolean => instance.stats().freeBlocks === instance.stats().blocks;

/** One turn through both; what D said and handed back. */
async function turn(p: SimInstance, d: SimInstance, messages: readonly Message[], params: object = KEEP): Promise<{ text: string; params: Record<string, unknown>; total: number; prefillCached: number }> {
  const prefilled = await prefill(p, messages, params);
  const answer = await decode(d, messages, paramsOf(prefilled));
  return { text: textOf(answer), params: paramsOf(answer), total: json(answer).usage.total_tokens, prefillCached: cachedOf(prefilled) };
}

const follow = (text: string, question = 'And why?'): Message[] => [...FIRST, { role: 'assistant', content: text }, { role: 'user', content: question }];

describe('NIXL bidirectional', () => {
  it('D keeps its blocks and says where they are', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const first = await turn(p, d, FIRST);
    // The last token was said, not computed on.
    const tokens = first.total - 1;
    expect(first.params).toEqual({
      do_remote_prefill: false,
      do_remote_decode: true,
      remote_block_ids: [expect.objectContaining({ length: Math.ceil(tokens / 16) })],
      remote_engine_id: d.engineId,
      remote_request_id: expect.stringMatching(/^chatcmpl-[0-9a-f]+-[0-9a-f]{8}$/u),
      remote_host: '127.0.0.1',
      remote_port: expect.any(Number),
      tp_size: 1,
      remote_num_tokens: tokens,
      remote_blocks_expiry_time: expect.any(Number),
      transfer_mode: 'pull',
    });
    expect(d.stats()).toMatchObject({ leases: 1, pinnedBlocks: Math.ceil(tokens / 16) });
    expect(p.stats().leases).toBe(0);
  });

  it('P reuses them for the next turn, once: the text is the same as without', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const first = await turn(p, d, FIRST);
    // Another P, so that nothing is in its cache but what comes from D.
    const other = await start('prefill');
    const second = await turn(other, d, follow(first.text), first.params);
    expect(second.prefillCached).toBe(first.params['remote_num_tokens']);
    const alone = await start('decode');
    expect(second.text).toBe(textOf(await ask(alone, follow(first.text), { max_completion_tokens: 40 })));
    expect([p, other, d].map((instance) => instance.stats().corruptedLoads)).toEqual([0, 0, 0]);
    // The first turn's blocks went with the pull, the second turn's are kept.
    expect(d.stats().leases).toBe(1);
    const again = await prefill(await start('prefill'), follow(first.text), first.params);
    expect(again.status).toBe(500);
  });

  it('copies blindly: an edited history gives noise, which is counted', async () => {
    const [p, d] = [await start('prefill'), await start('decode')];
    const first = await turn(p, d, FIRST);
    const other = await start('prefill');
    const edited = await turn(other, d, follow('Something else was said here, by a person who edits histories'), first.params);
    expect(other.stats().corruptedLoads).toBe(1);
    expect(edited.text).toMatch(/^!+$/u);
  });

  it('computes instead when the gain is below the threshold, and D keeps holding', async () => {
    const d = await start('decode');
    const first = await turn(await start('prefill'), d, FIRST);
    const picky = await start('prefill', { recomputeThreshold: 1000 });
    expect(cachedOf(await prefill(picky, follow(first.text), first.params))).toBe(0);
    expect(d.stats().leases).toBe(1);
    // What is in P's own cache already is no gain.
    const warm = await start('prefill', { recomputeThreshold: 30 });
    await ask(warm, follow(first.text, 'Something else'), { max_completion_tokens: 1 });
    const answer = await prefill(warm, follow(first.text), first.params);
    expect(cachedOf(answer) % 16).toBe(0);
    expect(d.stats().leases).toBe(1);
  });

  it.each(['remote_block_ids', 'remote_engine_id', 'remote_request_id', 'remote_host', 'remote_port'])('computes without %s', async (field) => {
    const d = await start('decode');
    const first = await turn(await start('prefill'), d, FIRST);
    const answer = await prefill(await start('prefill'), follow(first.text), { ...first.params, [field]: null });
    expect([answer.status, cachedOf(answer)]).toEqual([200, 0]);
    expect(paramsOf(answer)).toMatchObject({ do_remote_prefill: true });
  });

  it('fails on blocks that D has let go of, and D lets go by itself', async () => {
    const [p, d] = [await start('prefill'), await start('decode', { decoderBlocksTtlMs: 60 })];
    const first = await turn(p, d, FIRST);
    await waitFor('D lets go', () => isFree(d));
    const answer = await prefill(await start('prefill'), follow(first.text), first.params);
    expect(answer.status).toBe(500);
    const lenient = await start('prefill', { kvLoadFailurePolicy: 'recompute' });
    expect(cachedOf(await prefill(lenient, follow(first.text), first.params))).toBe(0);
  });

  it.each([[false, 0], [true, 1]])('a stream pins the blocks too, and says so only on a patched engine (%s)', async (paramsInStream, times) => {
    const [p, d] = [await start('prefill'), await start('decode', { paramsInStream })];
    const streamed = await decode(d, FIRST, paramsOf(await prefill(p, FIRST)), { stream: true });
    const found = sseObjects(streamed.text).flatMap((chunk) => (chunk.kv_transfer_params === undefined ? [] : [chunk.kv_transfer_params.remote_engine_id]));
    expect(found).toEqual(Array.from({ length: times }, () => d.engineId));
    expect(d.stats().leases).toBe(1);
  });

  it('keeps nothing of requests without parameters, of aborted ones, and where it is not switched on', async () => {
    const p = await start('prefill');
    const d = await start('decode');
    await ask(d, FIRST, { max_completion_tokens: 3 });
    expect(d.stats().leases).toBe(0);
    const leave = new AbortController();
    const slow = await start('decode', { speed: 1, timing: { decodeStepMs: 100 } });
    const params = paramsOf(await prefill(p, FIRST));
    send(slow, CHAT, { body: { messages: FIRST, max_completion_tokens: 500, ignore_eos: true, kv_transfer_params: params }, signal: leave.signal }).catch(() => {});
    await waitFor('it runs', () => slow.stats().running === 1);
    leave.abort();
    await waitFor('it is gone', () => isFree(slow));
    expect(slow.stats()).toMatchObject({ leases: 0, pinnedBlocks: 0 });
    const plain = await start('decode', { bidirectional: false });
    const answer = await decode(plain, FIRST, paramsOf(await prefill(p, FIRST)));
    expect(paramsOf(answer)).toBeNull();
    expect(plain.stats().leases).toBe(0);
    const ignoring = await start('prefill', { bidirectional: false });
    const first = await turn(p, d, FIRST);
    expect(cachedOf(await prefill(ignoring, follow(first.text), first.params))).toBe(0);
    expect(d.stats().leases).toBe(1);
  });

  it('says in /server_info that it is', async () => {
    const d = await start('decode', { decoderBlocksTtlMs: 9000, recomputeThreshold: 128 });
    const config = json(await send(d, '/server_info?config_format=json')).vllm_config.kv_transfer_config;
    expect(config).toMatchObject({
      kv_connector: 'NixlConnector',
      kv_connector_extra_config: { bidirectional_kv_xfer: true, decoder_kv_blocks_ttl: 9, kv_recompute_threshold: 128, kv_lease_duration: 30 },
    });
  });
});

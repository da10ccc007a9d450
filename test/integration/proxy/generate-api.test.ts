/** /inference/v1/generate through the connectors, and the encode stage, over simulated engines. */
import { describe, expect, test } from 'vitest';
import { createSharedStore } from '#engine/simulator/shared-store.ts';
import { post, until } from './harness.ts';
import { SIM_MODEL, startSimFleet, type SimFleet } from './sim-fleet.ts';

const PATH = '/inference/v1/generate';
const TOKENS = Array.from({ length: 80 }, (_, index) => 300 + (index % 50));
const BODY = { model: SIM_MODEL, token_ids: TOKENS, sampling_params: { max_tokens: 6, min_tokens: 6, seed: 2, stop: ['zzz'] } };

type Json = Readonly<Record<string, unknown>>;

interface Generated {
  readonly request_id: string;
  readonly choices: readonly { readonly index: number; readonly token_ids: readonly number[]; readonly finish_reason: string }[];
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number };
}

describe.each(['plain', 'nixl', 'aggregated'] as const)('%s', (connector) => {
  const start = (): Promise<SimFleet> =>
    startSimFleet(connector === 'aggregated' ? ['both'] : ['prefill', 'decode'], connector, connector === 'plain' ? { sim: { transfer: 'none', sharedStore: createSharedStore() } } : {});

  test('whole and streamed answers have the same tokens; usage and finish reason are read', async () => {
    await using fleet = await start();
    const answer = await post(fleet.origin + PATH, BODY, { 'x-request-id': 'mine' });
    expect(answer.status).toBe(200);
    const whole = (await answer.json()) as Generated;
    expect(whole.request_id).toBe('generate-tokens-mine');
    expect(whole.choices[0]?.token_ids).toHaveLength(6);
    expect(whole.usage).toMatchObject({ prompt_tokens: 80, completion_tokens: 6 });
    await until(() => fleet.tracer.last.state);
    const expected = connector === 'aggregated' ? ['decode'] : ['prefill', 'decode'];
    expect(fleet.tracer.last.legs.map(({ init, outcome }) => [init.kind, outcome])).toEqual(expected.map((kind) => [kind, 'ok']));
    expect(fleet.tracer.last.legs.at(-1)?.facts).toMatchObject({ finishReason: 'length', usage: { promptTokens: 80, completionTokens: 6 } });
    expect(fleet.tracer.last.verdicts).toEqual([]);

    const stream = await post(fleet.origin + PATH, { ...BODY, stream: true, stream_options: { include_usage: true } });
    const events = (await stream.text()).split('\n\n').filter((event) => event !== '');
    expect(events.at(-1)).toBe('data: [DONE]');
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event.slice(6)) as Generated);
    expect(chunks.flatMap(({ choices }) => choices.flatMap(({ token_ids: ids }) => ids))).toEqual(whole.choices[0]?.token_ids);
    await until(() => fleet.tracer.last.state);
    expect(fleet.tracer.last).toMatchObject({ state: 'ok', events: events.length, parsed: { isStream: true, model: SIM_MODEL } });
    expect(fleet.tracer.last.legs.at(-1)?.facts).toMatchObject({ finishReason: 'length', usage: { completionTokens: 6 } });
  });

  test('an engine\'s refusal reaches the client', async () => {
    await using fleet = await start();
    const answer = await post(fleet.origin + PATH, { model: 'nope', token_ids: TOKENS, sampling_params: {} });
    expect(answer.status).toBe(404);
    expect(((await answer.json()) as { error: { message: string } }).error.message).toContain('nope');
  });
});

test('nixl: decode pulls what prefill computed, and n > 1 has no prefill leg', async () => {
  await using fleet = await startSimFleet(['prefill', 'decode'], 'nixl');
  expect((await post(fleet.origin + PATH, BODY)).status).toBe(200);
  await until(() => fleet.tracer.last.state);
  const [prefill, decode] = fleet.tracer.last.legs;
  const sent = JSON.parse(String(decode?.init.body)) as { sampling_params: Json; kv_transfer_params: Json };
  expect(sent.sampling_params).toEqual({ ...BODY.sampling_params, extra_args: { kv_transfer_params: sent.kv_transfer_params } });
  expect(sent.kv_transfer_params).toEqual(JSON.parse(String(prefill?.facts?.kvTransferParams)));
  expect(decode?.facts?.usage?.cachedTokens).toBeGreaterThan(60);
  await until(() => fleet.sim(0).stats().pinnedBlocks === 0);

  const two = await post(fleet.origin + PATH, { ...BODY, sampling_params: { ...BODY.sampling_params, n: 2 } });
  expect(((await two.json()) as Generated).choices).toHaveLength(2);
  expect(fleet.tracer.last.legs.map(({ init }) => init.kind)).toEqual(['decode']);
  expect(fleet.tracer.last.verdicts.map(({ code }) => code)).toEqual(['handoff_not_possible']);
});

describe('the encode stage', () => {
  const image = (url: string): object => ({ type: 'image_url', image_url: { url } });
  const chat = {
    model: SIM_MODEL,
    messages: [{ role: 'user', content: [image('file:///a.png'), { type: 'text', text: 'compare' }, image('https://h/b.png')] }],
    max_tokens: 5,
  };

  test.each([
    ['nixl', ['encode', 'prefill', 'decode'], ['encode', 'encode', 'prefill', 'decode']],
    ['aggregated', ['encode', 'both'], ['encode', 'encode', 'decode']],
    ['render', ['encode', 'encode', 'prefill', 'decode'], ['encode', 'encode', 'render', 'prefill', 'decode', 'render']],
  ] as const)('before %s', async (connector, roles, legs) => {
    await using fleet = await startSimFleet(roles, connector);
    const answer = await post(`${fleet.origin}/v1/chat/completions`, chat);
    expect([answer.status, fleet.tracer.last.error]).toEqual([200, undefined]);
    expect(fleet.tracer.last.legs.map(({ init, outcome }) => [init.kind, outcome])).toEqual(legs.map((kind) => [kind, 'ok']));
    expect(fleet.tracer.last.verdicts).toEqual([]);
    await until(() => fleet.instances.every(({ inFlight }) => inFlight === 0));
  });
});

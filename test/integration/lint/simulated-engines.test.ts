/** What the verdicts say about engines, tried on simulated ones: the leg that is held back would have done it. */
import { expect, test } from 'vitest';
import { post, until } from '../proxy/harness.ts';
import { SIM_MODEL, startSimFleet } from '../proxy/sim-fleet.ts';

const BODY = { model: SIM_MODEL, messages: [{ role: 'user', content: 'Tell me about the sea, at some length, please.' }], max_tokens: 4 };

test('an engine lives on when the leg is held back, and dies of it otherwise', async () => {
  await using fleet = await startSimFleet(['prefill', 'decode'], 'plain');
  await until(() => fleet.instances.every(({ transfer }) => transfer?.kvConnector === 'NixlConnector'));
  const body = { ...BODY, kv_transfer_params: { do_remote_prefill: true } };

  const held = await post(`${fleet.origin}/v1/chat/completions`, body);
  expect(held.status).toBe(502);
  expect(((await held.json()) as { error: { code: string } }).error.code).toBe('blocked_by_linter');
  expect(fleet.sim(0).received.filter(({ method }) => method === 'POST')).toEqual([]);
  expect(fleet.sim(0).death).toBeUndefined();
  expect(fleet.tracer.last.verdicts.find(({ isBlocked }) => isBlocked === true)).toMatchObject({ code: 'pull_without_blocks', effect: 'kills', instance: fleet.instances[0]?.id });

  fleet.proxy.setProtocol({ blockFatal: false });
  const sent = await post(`${fleet.origin}/v1/chat/completions`, body);
  expect(sent.status).toBeGreaterThanOrEqual(500);
  expect(await until(() => fleet.sim(0).death)).toContain('num_external_tokens');
});

test('requests go on as before after one was held back', async () => {
  await using fleet = await startSimFleet(['prefill', 'decode'], 'plain');
  await until(() => fleet.instances.every(({ transfer }) => transfer?.kvConnector !== undefined));
  expect((await post(`${fleet.origin}/v1/chat/completions`, { ...BODY, kv_transfer_params: { do_remote_prefill: true } })).status).toBe(502);
  expect((await post(`${fleet.origin}/v1/chat/completions`, BODY)).status).toBe(200);
  await until(() => fleet.instances.every(({ inFlight }) => inFlight === 0));
});

/** MoRIIO over real sockets: READ and WRITE requests against scripted engines that have registered. */
import { expect, test } from 'vitest';
import { CHAT_BODY, post, until } from './harness.ts';
import { ANSWER, READ_PARAMS, ask, codes, only, paramsOf, prefillAnswer, startCluster, startGate } from './moriio-cluster.ts';
import { v1 } from './moriio-engine.ts';
import { events, json } from './scripted-upstream.ts';

const HEX = '[0-9a-f]{32}';
const P_ZMQ = 'host:10.0.0.1,handshake:6301,notify:61005';
const D_ZMQ = 'host:10.0.0.1,handshake:6401,notify:62005';

test('WRITE: both legs carry one request id with both addresses, one transfer id, and what each needs of its peer', async () => {
  await using cluster = await startCluster({ tp: 2 });
  const response = await ask(cluster);
  expect(response.headers.get('x-request-id')).toBe('client-1');
  expect(await response.text()).toBe(ANSWER.join(''));
  const p = only(cluster.prefill);
  const d = only(cluster.decode);
  expect(p.headers['x-request-id']).toMatch(new RegExp(`^___prefill_addr_${P_ZMQ}___decode_addr_${D_ZMQ}_${HEX}$`));
  expect(d.headers['x-request-id']).toBe(p.headers['x-request-id']);
  const transferId: unknown = paramsOf(p)['transfer_id'];
  expect(transferId).toMatch(/^tx-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/);
  expect(p.json).toMatchObject({ stream: false, max_tokens: 1, ignore_eos: true });
  expect(paramsOf(p)).toEqual({
    do_remote_decode: true, do_remote_prefill: false, remote_engine_id: null, remote_block_ids: null, transfer_id: transferId, remote_dp_size: 1, remote_tp_size: 2,
  });
  expect(paramsOf(d)).toEqual({
    do_remote_prefill: true, do_remote_decode: false, remote_engine_id: null, remote_block_ids: null, transfer_id: transferId, remote_dp_size: 1, remote_tp_size: 2, remote_dp_rank: 0,
  });
  await until(() => cluster.harness.tracer.last.state);
  expect(cluster.harness.tracer.last).toMatchObject({ state: 'ok', verdicts: [], retries: 0 });
});

test('WRITE is concurrent: decode is asked while prefill computes', async () => {
  await using cluster = await startCluster();
  const gate = startGate();
  cluster.prefill.script = async (res, request, index) => {
    await gate.passed;
    await prefillAnswer()(res, request, index);
  };
  cluster.decode.script = async (res, request, index) => {
    gate.open();
    await events(ANSWER)(res, request, index);
  };
  expect(await (await ask(cluster)).text()).toContain('[DONE]');
});

test('READ is serial: decode gets what prefill answered byte for byte, completed', async () => {
  await using cluster = await startCluster({ mode: 'READ' });
  expect(await (await ask(cluster)).text()).toBe(ANSWER.join(''));
  const d = only(cluster.decode);
  const transferId = String(paramsOf(only(cluster.prefill))['transfer_id']);
  const completed = `${READ_PARAMS.slice(0, -1)},"transfer_id":"${transferId}","remote_tp_size":1,"remote_dp_rank":0}`;
  expect(d.body.toString()).toContain(`"kv_transfer_params":${completed}`);
  expect(d.headers['x-request-id']).toBe(only(cluster.prefill).headers['x-request-id']);
  expect(cluster.harness.tracer.last.verdicts).toEqual([]);
});

test.each([
  ['max_tokens', { max_tokens: 8 }],
  ['max_completion_tokens', { max_completion_tokens: 8, max_tokens: undefined }],
  ['neither', { max_tokens: undefined }],
])('the token cap reaches decode as the client wrote it: %s', async (_name, caps) => {
  await using cluster = await startCluster({ mode: 'READ' });
  await (await ask(cluster, caps)).text();
  const { max_tokens, max_completion_tokens } = only(cluster.decode).json;
  expect({ max_tokens, max_completion_tokens }).toEqual(caps);
  expect(only(cluster.prefill).json['max_completion_tokens'] ?? only(cluster.prefill).json['max_tokens']).toBe(1);
});

test.each(['READ', 'WRITE'] as const)('v1 engines, %s: the parameters name the peer, and the request id stays the client\'s', async (mode) => {
  await using cluster = await startCluster({ mode, message: v1 });
  if (mode === 'READ') cluster.prefill.script = prefillAnswer('{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"e","remote_block_ids":[7]}');
  await (await ask(cluster)).text();
  const p = only(cluster.prefill);
  const d = only(cluster.decode);
  expect([p.headers['x-request-id'], d.headers['x-request-id']]).toEqual(['client-1', 'client-1']);
  expect(paramsOf(p)).toMatchObject({ remote_host: '127.0.0.1', remote_port: cluster.decode.port, remote_handshake_port: 6401, remote_notify_port: 62_005, remote_engine_id: null, remote_block_ids: null });
  expect(paramsOf(d)).toEqual({
    do_remote_prefill: true, do_remote_decode: false, transfer_id: paramsOf(p)['transfer_id'], remote_dp_size: 1, remote_tp_size: 1, remote_dp_rank: 0,
    remote_engine_id: mode === 'READ' ? 'e' : null, remote_block_ids: mode === 'READ' ? [7] : null,
    remote_host: '127.0.0.1', remote_port: cluster.prefill.port, remote_handshake_port: 6301, remote_notify_port: 61_005,
  });
});

test('ranks: every slot of prefill is used and named to decode, which keeps ranks of its own', async () => {
  await using cluster = await startCluster({ prefillDp: 3, decodeDp: 2 });
  for (let request = 0; request < 6; request++) await (await ask(cluster)).text();
  const prefillRanks = cluster.prefill.received.map(({ headers }) => headers['x-data-parallel-rank']);
  expect(prefillRanks).toEqual(['0', '1', '2', '0', '1', '2']);
  expect(cluster.decode.received.map((request) => String(paramsOf(request)['remote_dp_rank']))).toEqual(prefillRanks);
  expect(cluster.decode.received.map(({ headers }) => headers['x-data-parallel-rank'])).toEqual(['0', '1', '0', '1', '0', '1']);
  expect(cluster.decode.received.every((request) => paramsOf(request)['remote_dp_size'] === 3)).toBe(true);
  expect(cluster.prefill.received.every((request) => paramsOf(request)['remote_dp_size'] === 2)).toBe(true);
});

test('a rank that the client pins is prefill\'s; decode gets it only when it has as many', async () => {
  await using cluster = await startCluster({ prefillDp: 4, decodeDp: 2 });
  for (const rank of ['3', '1', 'x']) await (await ask(cluster, {}, { 'x-data-parallel-rank': rank })).text();
  expect(cluster.prefill.received.map(({ headers }) => headers['x-data-parallel-rank'])).toEqual(['3', '1', '0']);
  expect(cluster.decode.received.map((request) => paramsOf(request)['remote_dp_rank'])).toEqual([3, 1, 0]);
  const [first, second, third] = cluster.decode.received.map(({ headers }) => headers['x-data-parallel-rank']);
  expect(['0', '1']).toContain(first);
  expect(second).toBe('1');
  expect(['0', '1']).toContain(third);
});

test('decode with one rank never gets prefill\'s', async () => {
  await using cluster = await startCluster({ prefillDp: 4 });
  await (await ask(cluster, {}, { 'x-data-parallel-rank': '2' })).text();
  expect(only(cluster.prefill).headers['x-data-parallel-rank']).toBe('2');
  expect(only(cluster.decode).headers['x-data-parallel-rank']).toBe('0');
  await (await ask(cluster)).text();
  expect(cluster.decode.received[1]?.headers['x-data-parallel-rank']).toBeUndefined();
});

test('WRITE: a prefill that refuses cancels decode, and its words reach the client', async () => {
  await using cluster = await startCluster();
  cluster.decode.script = () => undefined;
  cluster.prefill.script = async (res, request, index) => {
    await until(() => cluster.decode.received.length === 1);
    await json({ error: { message: 'prompt too long', type: 'BadRequestError', code: 400 } }, 400)(res, request, index);
  };
  const response = await ask(cluster);
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ error: { message: 'prompt too long' }, pdscope: { leg: 'prefill', instance_name: 'P0' } });
  await until(() => only(cluster.decode).isAborted);
  expect(cluster.harness.tracer.last.legs.map(({ outcome }) => outcome)).toEqual(['error', 'aborted']);
});

test('WRITE: after a failed prefill the pair runs anew, with another transfer', async () => {
  await using cluster = await startCluster();
  cluster.prefill.script = json({ error: { message: 'engine died' } }, 500);
  const other = await cluster.addEngine('P', prefillAnswer());
  cluster.decode.script = (res, request, index) => (index === 0 ? undefined : events(ANSWER)(res, request, index));
  expect(await (await ask(cluster)).text()).toBe(ANSWER.join(''));
  const [first, second] = cluster.decode.received;
  if (first === undefined || second === undefined) throw new Error('decode was not asked twice');
  expect(paramsOf(second)['transfer_id']).toBe(paramsOf(only(other))['transfer_id']);
  expect(paramsOf(second)['transfer_id']).not.toBe(paramsOf(first)['transfer_id']);
  expect(second.headers['x-request-id']).not.toBe(first.headers['x-request-id']);
  await until(() => first.isAborted);
  await until(() => cluster.harness.tracer.last.state);
  expect(cluster.harness.tracer.last).toMatchObject({ state: 'ok', retries: 1, verdicts: [] });
});

test.each(['READ', 'WRITE'] as const)('%s: after a failed decode the pair runs anew', async (mode) => {
  await using cluster = await startCluster({ mode });
  cluster.decode.script = json({ error: { message: 'load failed' } }, 500);
  const other = await cluster.addEngine('D', events(ANSWER));
  expect(await (await ask(cluster)).text()).toBe(ANSWER.join(''));
  const [first, second] = cluster.prefill.received;
  if (first === undefined || second === undefined) throw new Error('prefill was not asked twice');
  expect(paramsOf(first)['transfer_id']).not.toBe(paramsOf(second)['transfer_id']);
  expect(paramsOf(only(other))['transfer_id']).toBe(paramsOf(second)['transfer_id']);
  expect(cluster.harness.tracer.last).toMatchObject({ retries: 1, verdicts: [] });
});

test('WRITE: a prefill that still runs when its decode fails is cancelled, and the next try is not', async () => {
  await using cluster = await startCluster();
  cluster.decode.script = json({ error: { message: 'engine died' } }, 500);
  cluster.prefill.script = (res, request, index) => (index === 0 ? undefined : prefillAnswer()(res, request, index));
  const other = await cluster.addEngine('D', async (res, request, index) => {
    await until(() => cluster.prefill.received[0]?.isAborted);
    await events(ANSWER)(res, request, index);
  });
  expect(await (await ask(cluster)).text()).toBe(ANSWER.join(''));
  expect(other.received.length).toBe(1);
  await until(() => cluster.harness.tracer.last.state);
  expect(cluster.harness.tracer.last).toMatchObject({ state: 'ok', retries: 1, verdicts: [] });
  expect(cluster.harness.tracer.last.legs.map(({ outcome }) => outcome)).toEqual(['aborted', 'error', 'ok', 'ok']);
});

test('WRITE: a prefill that fails when decode answers already does not cost the client its answer', async () => {
  await using cluster = await startCluster();
  const gate = startGate();
  cluster.decode.script = async (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(ANSWER[0]);
    await until(() => cluster.harness.tracer.last.verdicts.length === 1);
    res.end(ANSWER.slice(1).join(''));
  };
  cluster.prefill.script = async (res) => {
    await gate.passed;
    res.destroy();
  };
  const response = await ask(cluster);
  gate.open();
  expect(await response.text()).toBe(ANSWER.join(''));
  expect(codes(cluster.harness.tracer.last.verdicts)).toEqual(['prefill_failed_after_handoff']);
});

test.each(['READ', 'WRITE'] as const)('%s: a prefill that ends by stop kept no KV; a prefill instance serves the request whole', async (mode) => {
  await using cluster = await startCluster({ mode });
  cluster.decode.script = () => undefined;
  cluster.prefill.script = (res, request, index) => (index === 0 ? prefillAnswer('null', 'stop') : events(ANSWER))(res, request, index);
  expect(await (await ask(cluster)).text()).toBe(ANSWER.join(''));
  const whole = cluster.prefill.received[1];
  expect(whole?.json).toEqual({ ...CHAT_BODY, stream: true });
  expect(whole?.headers['x-request-id']).toBe('client-1');
  expect(cluster.decode.received.length).toBe(mode === 'READ' ? 0 : 1);
  await until(() => cluster.decode.received.every(({ isAborted }) => isAborted));
  expect(cluster.harness.tracer.last.verdicts).toMatchObject([{ code: 'prefill_only', severity: 'warning', message: expect.stringContaining('stop') as string }]);
});

test.each([
  ['missing', '{"choices":[{"finish_reason":"length"}]}'],
  ['no blocks', '{"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":"e","remote_block_ids":[]}}'],
  ['no engine', '{"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":null,"remote_block_ids":[1]}}'],
])('READ: parameters that hand nothing over never reach decode: %s', async (_name, text) => {
  await using cluster = await startCluster({ mode: 'READ' });
  cluster.prefill.script = (res, request, index) => (index === 0 ? json(text) : events(ANSWER))(res, request, index);
  expect(await (await ask(cluster)).text()).toBe(ANSWER.join(''));
  expect(cluster.decode.received).toEqual([]);
  expect(codes(cluster.harness.tracer.last.verdicts)).toEqual(['prefill_only']);
});

test.each([{ n: 2 }, { use_beam_search: true }])('%o: no handoff, no transfer parameters, one prefill instance', async (body) => {
  await using cluster = await startCluster();
  cluster.prefill.script = events(ANSWER);
  expect(await (await ask(cluster, { ...body, kv_transfer_params: { do_remote_prefill: true } })).text()).toBe(ANSWER.join(''));
  expect(only(cluster.prefill).json).toEqual({ ...CHAT_BODY, stream: true, ...body });
  expect(cluster.decode.received).toEqual([]);
  expect(cluster.harness.tracer.last).toMatchObject({ verdicts: [{ code: 'handoff_not_possible', severity: 'info' }], legs: [{ init: { kind: 'decode' } }] });
});

test('a request without handoff fails with the engine\'s own words when no other prefill instance is left', async () => {
  await using cluster = await startCluster();
  cluster.prefill.script = json({ error: { message: 'engine died' } }, 500);
  const response = await ask(cluster, { n: 2 });
  expect(response.status).toBe(500);
  expect(await response.json()).toMatchObject({ error: { message: 'engine died' } });
});

test('READ: an answer from another address than registered moves the request id along, and is reported', async () => {
  await using cluster = await startCluster({ mode: 'READ' });
  cluster.prefill.script = prefillAnswer(READ_PARAMS.replace('"6301","remote_notify', '"7301","remote_notify'));
  await (await ask(cluster)).text();
  expect(only(cluster.decode).headers['x-request-id']).toMatch(new RegExp(`^___prefill_addr_host:10.0.0.1,handshake:7301,notify:61005___decode_addr_${D_ZMQ}_${HEX}$`));
  expect(only(cluster.decode).headers['x-request-id']?.slice(-32)).toBe(only(cluster.prefill).headers['x-request-id']?.slice(-32));
  expect(codes(cluster.harness.tracer.last.verdicts)).toEqual(['moriio_address_mismatch']);
});

test.each(['READ', 'WRITE'] as const)('%s: a client that leaves stops both engines', async (mode) => {
  await using cluster = await startCluster({ mode });
  if (mode === 'WRITE') cluster.prefill.script = () => undefined;
  cluster.decode.script = () => undefined;
  const client = new AbortController();
  ask(cluster, {}, {}, client.signal).catch(() => undefined);
  await until(() => cluster.decode.received.length === 1 && cluster.prefill.received.length === 1);
  client.abort();
  await until(() => only(cluster.decode).isAborted && (mode === 'READ' || only(cluster.prefill).isAborted));
  await until(() => cluster.harness.tracer.last.state);
  expect(cluster.harness.tracer.last).toMatchObject({ state: 'aborted', retries: 0, verdicts: [] });
  expect(cluster.harness.scheduler.inFlight).toBe(0);
});

test('routes that generate go to prefill instances: decode would wait for blocks for ever', async () => {
  await using cluster = await startCluster();
  const { harness, prefill, decode } = cluster;
  for (const path of ['/v1/responses', '/v1/messages']) expect((await post(`${harness.origin}${path}`, { input: 'x' })).status).toBe(200);
  expect([prefill.received.map(({ url }) => url), decode.received]).toEqual([['/v1/responses', '/v1/messages'], []]);
  expect(harness.tracer.last.decisions[0]?.excluded).toMatchObject([{ name: 'D0', reason: 'a MoRIIO decode instance cannot compute a prompt' }]);
});

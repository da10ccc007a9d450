/** kv_transfer_params of MoRIIO legs: what decode gets of an answer, and what is no handoff. */
import { describe, expect, test } from 'vitest';
import type { MoriioRegistration, MoriioSchema } from '#engine/proxy/connectors/moriio/message.ts';
import { answeredZmqAddress, pairRequestId, prefillParams, readAnswered, readDecodeParams, writeDecodeParams, type AnsweredParams } from '#engine/proxy/connectors/moriio/params.ts';
import { Refusals, MAX_REFUSALS } from '#engine/proxy/connectors/moriio/refusals.ts';

const LINK = { transferId: 'tx-1', prefillRank: 3 };
const COMPLETE =
  '{"do_remote_prefill": true,"do_remote_decode":false,"remote_block_ids":[5, 18446744073709551615],"remote_engine_id":"10.0.0.1:6301","transfer_id":"tx-0","remote_dp_size":8,"remote_tp_size":2,"remote_dp_rank":7,"x":1.0}';

function engine(role: 'prefill' | 'decode', schema: MoriioSchema = 'v2'): MoriioRegistration {
  const isPrefill = role === 'prefill';
  const [host, handshakePort, notifyPort] = isPrefill ? (['10.0.0.1', 6301, 61_005] as const) : (['fd00::2', 6401, 62_005] as const);
  return {
    schema, role, host, handshakePort, notifyPort,
    origin: 'http://10.0.0.1:8100',
    httpPort: isPrefill ? 8100 : 8200,
    zmqAddress: `host:${host},handshake:${handshakePort},notify:${notifyPort}`,
    dpSize: isPrefill ? 4 : 2,
    tpSize: isPrefill ? 8 : 1,
    mode: 'READ',
  };
}

const PEERS = { prefill: engine('prefill'), decode: engine('decode') };

function answered(text: string): AnsweredParams {
  const found = readAnswered(Buffer.from(text));
  if (typeof found === 'string') throw new Error(found);
  return found;
}

describe('READ: what decode gets', () => {
  test('a complete answer goes on as the very bytes it came in, also where it disagrees', () => {
    const given = answered(COMPLETE);
    expect(readDecodeParams(given, PEERS, LINK)).toBe(given.raw);
  });

  test('what is missing or null is filled in, everything else stays', () => {
    const given = answered('{"remote_block_ids":[5, 18446744073709551615],"remote_engine_id":"e","remote_dp_rank":null,"x":1.0}');
    expect(readDecodeParams(given, PEERS, LINK).toString()).toBe(
      '{"remote_block_ids":[5, 18446744073709551615],"remote_engine_id":"e","remote_dp_rank":3,"x":1.0,"do_remote_prefill":true,"do_remote_decode":false,"transfer_id":"tx-1","remote_dp_size":4,"remote_tp_size":8}',
    );
  });

  test('an engine before v2 is told where prefill is, unless the answer says it', () => {
    const peers = { prefill: engine('prefill', 'v1'), decode: engine('decode', 'v1') };
    const bare = JSON.parse(readDecodeParams(answered(COMPLETE), peers, LINK).toString()) as object;
    expect(bare).toMatchObject({ remote_host: '10.0.0.1', remote_port: 8100, remote_handshake_port: 6301, remote_notify_port: 61_005 });
    const told = JSON.parse(readDecodeParams(answered(COMPLETE.replace('"x":1.0', '"remote_host":"10.9.9.9"')), peers, LINK).toString()) as object;
    expect(told).toMatchObject({ remote_host: '10.9.9.9', remote_port: 8100 });
  });
});

test.each([
  [undefined, 'are missing'],
  ['null', 'are null'],
  ['[]', 'are []'],
  ['{}', 'name no remote_engine_id'],
  ['{"remote_engine_id":"e"}', 'list no remote_block_ids'],
  ['{"remote_engine_id":"e","remote_block_ids":null}', 'list no remote_block_ids'],
  ['{"remote_engine_id":"e","remote_block_ids":[ ]}', 'list no remote_block_ids'],
  ['{"remote_engine_id":null,"remote_block_ids":[1]}', 'name no remote_engine_id'],
])('no handoff: %s', (text, why) => {
  expect(readAnswered(text === undefined ? undefined : Buffer.from(text))).toContain(why);
});

test.each([
  ['["1","2"]', true],
  ['[[1,2],[3]]', true],
  ['[0]', true],
])('block ids in whatever form are a handoff: %s', (ids) => {
  expect(typeof readAnswered(Buffer.from(`{"remote_engine_id":"e","remote_block_ids":${ids}}`))).toBe('object');
});

test('the address of an answer: ports as numbers or texts; none when a part is missing or could not travel', () => {
  const base = '"remote_engine_id":"e","remote_block_ids":[1]';
  const address = (fields: string): string | undefined => answeredZmqAddress(answered(`{${base},${fields}}`));
  expect(address('"remote_host":"fd00::1","remote_handshake_port":6301,"remote_notify_port":"61005"')).toBe('host:fd00::1,handshake:6301,notify:61005');
  expect(address('"remote_host":"a","remote_handshake_port":6301')).toBeUndefined();
  expect(address('"remote_host":"a\\r\\nb","remote_handshake_port":1,"remote_notify_port":2')).toBeUndefined();
  expect(address('"remote_host":null,"remote_handshake_port":1,"remote_notify_port":2')).toBeUndefined();
});

test.each([['v2', 0], ['v1', 4], ['v1b', 4]] as const)('%s: the peer is named in the parameters only to engines that read it there', (schema, fields) => {
  const toPrefill = JSON.parse(prefillParams(engine('prefill', schema), engine('decode', schema), 'tx-1')) as object;
  const toDecode = JSON.parse(writeDecodeParams(engine('prefill', schema), engine('decode', schema), LINK)) as object;
  const own = (params: object): readonly string[] => Object.keys(params).filter((key) => /host|port/.test(key));
  expect([own(toPrefill).length, own(toDecode).length]).toEqual([fields, fields]);
  expect(toPrefill).toMatchObject({ do_remote_decode: true, remote_dp_size: 2, remote_tp_size: 1, transfer_id: 'tx-1' });
  expect(toDecode).toMatchObject({ do_remote_prefill: true, remote_dp_size: 4, remote_tp_size: 8, remote_dp_rank: 3, transfer_id: 'tx-1' });
});

test('the request id is what engines parse it as, IPv6 and vLLM\'s own additions included', () => {
  const id = `chatcmpl-${pairRequestId(PEERS.prefill.zmqAddress, PEERS.decode.zmqAddress, '0123456789abcdef0123456789abcdef')}-1-89abcdef`;
  // The two expressions of moriio_common.py.
  expect(/___prefill_addr_(.+?)___decode_addr_/.exec(id)?.[1]).toBe(PEERS.prefill.zmqAddress);
  expect(/___decode_addr_(.+)_[0-9a-f]{32}(?:-.*)?$/.exec(id)?.[1]).toBe(PEERS.decode.zmqAddress);
});

test('refused messages are kept by kind, bounded, the latest first', () => {
  const refusals = new Refusals();
  expect([refusals.add('a', 'x'), refusals.add('a', 'y'), refusals.add('a', 'x')]).toEqual([true, true, false]);
  expect(refusals.list().map(({ reason, count }) => [reason, count])).toEqual([['x', 2], ['y', 1]]);
  for (let kind = 0; kind < MAX_REFUSALS; kind++) refusals.add('b', String(kind));
  expect([refusals.size, refusals.evicted, refusals.list()[0]?.reason]).toEqual([MAX_REFUSALS, 2, String(MAX_REFUSALS - 1)]);
});

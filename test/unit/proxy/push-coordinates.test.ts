import { expect, test } from 'vitest';
import type { Instance } from '#engine/fleet/instance.ts';
import { withoutRank } from '#engine/fleet/ranks.ts';
import { isSamePlace, readAnswer, renderHead, type Coordinates } from '#engine/proxy/connectors/nixl-push/coordinates.ts';
import { PairIds } from '#engine/proxy/connectors/nixl-push/pair-ids.ts';

const instance = { name: 'P0', origin: 'http://10.0.0.1:8100', transfer: undefined } as Instance;
const PUSHED = { remote_block_ids: [[1]], remote_engine_id: 'e_dp1', remote_host: '10.9.9.9', remote_port: 5601, tp_size: 2, pp_size: 2, transfer_mode: 'push' };

function read(params: object, over: Partial<Instance> = {}): ReturnType<typeof readAnswer> {
  return readAnswer(Buffer.from(JSON.stringify(params)), { ...instance, ...over });
}

function coordinates(params: object): Coordinates {
  const found = read(params);
  if (found.kind !== 'push') throw new Error(found.why);
  return found.coordinates;
}

test('what decode is told is rendered up to the request id', () => {
  const found = coordinates({ ...PUSHED, pp_size: undefined });
  expect(JSON.parse(`${renderHead(found)}"chatcmpl-x"}`)).toEqual({
    do_remote_prefill: true, do_remote_decode: false, remote_engine_id: 'e_dp1', remote_host: '10.9.9.9', remote_port: 5601, tp_size: 2, pp_size: 1, transfer_mode: 'push', remote_request_id: 'chatcmpl-x',
  });
  expect(withoutRank(found.engineId)).toBe('e');
});

test.each(['remote_engine_id', 'remote_host', 'remote_port', 'tp_size', 'pp_size'] as const)('another %s is another place', (field) => {
  const other = { remote_engine_id: 'f', remote_host: '10.9.9.8', remote_port: 1, tp_size: 4, pp_size: 4 }[field];
  expect(isSamePlace(coordinates(PUSHED), coordinates({ ...PUSHED, [field]: other }))).toBe(false);
  expect(isSamePlace(coordinates(PUSHED), coordinates({ ...PUSHED, remote_block_ids: [[2]] }))).toBe(true);
});

test('a loopback host is replaced by that of the instance, an address of its own network is kept', () => {
  expect(coordinates({ ...PUSHED, remote_host: 'localhost' })).toMatchObject({ host: '10.0.0.1', corrected: { reported: 'localhost', host: '10.0.0.1' } });
  expect(coordinates(PUSHED)).toMatchObject({ host: '10.9.9.9', corrected: undefined });
});

test.each([
  [{ ...PUSHED, transfer_mode: 'pull' }, {}, 'pull'],
  [{ ...PUSHED, transfer_mode: undefined, pp_size: undefined }, {}, 'pull'],
  [{ ...PUSHED, transfer_mode: undefined, pp_size: undefined }, { transfer: { kvConnector: 'NixlPushConnector' } }, 'push'],
  // Push engines before 2026-08-14 name no mode.
  [{ ...PUSHED, transfer_mode: undefined }, {}, 'push'],
  [{ ...PUSHED, remote_port: null }, {}, 'unusable'],
  [{ ...PUSHED, remote_engine_id: '' }, {}, 'unusable'],
] as const)('%j of %j is %s', (params, over, kind) => {
  expect(read(params, over).kind).toBe(kind);
});

test.each([[undefined, 'missing'], [Buffer.from('null'), 'null'], [Buffer.from('{"a":'), 'not valid JSON']] as const)('no object hands nothing over: %s', (answered, why) => {
  expect(readAnswer(answered, instance)).toEqual({ kind: 'unusable', why: expect.stringContaining(why) });
});

test('an id is given once while it is under way, and never again after a failed try', () => {
  const ids = new PairIds();
  expect([ids.claim('a'), ids.claim('a'), ids.claim('b')]).toEqual(['a', 'a-try2', 'b']);
  ids.release('a', true);
  expect(ids.claim('a')).toBe('a');
  ids.release('a', false);
  expect(ids.claim('a')).toBe('a-try3');
  expect(ids.underWay).toBe(3);
  // Bounded: the oldest is forgotten first.
  for (let index = 0; index < 16_384; index++) ids.release(ids.claim(`x${index}`), false);
  expect(ids.claim('a')).toBe('a');
});

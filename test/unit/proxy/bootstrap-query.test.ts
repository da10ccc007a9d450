import { expect, test } from 'vitest';
import { readTable } from '#engine/proxy/connectors/mooncake/bootstrap-query.ts';

const worker = (tp: number, pp: number): object =>
  Object.fromEntries(Array.from({ length: tp }, (_, rank) => [String(rank), Object.fromEntries(Array.from({ length: pp }, (_unused, stage) => [String(stage), `tcp://h:${rank}${stage}`]))]));

test('ranks come in their order, with the workers that are there', () => {
  const table = { 10: { engine_id: 'e_dp10', worker_addr: worker(2, 2) }, 2: { engine_id: 'e_dp2', worker_addr: { 0: { 0: 'tcp://h:1', 1: 'tcp://h:2' }, 1: { 0: 'tcp://h:3' } } }, 0: { engine_id: 'e_dp0', worker_addr: {} } };
  expect(readTable(JSON.stringify(table))).toEqual([
    { rank: 0, engineId: 'e_dp0', tp: 0, pp: 0 },
    { rank: 2, engineId: 'e_dp2', tp: 2, pp: 1 },
    { rank: 10, engineId: 'e_dp10', tp: 2, pp: 2 },
  ]);
  expect(readTable('{}')).toEqual([]);
});

test.each(['', 'nope', '[]', 'null', '{"detail":"Not Found"}', '{"0":{"engine_id":"","worker_addr":{}}}', '{"0":{"engine_id":"e"}}', '{"a":{"engine_id":"e","worker_addr":{}}}'])(
  'what is no table is not taken for one: %s',
  (text) => expect(readTable(text)).toBeUndefined(),
);

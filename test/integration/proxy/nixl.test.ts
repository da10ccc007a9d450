/** The handoff of NIXL pull, byte by byte, and the one byte range that pdscope may change. */
import { expect, test } from 'vitest';
import { post, startHarness } from './harness.ts';
import { json, startUpstream } from './scripted-upstream.ts';

const BODY = { model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 };
const DECODED = json('{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}');

async function handOver(params: string, extra: object = {}): Promise<{ sent: string; verdicts: readonly unknown[]; ranks: readonly unknown[] }> {
  await using prefill = await startUpstream(json(`{"id":"x","choices":[],"kv_transfer_params":${params}}`));
  await using decode = await startUpstream(DECODED);
  await using harness = await startHarness({ decode: [decode.origin], connector: 'nixl' });
  harness.scheduler.add('prefill', prefill.origin, extra);
  await (await post(`${harness.origin}/v1/chat/completions`, BODY)).text();
  const body = decode.received[0]?.body.toString() ?? '';
  const at = body.indexOf('"kv_transfer_params":');
  return {
    sent: body.slice(at + '"kv_transfer_params":'.length, -1),
    verdicts: harness.tracer.last.verdicts,
    ranks: [prefill, decode].map(({ received }) => received[0]?.headers['x-data-parallel-rank']),
  };
}

test.each([
  '{"do_remote_prefill":true,"remote_block_ids":[[1,2],[3]],"remote_host":"10.0.0.1","remote_port":5601,"new_field":{"a":[1.0,12345678901234567890]},"expiry":1e400}',
  '{ "remote_host" : "10.0.0.1" , "x":"\\u00e9\\/" }',
  '{"remote_host":null}',
  '{"remote_host":"127.0.0.1"}',
  '{"remote_host":"localhost","remote_port":5600}',
])('%s reaches decode as it came', async (params) => {
  expect(await handOver(params)).toMatchObject({ sent: params, verdicts: [] });
});

test.each(['0.0.0.0', '::', ''])('remote_host %j is replaced by the instance\'s own, and reported', async (host) => {
  const params = (value: string): string => `{"a":1.0,"remote_host":"${value}","remote_port":5601,"b":12345678901234567890}`;
  expect(await handOver(params(host))).toMatchObject({
    sent: params('127.0.0.1'),
    verdicts: [{ code: 'remote_host_corrected', severity: 'warning', hop: 'prefill->proxy', instance: 'p0', nextStep: expect.stringContaining('VLLM_NIXL_SIDE_CHANNEL_HOST') }],
  });
});

test('the rank that prefill was pinned to changes nothing in what it hands over', async () => {
  const params = '{"remote_host":"10.0.0.1","remote_port":5603,"remote_engine_id":"e_dp3"}';
  expect(await handOver(params, { dpSize: 4, rankInFlight: [1, 1, 1, 0] })).toMatchObject({ sent: params, ranks: ['3', undefined] });
});

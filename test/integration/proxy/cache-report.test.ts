/** Asking engines for reports of cached blocks: every leg carries it, the record says so, and nothing else changes. */
import { expect, test } from 'vitest';
import { post, startHarness } from './harness.ts';
import { startUpstream, type Script } from './scripted-upstream.ts';

const ANSWER: Script = (res) => void res.writeHead(200, { 'content-type': 'application/json' }).end('{"choices":[{"finish_reason":"length"}],"kv_transfer_params":{"a":1}}');
const BODY = { model: 'm', messages: [{ role: 'user', content: 'hi' }], vllm_xargs: { own: 1 } };

test('legs carry kv_cache_report_mode beside what the client sent, once the setting is on', async () => {
  await using prefill = await startUpstream(ANSWER);
  await using decode = await startUpstream(ANSWER);
  await using harness = await startHarness({ prefill: [prefill.origin], decode: [decode.origin], connector: 'nixl' });
  await post(`${harness.origin}/v1/chat/completions`, BODY);
  expect(prefill.received[0]?.json['vllm_xargs']).toEqual({ own: 1 });
  harness.proxy.setProtocol({ reportCache: true });
  await post(`${harness.origin}/v1/chat/completions`, BODY);
  for (const { received } of [prefill, decode]) {
    expect(received[1]?.json).toMatchObject({ messages: BODY.messages, vllm_xargs: { own: 1, kv_cache_report_mode: 'full' } });
  }
  expect(harness.tracer.last.legs.map(({ init }) => init.rewrites[0])).toEqual([
    { field: 'vllm_xargs.kv_cache_report_mode', to: '"full"' }, { field: 'vllm_xargs.kv_cache_report_mode', to: '"full"' },
  ]);
});

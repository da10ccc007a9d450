import { describe, expect, it } from 'vitest';
import { asksForReport, withCacheReport } from '#engine/proxy/cache-report.ts';
import { parseBody, type ClientRequest } from '#engine/proxy/client-request.ts';

function requestOf(text: string, api: ClientRequest['api'] = 'chat'): ClientRequest {
  const body = Buffer.from(text);
  return { api, requestId: 'r', headers: {}, body, ...parseBody(body), isStream: false };
}

describe('asking for reports of cached blocks', () => {
  it.each([
    ['chat', '{"model":"m"}', '{"model":"m","vllm_xargs":{"kv_cache_report_mode":"full"}}'],
    ['completions', '{"vllm_xargs":{"a":12345678901234567890},"n":1.0}', '{"vllm_xargs":{"a":12345678901234567890,"kv_cache_report_mode":"full"},"n":1.0}'],
    ['chat', '{"vllm_xargs":null}', '{"vllm_xargs":{"kv_cache_report_mode":"full"}}'],
    ['generate', '{"token_ids":[1],"sampling_params":{"seed":7}}', '{"token_ids":[1],"sampling_params":{"seed":7,"extra_args":{"kv_cache_report_mode":"full"}}}'],
    ['generate', '{"token_ids":[1]}', '{"token_ids":[1],"sampling_params":{"extra_args":{"kv_cache_report_mode":"full"}}}'],
  ] as const)('%s: %s', (api, sent, expected) => {
    const reporting = withCacheReport(requestOf(sent, api));
    expect(reporting?.request.body.toString()).toBe(expected);
    expect(reporting?.request.members.map(({ key }) => key)).toEqual(Object.keys(JSON.parse(expected) as object));
    expect(reporting?.rewrite).toEqual({ field: `${api === 'generate' ? 'sampling_params.extra_args' : 'vllm_xargs'}.kv_cache_report_mode`, to: '"full"' });
  });

  it.each(['{"vllm_xargs":{"kv_cache_report_mode":"none"}}', '{"vllm_xargs":"text"}', '{"vllm_xargs":[1]}'])('leaves %s alone', (sent) => {
    expect(withCacheReport(requestOf(sent))).toBeUndefined();
  });

  it.each([
    ['{"vllm_xargs":{"kv_cache_report_mode":"full"}}', true],
    ['{"sampling_params":{"extra_args":{"kv_cache_report_mode":"full"}}}', true],
    ['{"vllm_xargs":{"kv_cache_report_mode":"incremental"}}', false],
    ['{"vllm_xargs":null,"sampling_params":{"extra_args":[1]}}', false],
    ['{"kv_cache_report_mode":"full"}', false],
    ['{}', false],
  ])('knows whether %s asks', (sent, isAsking) => {
    expect(asksForReport(requestOf(sent).json)).toBe(isAsking);
  });
});

/** One test per row of the rewriting table, and that there is no row without one. */
import { describe, expect, test } from 'vitest';
import { parseBody, reasonAgainstHandoff, type ClientRequest } from '#engine/proxy/client-request.ts';
import { PREFILL_RULES, prefillBody } from '#engine/proxy/prefill-body.ts';
import type { Api } from '#shared/vocabulary.ts';

function requestOf(text: string, api: Api = 'chat'): ClientRequest {
  const body = Buffer.from(text);
  const { json, members } = parseBody(body);
  return { api, requestId: 'r', headers: {}, body, json, members, isStream: json['stream'] === true };
}

function rewritten(fields: object, api: Api = 'chat'): Record<string, unknown> {
  return JSON.parse(prefillBody(requestOf(JSON.stringify(fields), api)).body.toString()) as Record<string, unknown>;
}

const ROWS: Record<string, { readonly given: object; readonly expected: object }> = {
  stream: { given: { stream: true, max_tokens: 5 }, expected: { stream: false, max_tokens: 1 } },
  stream_options: { given: { stream_options: { include_usage: true } }, expected: { max_tokens: 1 } },
  max_tokens: { given: { max_tokens: 500 }, expected: { max_tokens: 1 } },
  max_completion_tokens: { given: { max_completion_tokens: 500 }, expected: { max_completion_tokens: 1 } },
  min_tokens: { given: { min_tokens: 10 }, expected: { max_tokens: 1 } },
  min_completion_tokens: { given: { min_completion_tokens: 10 }, expected: { max_tokens: 1 } },
  n: { given: { n: 1 }, expected: { n: 1, max_tokens: 1 } },
  best_of: { given: { best_of: 1 }, expected: { max_tokens: 1 } },
  use_beam_search: { given: { use_beam_search: false }, expected: { max_tokens: 1 } },
  logprobs: { given: { logprobs: true }, expected: { max_tokens: 1 } },
  top_logprobs: { given: { logprobs: true, top_logprobs: 5 }, expected: { max_tokens: 1 } },
  prompt_logprobs: { given: { prompt_logprobs: 1 }, expected: { max_tokens: 1 } },
  response_format: { given: { response_format: { type: 'json_object' } }, expected: { max_tokens: 1 } },
  stop: { given: { stop: ['\n'] }, expected: { max_tokens: 1 } },
  echo: { given: { echo: true }, expected: { max_tokens: 1 } },
};

test('every row of the table has its test', () => {
  expect(Object.keys(ROWS).sort()).toEqual(PREFILL_RULES.map(({ field }) => field).sort());
});

test.each(Object.entries(ROWS))('%s', (_field, { given, expected }) => {
  expect(rewritten(given)).toEqual(expected);
});

describe('the token cap', () => {
  test('both spellings are overwritten when both are there', () => {
    expect(rewritten({ max_tokens: 9, max_completion_tokens: 8 })).toEqual({ max_tokens: 1, max_completion_tokens: 1 });
  });
  test('completions know max_tokens only, so it is always set', () => {
    expect(rewritten({ max_completion_tokens: 8 }, 'completions')).toEqual({ max_tokens: 1, max_completion_tokens: 1 });
  });
  test('null counts as given and is overwritten', () => {
    expect(rewritten({ max_tokens: null })).toEqual({ max_tokens: 1 });
  });
});

test('what shapes the prompt stays byte for byte', () => {
  const kept =
    '"model":"m","messages":[{"role":"user","content":"\\u00fc"}],"tools":[{"function":{"parameters":{"minimum":1.0,"maximum":12345678901234567890}}}],"tool_choice":"auto","chat_template_kwargs":{ "a" :1},"cache_salt":"s","truncate_prompt_tokens":5,"unknown":1e2';
  expect(prefillBody(requestOf(`{${kept},"stream":true,"max_tokens":7}`)).body.toString()).toBe(`{${kept},"stream":false,"max_tokens":1}`);
});

test('changes are recorded with both values, cut to 200 characters', () => {
  const { rewrites } = prefillBody(requestOf(JSON.stringify({ stop: 'x'.repeat(500), max_tokens: 1 })), { transferParams: '{}' });
  expect(rewrites).toEqual([
    { field: 'stop', from: `"${'x'.repeat(198)}…` },
    { field: 'kv_transfer_params', to: '{}' },
  ]);
});

test.each([
  [{ n: 2 }, 'n=2: the handoff serves one sequence'],
  [{ best_of: 3 }, 'best_of=3: the handoff serves one sequence'],
  [{ use_beam_search: true }, 'use_beam_search: the handoff serves one sequence'],
  [{ n: 1, best_of: 1, use_beam_search: false }, undefined],
  [{ n: null }, undefined],
])('%j: %s', (json, reason) => {
  expect(reasonAgainstHandoff(json as Record<string, unknown>)).toBe(reason);
});

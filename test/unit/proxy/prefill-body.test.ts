/** One test per field, API and leg of the rewriting table, and that there is no row without one. */
import { describe, expect, test } from 'vitest';
import { parseBody, reasonAgainstHandoff, type ClientRequest } from '#engine/proxy/client-request.ts';
import { decodeBody, PREFILL_RULES, prefillBody } from '#engine/proxy/prefill-body.ts';
import type { Api } from '#shared/vocabulary.ts';

function requestOf(text: string, api: Api = 'chat'): ClientRequest {
  const body = Buffer.from(text);
  const { json, members } = parseBody(body);
  return { api, requestId: 'r', headers: {}, body, json, members, isStream: json['stream'] === true };
}

function rewritten(fields: object, api: Api = 'chat'): Record<string, unknown> {
  return JSON.parse(prefillBody(requestOf(JSON.stringify(fields), api)).body.toString()) as Record<string, unknown>;
}

const APIS_OF: Record<'chat' | 'completions' | 'generate', string> = {
  chat: '"model":"m","messages":[]',
  completions: '"model":"m","prompt":"p"',
  generate: '"model":"m","token_ids":[1]',
};

interface Row {
  readonly field: string;
  readonly api: Api;
  /** What the client sends besides the prompt: of a generate request inside sampling_params, unless `isTop`. */
  readonly given: string;
  /** What the prefill leg has in its place. */
  readonly prefill: string;
  readonly mustEndByLength?: true;
  readonly isTop?: true;
}

const OPENAI: readonly Api[] = ['chat', 'completions'];
const ALL: readonly Api[] = [...OPENAI, 'generate'];

/** Fields that every API takes out of the prefill leg, and the cap that takes their place. */
function removed(field: string, given: string, apis: readonly Api[] = ALL): Row[] {
  return apis.map((api) => ({ field, api, given, prefill: '"max_tokens":1' }));
}

const ROWS: readonly Row[] = [
  ...OPENAI.map((api): Row => ({ field: 'stream', api, given: '"stream":true,"max_tokens":5', prefill: '"stream":false,"max_tokens":1' })),
  { field: 'stream', api: 'generate', isTop: true, given: '"stream":true,"sampling_params":{"max_tokens":5}', prefill: '"stream":false,"sampling_params":{"max_tokens":1}' },
  ...removed('stream_options', '"stream_options":{"include_usage":true}', OPENAI),
  { field: 'stream_options', api: 'generate', isTop: true, given: '"stream_options":{"include_usage":true},"sampling_params":{}', prefill: '"sampling_params":{"max_tokens":1}' },
  ...ALL.map((api): Row => ({ field: 'max_tokens', api, given: '"max_tokens":500,"seed":7', prefill: '"max_tokens":1,"seed":7' })),
  { field: 'max_completion_tokens', api: 'chat', given: '"max_completion_tokens":500', prefill: '"max_completion_tokens":1' },
  { field: 'max_completion_tokens', api: 'completions', given: '"max_completion_tokens":500', prefill: '"max_completion_tokens":1,"max_tokens":1' },
  ...removed('min_tokens', '"min_tokens":10'),
  ...removed('min_completion_tokens', '"min_completion_tokens":10', OPENAI),
  ...ALL.map((api): Row => ({ field: 'n', api, given: '"n":1', prefill: '"n":1,"max_tokens":1' })),
  ...removed('best_of', '"best_of":1'),
  ...removed('use_beam_search', '"use_beam_search":false'),
  ...removed('logprobs', '"logprobs":1'),
  ...removed('top_logprobs', '"logprobs":true,"top_logprobs":5', OPENAI),
  ...removed('prompt_logprobs', '"prompt_logprobs":null'),
  ...removed('response_format', '"response_format":{"type":"json_object"}', OPENAI),
  ...removed('structured_outputs', '"structured_outputs":{"regex":"a+"}'),
  ...removed('stop', '"stop":["\\n"]'),
  ...removed('echo', '"echo":true', OPENAI),
  ...ALL.map((api): Row => ({ field: 'ignore_eos', api, given: '"ignore_eos":false', prefill: '"ignore_eos":false,"max_tokens":1' })),
  ...ALL.map((api): Row => ({ field: 'ignore_eos', api, mustEndByLength: true, given: '"ignore_eos":false', prefill: '"ignore_eos":true,"max_tokens":1' })),
  ...ALL.map((api): Row => ({ field: 'stop_token_ids', api, given: '"stop_token_ids":[2]', prefill: '"stop_token_ids":[2],"max_tokens":1' })),
  ...ALL.map((api): Row => ({ field: 'stop_token_ids', api, mustEndByLength: true, given: '"stop_token_ids":[2]', prefill: '"max_tokens":1,"ignore_eos":true' })),
  ...ALL.map((api): Row => ({ field: 'seed', api, given: '"seed":42,"temperature":0.0', prefill: '"seed":42,"temperature":0.0,"max_tokens":1' })),
];

test('every field of the table has its row for every API that has it', () => {
  const tested = new Set(ROWS.map(({ field, api }) => `${field} ${api}`));
  const known = PREFILL_RULES.flatMap(({ field, in: places }) => ALL.filter((api) => places[api] !== undefined).map((api) => `${field} ${api}`));
  expect(known.filter((row) => !tested.has(row))).toEqual([]);
});

/** The client's whole body for a row, and the fields of a generate request in their place. */
function bodyOf({ api, isTop }: Row, fields: string, extra = ''): string {
  const own = api === 'generate' && isTop !== true ? `"sampling_params":{${fields}}` : fields;
  return `{${APIS_OF[api]},${own}${extra}}`;
}

test.each(ROWS)('$api, prefill leg: $field ($given)', (row) => {
  const { body } = prefillBody(requestOf(bodyOf(row, row.given), row.api), row.mustEndByLength === true ? { mustEndByLength: true } : {});
  expect(body.toString()).toBe(bodyOf(row, row.prefill));
});

/** The client's own text with PARAMS where the engine reads them. */
function decodeText(row: Row): string {
  const params = `"kv_transfer_params":${PARAMS.toString()}`;
  if (row.api !== 'generate') return bodyOf(row, row.given, `,${params}`);
  const extra = `"extra_args":{${params}}`;
  if (row.isTop !== true) return bodyOf(row, `${row.given},${extra}`, `,${params}`);
  return bodyOf(row, row.given.replace(/\}$/, `,${extra}}`).replace('{,', '{'), `,${params}`);
}

test.each(ROWS)('$api, decode leg: $field ($given) stays the client\'s', (row) => {
  expect(decodeBody(requestOf(bodyOf(row, row.given), row.api), PARAMS).body.toString()).toBe(decodeText(row));
});

/** A 64-bit number and an unknown field, to be handed on as they are. */
const PARAMS = Buffer.from('{"remote_engine_id":"e","x":12345678901234567890}');

describe('kv_transfer_params of a generate request', () => {
  const params = '{"do_remote_decode":true}';
  test('go to both places where frontends read them', () => {
    const { body, rewrites } = prefillBody(requestOf('{"token_ids":[1],"sampling_params":{"seed":1}}', 'generate'), { transferParams: params });
    expect(body.toString()).toBe(
      `{"token_ids":[1],"sampling_params":{"seed":1,"max_tokens":1,"extra_args":{"kv_transfer_params":${params}}},"kv_transfer_params":${params}}`,
    );
    expect(rewrites).toEqual([
      { field: 'sampling_params.max_tokens', to: '1' },
      { field: 'kv_transfer_params', to: params },
    ]);
  });
  test('replace the client\'s own and leave its other extra arguments', () => {
    const text = '{"token_ids":[1],"sampling_params":{"extra_args":{"kv_transfer_params":{"old":1},"mine":1.0}},"kv_transfer_params":{"old":2}}';
    expect(decodeBody(requestOf(text, 'generate'), PARAMS).body.toString()).toBe(
      `{"token_ids":[1],"sampling_params":{"extra_args":{"kv_transfer_params":${PARAMS.toString()},"mine":1.0}},"kv_transfer_params":${PARAMS.toString()}}`,
    );
  });
  test.each(['', ',"sampling_params":null'])('without sampling parameters%s they are made', (sampling) => {
    expect(JSON.parse(prefillBody(requestOf(`{"token_ids":[1]${sampling}}`, 'generate'), { transferParams: params }).body.toString())).toEqual({
      token_ids: [1],
      sampling_params: { max_tokens: 1, extra_args: { kv_transfer_params: { do_remote_decode: true } } },
      kv_transfer_params: { do_remote_decode: true },
    });
  });
  test('sampling parameters that are no object are left for the engine to refuse', () => {
    expect(prefillBody(requestOf('{"token_ids":[1],"sampling_params":[]}', 'generate')).body.toString()).toBe('{"token_ids":[1],"sampling_params":[]}');
  });
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
  [{ n: '2' }, 'n=2: the handoff serves one sequence'],
  [{ n: '1', best_of: 'many' }, undefined],
  [{ best_of: 3 }, 'best_of=3: the handoff serves one sequence'],
  [{ use_beam_search: true }, 'use_beam_search: the handoff serves one sequence'],
  [{ n: 1, best_of: 1, use_beam_search: false }, undefined],
  [{ n: null }, undefined],
  [{ sampling_params: { n: 2 } }, 'n=2: the handoff serves one sequence'],
  [{ sampling_params: { n: 1, best_of: 3 } }, 'best_of=3: the handoff serves one sequence'],
  [{ sampling_params: { prompt_logprobs: 0 } }, 'prompt_logprobs: only an instance that computes the prompt can give them'],
  [{ sampling_params: null }, undefined],
  [{ prompt_logprobs: 0 }, 'prompt_logprobs: only an instance that computes the prompt can give them'],
  [{ prompt_logprobs: '0' }, 'prompt_logprobs: only an instance that computes the prompt can give them'],
  [{ prompt_logprobs: null, logprobs: 5 }, undefined],
  [{ echo: true, logprobs: 0 }, 'echo with logprobs: only an instance that computes the prompt can give them'],
  [{ echo: true }, undefined],
  [{ echo: true, logprobs: true }, undefined],
])('%j: %s', (json, reason) => {
  expect(reasonAgainstHandoff(json as Record<string, unknown>)).toBe(reason);
});

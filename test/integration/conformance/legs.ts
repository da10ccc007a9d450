/** What each instance received of a request that goes well. */
import { expect } from 'vitest';
import type { Cluster } from './cluster.ts';
import { type ConformanceApi, type Json, type Mode } from './modes.ts';
import { MAX_TOKENS, MEDIA_ITEMS, type ClientBody } from './requests.ts';

const REQUEST_ID = 'conformance-1';

export function expectLegsAsSent(cluster: Cluster, mode: Mode, api: ConformanceApi, request: ClientBody): void {
  const decode = only(cluster, mode.legs === 'one' ? 'both' : 'decode');
  expect(decode.request.headers['x-request-id']).toEqual(mode.requestId === undefined ? REQUEST_ID : expect.stringMatching(mode.requestId));
  expectDecode(mode, request, decode.json);
  if (mode.legs !== 'one') {
    const prefill = only(cluster, 'prefill');
    expect(prefill.request.headers['x-request-id']).toBe(decode.request.headers['x-request-id']);
    expect(prefill.request.path).toBe(decode.request.path);
    expectPrefill(mode, request, prefill.json);
    const { transfer_id: sent } = paramsOf(mode, prefill.json) ?? {};
    expect((paramsOf(mode, decode.json) ?? {})['transfer_id']).toBe(sent);
  }
  if (mode.hasMedia === true) expectEncode(cluster, api, request);
}

function only(cluster: Cluster, role: 'prefill' | 'decode' | 'both') {
  const received = cluster.received(cluster.of(role));
  const [first] = received;
  if (first === undefined || received.length !== 1) throw new Error(`the ${role} instance got ${received.length} requests`);
  return first;
}

/** Where the engine of this route reads the parameters. */
function paramsOf(mode: Mode, json: Json): Json | undefined {
  if (mode.isTokenDriven !== true) return json['kv_transfer_params'] as Json | undefined;
  const sampling = json['sampling_params'] as { readonly extra_args?: { readonly kv_transfer_params?: Json } } | undefined;
  return sampling?.extra_args?.kv_transfer_params;
}

function expectParams(actual: Json | undefined, expected: Json | undefined): void {
  if (expected === undefined) expect(actual).toBeUndefined();
  else expect(actual).toMatchObject(expected);
}

function expectPrefill(mode: Mode, { body }: ClientBody, json: Json): void {
  expectParams(paramsOf(mode, json), mode.prefillParams);
  const sampling = mode.isTokenDriven === true ? (json['sampling_params'] as Json) : json;
  expect(sampling).toMatchObject({ max_tokens: 1, seed: 11 });
  for (const field of ['min_tokens', 'stop']) expect(sampling[field] ?? null).toBeNull();
  expect([json['stream'] ?? false, json['stream_options'] ?? null]).toEqual([false, null]);
  if (mode.isTokenDriven === true) expect(json['token_ids']).toEqual(expect.any(Array));
  else expect([json['messages'], json['prompt'], json['model']]).toEqual([body['messages'], body['prompt'], body['model']]);
  expectNothingPrivate(mode, json);
}

function expectDecode(mode: Mode, { body }: ClientBody, json: Json): void {
  expectParams(paramsOf(mode, json), mode.decodeParams);
  expectNothingPrivate(mode, json);
  if (mode.isTokenDriven === true) {
    expect(json['sampling_params']).toMatchObject({ max_tokens: MAX_TOKENS, min_tokens: 4, seed: 11, ignore_eos: true });
    return;
  }
  const { kv_transfer_params: _params, ...rest } = json;
  const asked = Object.fromEntries(Object.entries(body).filter(([key]) => !(key in (mode.privateFields ?? {}))));
  expect(rest).toEqual(asked);
}

function expectNothingPrivate(mode: Mode, json: Json): void {
  for (const field of Object.keys(mode.privateFields ?? {})) expect(json).not.toHaveProperty(field);
}

function expectEncode(cluster: Cluster, api: ConformanceApi, { body }: ClientBody): void {
  const received = cluster.received(cluster.of('encode'));
  if (api === 'completions') {
    expect(received).toEqual([]);
    return;
  }
  const [message] = body['messages'] as { readonly content: readonly Json[] }[];
  const parts = (message?.content ?? []).filter((part) => part['type'] !== 'text');
  expect(parts).toHaveLength(MEDIA_ITEMS);
  expect(received.map(({ json }) => (json['messages'] as { readonly content: unknown }[]).flatMap(({ content }) => content))).toEqual(parts.map((part) => [part]));
  const childIds = received.map(({ request }) => String(request.headers['x-request-id']));
  expect(childIds).toEqual(parts.map((_, index) => expect.stringMatching(new RegExp(`^${REQUEST_ID}:${index}:[0-9a-f]{6}$`, 'u')) as unknown));
  expect(received.every(({ json }) => json['stream'] !== true)).toBe(true);
}

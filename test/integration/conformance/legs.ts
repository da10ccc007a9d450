/** What each instance received: every leg's path, headers, parameters and body, in good cases and in bad ones. */
import { expect } from 'vitest';
import { API_PATHS } from '#shared/vocabulary.ts';
import type { Cluster, Received } from './cluster.ts';
import type { ConformanceApi, Json, Mode } from './modes.ts';
import { MAX_TOKENS, MEDIA_ITEMS, REQUEST_ID, type ClientBody } from './requests.ts';

export interface Sent {
  readonly mode: Mode;
  readonly api: ConformanceApi;
  readonly request: ClientBody;
  readonly isStream: boolean;
}

/** Asserts all legs that came in, however many there are. */
export function expectLegsAsSent(cluster: Cluster, sent: Sent): void {
  const { mode } = sent;
  const prefills = cluster.received('prefill');
  const decodes = cluster.received('decode');
  for (const [index, leg] of prefills.entries()) expectPrefill(sent, leg, index);
  for (const leg of decodes) expectDecode(sent, leg);
  expectPairs(cluster, mode, { prefills, decodes });
  if (mode.hasMedia === true) expectEncode(cluster, sent);
  if (mode.isTokenDriven === true) expectRender(cluster, sent);
}

/** Legs of one try belong together, and no two tries share what the engines match them by. */
function expectPairs(cluster: Cluster, mode: Mode, { prefills, decodes }: { readonly prefills: readonly Received[]; readonly decodes: readonly Received[] }): void {
  const transferIds = decodes.map(({ json }) => paramsOf(mode, json)?.['transfer_id'] ?? paramsOf(mode, json)?.['remote_request_id']).filter((id) => id !== undefined && id !== null);
  expect(new Set(transferIds).size).toBe(transferIds.length);
  if (mode.legs === 'one' || prefills.length !== decodes.length) return;
  for (const [index, { request, json }] of decodes.entries()) {
    const prefill = prefills[index];
    if (prefill === undefined) throw new Error('no prefill leg');
    expect(request.headers['x-request-id']).toBe(prefill.request.headers['x-request-id']);
    expect(request.path).toBe(prefill.request.path);
    const [told, asked] = [paramsOf(mode, json), paramsOf(mode, prefill.json)];
    if (mode.connector !== 'nixl-bidirectional') expect(told?.['transfer_id']).toBe(asked?.['transfer_id']);
    if (mode.ranks !== undefined) expectRanks({ request, told }, prefill, cluster.firstEngineId(prefill.sim));
  }
}

/** Both legs are pinned, and decode is told of the rank that prefill runs on. */
function expectRanks({ request, told }: { readonly request: Received['request']; readonly told: Json | undefined }, prefill: Received, engineId: string | undefined): void {
  const rank = prefill.request.headers['x-data-parallel-rank'];
  expect(rank).toMatch(/^[01]$/u);
  expect(request.headers['x-data-parallel-rank']).toMatch(/^[01]$/u);
  if (told?.['remote_dp_rank'] !== undefined) expect(told['remote_dp_rank']).toBe(Number(rank));
  // Told before a restart, or after it.
  else expect([engineId, prefill.sim.engineId].map((id) => `${String(id)}_dp${String(rank)}`)).toContain(told?.['remote_engine_id']);
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

/** Of the first try; or of a later one, which decode may be the first to see. */
function expectRequestId(mode: Mode, { request }: Received, attempt: number | undefined): void {
  const id = request.headers['x-request-id'];
  const isRepeated = attempt === undefined ? id !== REQUEST_ID : attempt > 0;
  const form = isRepeated ? (mode.repeatedRequestId ?? mode.requestId) : mode.requestId;
  expect(id).toEqual(form === undefined ? REQUEST_ID : expect.stringMatching(form));
}

function expectPath(mode: Mode, { path }: ClientBody, { request }: Received): void {
  expect(request.path).toBe(mode.isTokenDriven === true ? API_PATHS.generate : path);
  expect(request.headers['content-type']).toBe('application/json');
}

function expectPrefill({ mode, request: { path, body } }: Sent, leg: Received, attempt: number): void {
  const { json } = leg;
  expectPath(mode, { path, body }, leg);
  expectRequestId(mode, leg, attempt);
  // The last turn's blocks are used once: whatever comes after that asks to keep the KV, and reads nothing.
  expectParams(paramsOf(mode, json), mode.connector === 'nixl-bidirectional' && attempt > 0 ? { do_remote_decode: true, remote_block_ids: null } : mode.prefillParams);
  const sampling = mode.isTokenDriven === true ? (json['sampling_params'] as Json) : json;
  expect(sampling).toMatchObject({ max_tokens: 1, seed: 11 });
  expect(sampling['ignore_eos'] ?? false).toBe(mode.mustEndByLength === true);
  for (const field of ['min_tokens', 'stop']) expect(sampling[field] ?? null).toBeNull();
  expect([json['stream'] ?? false, json['stream_options'] ?? null]).toEqual([false, null]);
  if (mode.isTokenDriven === true) expect(json['token_ids']).toEqual(expect.any(Array));
  else expect([json['messages'], json['prompt'], json['model'], json['unknown']]).toEqual([body['messages'], body['prompt'], body['model'], body['unknown']]);
  expectNothingPrivate(mode, json);
}

function expectDecode({ mode, isStream, request: { path, body } }: Sent, leg: Received): void {
  const { json } = leg;
  expectPath(mode, { path, body }, leg);
  expectRequestId(mode, leg, undefined);
  expectParams(paramsOf(mode, json), mode.decodeParams);
  expectNothingPrivate(mode, json);
  if (mode.isTokenDriven === true) {
    expect(json['sampling_params']).toMatchObject({ max_tokens: MAX_TOKENS, min_tokens: 4, seed: 11 });
    expect(json['stream'] ?? false).toBe(isStream);
    return;
  }
  const { kv_transfer_params: _params, ...rest } = json;
  const left = new Set([...Object.keys(mode.privateFields ?? {}), ...(mode.isDecodedWhole === true ? ['stream', 'stream_options'] : [])]);
  const asked = Object.fromEntries(Object.entries(body).filter(([key]) => !left.has(key)));
  if (mode.isDecodedWhole === true) {
    expect(rest['stream'] ?? false).toBe(false);
    const { stream: _stream, ...others } = rest;
    expect(others).toEqual(asked);
  } else expect(rest).toEqual(asked);
}

function expectNothingPrivate(mode: Mode, json: Json): void {
  for (const field of Object.keys(mode.privateFields ?? {})) expect(json).not.toHaveProperty(field);
}

function expectRender(cluster: Cluster, { request: { path, body } }: Sent): void {
  for (const { request, json } of cluster.received('render')) {
    expect(request.path).toBe(`${path}/render`);
    expect(json).toEqual(body);
  }
}

/** One request per media item, with nothing but the item; more of them only when one was tried again. */
function expectEncode(cluster: Cluster, { api, request: { body } }: Sent): void {
  const received = cluster.received('encode');
  if (api === 'completions') {
    expect(received).toEqual([]);
    return;
  }
  const [message] = body['messages'] as { readonly content: readonly Json[] }[];
  const parts = (message?.content ?? []).filter((part) => part['type'] !== 'text');
  expect(parts).toHaveLength(MEDIA_ITEMS);
  for (const { request, json } of received) {
    const [index] = /(?<=^conformance-1:)\d+(?=:[0-9a-f]{6}$)/u.exec(String(request.headers['x-request-id'])) ?? [];
    expect(json['messages']).toEqual([{ role: 'user', content: [parts[Number(index)]] }]);
    expect([request.path, json['stream']]).toEqual([API_PATHS.chat, false]);
  }
}

import type { InstanceId, RecordId, StreamId } from '#shared/ids.ts';
import type { KvRow } from '#shared/kv.ts';
import type { RequestRow } from '#shared/request.ts';

/** A finished request P0 -> D0; override what the test is about. */
export function requestRow(overrides: Partial<RequestRow> = {}): RequestRow {
  return {
    id: 'r1' as RecordId,
    n: 1,
    requestId: 'chatcmpl-7f3a09c1',
    receivedAtUnixMs: 1_790_000_000_000,
    api: 'chat',
    model: 'Qwen/Qwen3-8B',
    isStream: true,
    connector: 'nixl',
    state: 'ok',
    status: 200,
    route: [
      { kind: 'prefill', instance: 'p0' as InstanceId, name: 'P0' },
      { kind: 'decode', instance: 'd0' as InstanceId, name: 'D0' },
    ],
    promptTokens: 1200,
    cachedTokens: 96,
    completionTokens: 60,
    chunks: 60,
    requestBytes: 5000,
    responseBytes: 20_000,
    prefillMs: 120,
    handoffMs: 3,
    ttftMs: 180,
    itlMs: 10,
    tpotMs: 10.2,
    e2elMs: 780,
    retries: 0,
    phases: [],
    isSimulated: false,
    isOwnProbe: false,
    ...overrides,
  };
}

/** A stored event of P0 rank 0; override what the test is about. */
export function kvRow(overrides: Partial<KvRow> = {}): KvRow {
  return {
    n: 1,
    stream: 'p0/0' as StreamId,
    instance: 'p0' as InstanceId,
    instanceName: 'P0',
    rank: 0,
    epoch: 1,
    seq: 48_112,
    engineTsUnixMs: 1_790_000_000_000,
    receivedAtUnixMs: 1_790_000_000_002,
    kind: 'stored',
    hashes: ['9f3ac4d1a0000001', '9f3ac4d1a0000002'],
    hashCount: 2,
    parent: '1c77aa0000000003',
    blockSize: 16,
    tokenCount: 32,
    tokens: [151_644, 8948, 198],
    medium: 'GPU',
    ...overrides,
  };
}

/** An engine with two logs and a few operations: sessions are tested without sockets. */
import type { SessionEngine } from '#engine/session/session.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { KvRow } from '#shared/kv.ts';
import type { RequestRow } from '#shared/request.ts';
import type { EngineState } from '#shared/state.ts';
import { MemoryRowLog } from './memory-row-log.ts';

export interface FakeEngine extends SessionEngine {
  readonly requests: MemoryRowLog<RequestRow>;
  readonly kv: MemoryRowLog<KvRow>;
  states: number;
}

export function fakeEngine(): FakeEngine {
  const engine: FakeEngine = {
    requests: new MemoryRowLog<RequestRow>(1000),
    kv: new MemoryRowLog<KvRow>(1000),
    states: 0,
    state() {
      engine.states += 1;
      return { version: '1.2.3', host: 'headless', nowUnixMs: engine.states } as unknown as EngineState;
    },
    call: async (name, input) => {
      if (name === 'policy.set') throw new PdscopeError('bad_input', 'policy: no such policy');
      if (name === 'connector.set') throw new Error('the secret is 42');
      return { name, input } as never;
    },
  };
  return engine;
}

export function requestRow(n: number, extra: Partial<RequestRow> = {}): RequestRow {
  return {
    id: `r${n}`,
    n,
    requestId: `x-${n}`,
    receivedAtUnixMs: n,
    api: 'chat',
    isStream: true,
    connector: 'nixl',
    state: 'running',
    route: [],
    chunks: 0,
    requestBytes: 10,
    responseBytes: 0,
    retries: 0,
    phases: [],
    isSimulated: false,
    isOwnProbe: false,
    ...extra,
  } as RequestRow;
}

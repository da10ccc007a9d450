/**
 * Composition root. Builds proxy, fleet, KV-event subscriber, telemetry and (in demo mode) the simulated cluster,
 * and offers them to hosts as commands, channels and snapshots. Imports neither electron nor the DOM.
 */
import type { EngineState } from '#shared/state.ts';
import type { KvRow } from '#shared/kv.ts';
import type { RequestRow } from '#shared/request.ts';
import type { OperationName, OperationOutputs } from '#shared/operations.ts';
import type { RowLog } from './row-log.ts';

/** Where the proxy listens. */
export interface ProxyAddress {
  readonly host: string;
  readonly port: number;
  /** Base URL for OpenAI clients, e.g. `http://127.0.0.1:8000/v1`. */
  readonly url: string;
}

/** What hosts and sessions need of an engine. */
export interface Engine {
  readonly requests: RowLog<RequestRow>;
  readonly kv: RowLog<KvRow>;
  readonly proxyAddress: ProxyAddress;
  /** Validates `input` against the operation's schema and runs it. Rejects with PdscopeError for expected failures. */
  call<N extends OperationName>(name: N, input: unknown): Promise<OperationOutputs[N]>;
  state(): EngineState;
  close(): Promise<void>;
}

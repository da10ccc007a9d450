/**
 * Composition root. Builds proxy, fleet, KV-event subscriber, telemetry and (in demo mode) the simulated cluster,
 * and offers them to hosts as commands, channels and snapshots. Imports neither electron nor the DOM.
 */
import type { EngineState } from '#shared/state.ts';
import type { OperationName, OperationOutputs } from '#shared/operations.ts';

/** What hosts and sessions need of an engine. */
export interface Engine {
  /** Validates `input` against the operation's schema and runs it. Rejects with PdscopeError for expected failures. */
  call<N extends OperationName>(name: N, input: unknown): Promise<OperationOutputs[N]>;
  state(): EngineState;
  close(): Promise<void>;
}

/** The parts of the fleet that the proxy uses: `LegScheduler` on the hot path, `FleetRoster` beside it. */
import type { InstanceId } from '#shared/ids.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from './instance.ts';

export interface Candidates {
  /** Instances that may take the leg now, in the order they were added. */
  readonly routable: readonly Instance[];
  /** Instances of a fitting role that may not, and why (`down: connection refused`, `draining`, `breaker open`). */
  readonly excluded: readonly { readonly instance: Instance; readonly reason: string }[];
}

export interface LegScheduler {
  /** Cached between fleet changes; cheap enough for every leg. `both` instances fit prefill and decode legs; every instance but `encode` fits render and forward legs. */
  candidates(kind: LegKind): Candidates;
  list(): readonly Instance[];
  /** Counts a leg in. Every call is matched by one `legEnded`. */
  legStarted(instance: Instance, rank?: number): void;
  /**
   * `failed`: the instance's fault (connect error, timeout, reset, 5xx); consecutive ones open the breaker.
   * `ok`: it answered (2xx-4xx). `aborted`: the client left, or another leg failed; says nothing about the instance.
   */
  legEnded(instance: Instance, outcome: 'ok' | 'failed' | 'aborted', reason?: string, rank?: number): void;
}

/** Who is in the fleet, for those who keep something per instance. Each `on...` returns how to stop listening. */
export interface FleetRoster {
  list(): readonly Instance[];
  get(id: InstanceId): Instance | undefined;
  onAdded(listener: (instance: Instance) => void): () => void;
  onRemoved(listener: (instance: Instance) => void): () => void;
  /** State, breaker, models, version or engine facts changed: also what a restart looks like. */
  onChanged(listener: (instance: Instance) => void): () => void;
  /** Lets an instance join that announced itself, without waiting for its probe. Throws PdscopeError as `Fleet.addConfigured`. */
  join(spec: InstanceSpec, registeredBy: 'moriio'): Instance;
  /** Takes an instance out that announced itself and fell silent: drained when requests are in flight. */
  leave(id: InstanceId, reason: string): void;
  /** Asks an instance for its health and facts now instead of at the next turn. */
  recheck(id: InstanceId): void;
}

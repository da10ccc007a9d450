/** The part of the fleet that the proxy's hot path uses. */
import type { LegKind } from '#shared/vocabulary.ts';
import type { Instance } from './instance.ts';

export interface Candidates {
  /** Instances that may take the leg now, in the order they were added. */
  readonly routable: readonly Instance[];
  /** Instances of a fitting role that may not, and why (`down: connection refused`, `draining`, `breaker open`). */
  readonly excluded: readonly { readonly instance: Instance; readonly reason: string }[];
}

export interface LegScheduler {
  /** Cached between fleet changes; cheap enough for every leg. `both` instances fit prefill and decode legs. */
  candidates(kind: LegKind): Candidates;
  list(): readonly Instance[];
  /** Counts a leg in. Every call is matched by one `legEnded`. */
  legStarted(instance: Instance): void;
  /**
   * `failed`: the instance's fault (connect error, timeout, reset, 5xx); consecutive ones open the breaker.
   * `ok`: it answered (2xx-4xx). `aborted`: the client left, or another leg failed; says nothing about the instance.
   */
  legEnded(instance: Instance, outcome: 'ok' | 'failed' | 'aborted', reason?: string): void;
}

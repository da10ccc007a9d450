/** What the routes of one instance share. */
import type { EngineCore } from './engine-core.ts';
import type { EngineLife } from './engine-life.ts';
import type { Prng } from './prng.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

export interface SimContext {
  readonly options: ResolvedSimOptions;
  /** The current life; another after a restart. */
  readonly life: () => EngineLife;
  readonly prng: Prng;
  /** Factor on all simulated times. */
  readonly slowdown: () => number;
  /** Fault `wrong-cached-tokens`. */
  readonly isLying: () => boolean;
  /** Inference requests in flight, for /load. */
  readonly inFlight: () => number;
}

/** The core with the least work. */
export function leastLoaded(cores: readonly EngineCore[]): EngineCore {
  const load = (core: EngineCore): number => core.running + core.waitingCapacity + core.waitingDeferred;
  const [first, ...rest] = cores;
  if (first === undefined) throw new Error('an instance has at least one engine core');
  return rest.reduce((best, core) => (load(core) < load(best) ? core : best), first);
}

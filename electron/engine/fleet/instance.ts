/**
 * One engine endpoint as the engine process holds it. Mutable, owned by the fleet: others read it, and change it only
 * through the fleet's methods. `pool` is the instance's only way out to HTTP for legs.
 */
import type { Pool } from 'undici';
import type { InstanceId } from '#shared/ids.ts';
import type { BreakerState, EngineGauges, InstanceState, KvEventsConfig } from '#shared/instance.ts';
import type { Role } from '#shared/vocabulary.ts';

export interface Instance {
  readonly id: InstanceId;
  readonly name: string;
  readonly role: Role;
  /** Scheme, host and port, no path, no trailing slash. */
  readonly origin: string;
  readonly isSimulated: boolean;
  readonly pool: Pool;
  readonly kvEvents: KvEventsConfig | undefined;
  readonly addedAtUnixMs: number;
  state: InstanceState;
  stateReason: string | undefined;
  stateSinceUnixMs: number;
  breaker: BreakerState;
  consecutiveFailures: number;
  models: readonly string[];
  maxModelLen: number | undefined;
  version: string | undefined;
  gauges: EngineGauges | undefined;
  scrapeError: string | undefined;
  /** Legs under way now. */
  inFlight: number;
  served: number;
  failed: number;
}

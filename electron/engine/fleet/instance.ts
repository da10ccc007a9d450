/**
 * One engine endpoint as the engine process holds it. Mutable, owned by the fleet: others read it, and change it only
 * through the fleet's methods. `pool` is the instance's only way out to HTTP for legs.
 */
import type { Pool } from 'undici';
import type { InstanceId } from '#shared/ids.ts';
import type { BreakerState, EngineGauges, InstanceState, InstanceView, KvEventsConfig, TransferFacts } from '#shared/instance.ts';
import type { Role } from '#shared/vocabulary.ts';

export interface Instance {
  readonly id: InstanceId;
  readonly name: string;
  readonly role: Role;
  /** Scheme, host and port, no path, no trailing slash. */
  readonly origin: string;
  readonly isSimulated: boolean;
  readonly pool: Pool;
  /** Given, or found out from the engine. */
  kvEvents: KvEventsConfig | undefined;
  readonly addedAtUnixMs: number;
  /** Mooncake bootstrap port, when given. */
  readonly bootstrapPort: number | undefined;
  /** KV bytes per token, when given. */
  readonly kvBytesPerToken: number | undefined;
  readonly registeredBy: 'moriio' | undefined;
  /** Data-parallel ranks; 1 until found out otherwise. */
  dpSize: number;
  dpSizeSource: InstanceView['dpSizeSource'];
  /** Legs under way per rank; as long as `dpSize`. Legs without a rank are not in it. */
  rankInFlight: number[];
  /** Where the search for the least busy rank begins. */
  nextRank: number;
  transfer: TransferFacts | undefined;
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

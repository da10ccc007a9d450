import type { Logger } from '../log.ts';
import type { LegTimeouts } from './managed-instance.ts';

export interface FleetOptions {
  readonly logger: Logger;
  /** Default 2000. */
  readonly scrapeIntervalMs?: number;
  /** Default 2000. */
  readonly healthIntervalMs?: number;
  /** For one probe, health or scrape request. Default 3000. */
  readonly probeTimeoutMs?: number;
  /** Consecutive failed legs that open the breaker. Default 3. */
  readonly breakerThreshold?: number;
  /** Connections per instance. Default: no limit, so that no leg waits behind a running stream. */
  readonly connections?: number;
  /** Of legs. Default: connect 5 s, headers 30 min, idle 5 min. */
  readonly timeouts?: Partial<LegTimeouts>;
  /** Header that tags pdscope's own probes and scrapes. Default `x-pdscope-probe`. */
  readonly ownHeader?: string;
  /** Sent as a bearer token with probes and scrapes, for engines started with --api-key. Default: none. */
  readonly apiKey?: string;
}

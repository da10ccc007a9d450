/** The engine's parts, as operations and the state see them. */
import type { InstanceView } from '#shared/instance.ts';
import type { CacheHits } from './cache-hits/cache-hits.ts';
import type { Cache } from './cache/cache.ts';
import type { Demo } from './demo.ts';
import type { EngineSettings } from './engine-options.ts';
import type { Findings } from './findings/findings.ts';
import type { Fleet } from './fleet/fleet.ts';
import type { Instance } from './fleet/instance.ts';
import { instanceView } from './instance-view.ts';
import type { KvEvents } from './kv-events/kv-events.ts';
import type { ProcessGauges } from './process-gauges.ts';
import type { Proxy } from './proxy/proxy.ts';
import type { Telemetry } from './telemetry/telemetry.ts';

export interface EngineParts {
  readonly settings: EngineSettings;
  readonly version: string;
  readonly host: 'headless' | 'desktop';
  readonly startedAtUnixMs: number;
  readonly fleet: Fleet;
  readonly kvEvents: KvEvents;
  readonly telemetry: Telemetry;
  readonly findings: Findings;
  readonly cache: Cache;
  readonly cacheHits: CacheHits;
  readonly proxy: Proxy;
  readonly gauges: ProcessGauges;
  /** Absent outside demo mode. */
  readonly demo: Demo | undefined;
}

/** The view of one instance with everything the parts know about it. */
export function viewOf({ telemetry, kvEvents }: Pick<EngineParts, 'telemetry' | 'kvEvents'>, instance: Instance): InstanceView {
  return instanceView(instance, {
    latency: telemetry.instanceLatency(instance.id),
    rates: telemetry.instanceRates(instance.id),
    streams: kvEvents.streamsOf(instance.id),
    rankLatency: (rank) => telemetry.rankLatency(instance.id, rank),
  });
}

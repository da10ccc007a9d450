/** An instance as views show it: the fleet's facts beside what telemetry and the KV events say about it. */
import type { InstanceLatency, InstanceView } from '#shared/instance.ts';
import type { StreamId } from '#shared/ids.ts';
import type { Instance } from './fleet/instance.ts';

/** What others know about an instance. */
export interface InstanceFacts {
  readonly latency: InstanceLatency;
  readonly rates: { readonly tokensPerSecond?: number; readonly errors5m: number };
  readonly streams: readonly StreamId[];
  readonly rankLatency: (rank: number) => InstanceLatency;
}

export function instanceView(instance: Instance, { latency, rates, streams, rankLatency }: InstanceFacts): InstanceView {
  const { stateReason, version, gauges, scrapeError, kvEvents } = instance;
  return {
    id: instance.id,
    name: instance.name,
    role: instance.role,
    url: instance.origin,
    isSimulated: instance.isSimulated,
    state: instance.state,
    ...(stateReason !== undefined && { stateReason }),
    stateSinceUnixMs: instance.stateSinceUnixMs,
    breaker: instance.breaker,
    consecutiveFailures: instance.consecutiveFailures,
    models: instance.models,
    ...(version !== undefined && { version }),
    dpSize: instance.dpSize,
    dpSizeSource: instance.dpSizeSource,
    ...(instance.dpSize > 1 && { ranks: instance.rankInFlight.map((inFlight, rank) => ({ rank, inFlight, latency: rankLatency(rank) })) }),
    ...(instance.transfer !== undefined && { transfer: instance.transfer }),
    ...(instance.bootstrapPort !== undefined && { bootstrapPort: instance.bootstrapPort }),
    ...(instance.kvBytesPerToken !== undefined && { kvBytesPerToken: instance.kvBytesPerToken }),
    ...(instance.registeredBy !== undefined && { registeredBy: instance.registeredBy }),
    inFlight: instance.inFlight,
    served: instance.served,
    failed: instance.failed,
    ...(gauges !== undefined && { engine: gauges }),
    ...(scrapeError !== undefined && { scrapeError }),
    latency,
    ...(rates.tokensPerSecond !== undefined && { tokensPerSecond: rates.tokensPerSecond }),
    errors5m: rates.errors5m,
    ...(kvEvents !== undefined && { kvEvents }),
    streams,
  };
}

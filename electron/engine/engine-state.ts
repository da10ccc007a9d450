/** Assembles the state that pages show: every gauge of one instant. */
import type { EngineState } from '#shared/state.ts';
import { viewOf, type EngineParts } from './engine-parts.ts';

export function engineState(parts: EngineParts, proxyUrl: string | undefined): EngineState {
  const { fleet, kvEvents, telemetry, findings, cache, proxy, gauges, settings, demo } = parts;
  const { promptTokens5m, cachedTokens5m } = telemetry;
  const instances = fleet.list();
  return {
    version: parts.version,
    host: parts.host,
    startedAtUnixMs: parts.startedAtUnixMs,
    nowUnixMs: Date.now(),
    ...(proxyUrl !== undefined && { proxyUrl }),
    connector: proxy.connector,
    policy: proxy.policy,
    protocol: proxy.protocol,
    findings: findings.summary(),
    hasAdminKey: settings.adminApiKey !== undefined,
    isCapturing: telemetry.isCapturing,
    isExplaining: cache.isExplaining,
    unexplained: cache.unexplained,
    process: gauges.read(),
    totals: { ...telemetry.totals(), kvEventsPerSecond: kvEvents.eventsPerSecond() },
    latency: telemetry.fleetLatency(),
    ...(promptTokens5m !== undefined && { promptTokens5m }),
    ...(cachedTokens5m !== undefined && { cachedTokens5m }),
    instances: instances.map((instance) => viewOf(parts, instance)),
    streams: kvEvents.streams(),
    edges: telemetry.edges(),
    rings: ringCounters(parts),
    telemetryDropped: telemetry.dropped,
    ...(demo !== undefined && { simulation: demo.view(instances) }),
  };
}

export function ringCounters({ telemetry, kvEvents }: Pick<EngineParts, 'telemetry' | 'kvEvents'>): EngineState['rings'] {
  return { requests: telemetry.log.counters(), kv: kvEvents.log.counters() };
}

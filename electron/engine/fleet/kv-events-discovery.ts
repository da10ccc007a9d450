/**
 * Where to subscribe to an engine that told its `kv_events_config` (vllm/config/kv_events.py). An endpoint with `*` or
 * `::` is one the engine binds, on every address of its machine: it is reached at the instance's own host. Any other
 * tcp endpoint is one the engine connects to, where somebody else listens, perhaps for several engines: that is left to
 * the operator, and so are sockets of another machine's file system.
 */
import { KvEventsConfigSchema, type KvEventsConfig } from '#shared/instance.ts';
import { kindOfHost } from './host-kind.ts';
import type { ServerFacts } from './server-info.ts';

const BOUND = /^tcp:\/\/(?:\*|0\.0\.0\.0|\[?::\]?):(\d{1,5})$/u;

/** undefined when the engine cannot be subscribed to by what it said. `ranks` is 1; further ranks are opened as they are found. */
export function discoverKvEvents(origin: string, told: NonNullable<ServerFacts['kvEvents']>): KvEventsConfig | undefined {
  const { hostname } = new URL(origin);
  const { firstRank = 0 } = told;
  const endpoint = reachable(hostname, told.endpoint, firstRank);
  if (endpoint === undefined) return undefined;
  const replayEndpoint = told.replayEndpoint === undefined ? undefined : reachable(hostname, told.replayEndpoint, firstRank);
  const parsed = KvEventsConfigSchema.safeParse({ endpoint, topic: told.topic, ...(replayEndpoint !== undefined && { replayEndpoint }) });
  return parsed.success ? parsed.data : undefined;
}

/** Ports count on over all nodes (vllm/distributed/kv_events.py, offset_endpoint_port). */
function reachable(hostname: string, endpoint: string, firstRank: number): string | undefined {
  const base = BOUND.exec(endpoint)?.[1];
  if (base !== undefined) {
    const port = Number(base) + firstRank;
    return port > 65_535 ? undefined : `tcp://${hostname}:${port}`;
  }
  return endpoint.startsWith('ipc://') && kindOfHost(hostname) === 'loopback' ? endpoint : undefined;
}

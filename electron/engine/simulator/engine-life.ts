/**
 * Everything of an instance that a restart replaces: engine cores with their caches, publishers with their numbers, and
 * metrics. A new life has a new engine id and new block hashes.
 */
import type { KvEventsConfig } from '#shared/instance.ts';
import { addCacheConfigInfo } from './cache-config-info.ts';
import { EncodeEngine } from './encode-engine.ts';
import { EngineCore } from './engine-core.ts';
import { createEngineMetrics } from './engine-metrics.ts';
import { HttpMetrics } from './http-metrics.ts';
import { openKvPublishers, type KvPublishers } from './kv-publishers.ts';
import { MediaCache } from './media-cache.ts';
import { MetricsRegistry } from './metrics-registry.ts';
import type { NixlSideChannel } from './nixl-side-channel.ts';
import { uuidFrom, type Prng } from './prng.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

export interface EngineLifeOptions {
  readonly options: ResolvedSimOptions;
  readonly prng: Prng;
  readonly sideChannel: NixlSideChannel | undefined;
  readonly slowdown: () => number;
  /** Ports of an earlier life, to be bound again. */
  readonly kvEvents: KvEventsConfig | undefined;
}

export interface EngineLife {
  readonly engineId: string;
  readonly startedAtUnixS: number;
  readonly cores: readonly EngineCore[];
  readonly encoder: EncodeEngine | undefined;
  readonly media: MediaCache;
  readonly publishers: KvPublishers | undefined;
  readonly registry: MetricsRegistry;
  readonly http: HttpMetrics;
  close(): void;
}

function portOf(endpoint: string | undefined): number | undefined {
  return endpoint === undefined ? undefined : Number(endpoint.slice(endpoint.lastIndexOf(':') + 1));
}

async function openPublishers({ options, kvEvents }: EngineLifeOptions): Promise<KvPublishers | undefined> {
  if (options.kvEvents === false) return undefined;
  const port = portOf(kvEvents?.endpoint);
  const replayPort = portOf(kvEvents?.replayEndpoint);
  return openKvPublishers({
    host: options.host,
    ranks: options.dpSize,
    events: { ...options.kvEvents, ...(port !== undefined && { port }), ...(replayPort !== undefined && { replayPort }) },
  });
}

/** Throws `sim-bind-failed` when a KV-event port is taken. */
export async function openEngineLife(input: EngineLifeOptions): Promise<EngineLife> {
  const { options, prng, sideChannel } = input;
  const publishers = await openPublishers(input);
  const registry = new MetricsRegistry();
  const engineId = uuidFrom(prng);
  const hashSeed = prng.hex(64);
  const cores = Array.from({ length: options.dpSize }, (_, rank) => {
    const core = new EngineCore({
      options,
      rank,
      // vLLM appends the rank to the id in the engine process when there are several.
      engineId: options.dpSize > 1 ? `${engineId}_dp${rank}` : engineId,
      hashSeed,
      slowdown: input.slowdown,
      publish: (events) => publishers?.publish(rank, events),
      sideChannel,
    });
    const metrics = createEngineMetrics({
      registry,
      model: options.model,
      rank,
      maxModelLen: options.maxModelLen,
      hasNixl: options.nixl,
      gauges: {
        running: () => core.running,
        waitingCapacity: () => core.waitingCapacity,
        waitingDeferred: () => core.waitingDeferred,
        kvUsage: () => core.cache.usage,
      },
    });
    core.attachMetrics(metrics);
    addCacheConfigInfo(registry, options, rank);
    return { core, metrics };
  });
  const first = cores[0];
  if (first === undefined) throw new Error('openEngineLife: dpSize is 0');
  const media = new MediaCache(options.encoderStore, first.metrics);
  const encoder =
    options.role === 'encode' ? new EncodeEngine({ options, metrics: first.metrics, media, slowdown: input.slowdown }) : undefined;
  return {
    engineId,
    startedAtUnixS: Math.floor(Date.now() / 1000),
    cores: cores.map(({ core }) => core),
    encoder,
    media,
    publishers,
    registry,
    http: new HttpMetrics(registry),
    close() {
      for (const { core } of cores) core.close();
      publishers?.close();
    },
  };
}

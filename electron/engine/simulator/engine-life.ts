/**
 * Everything of an instance that a restart replaces: engine cores with their caches, publishers with their numbers, and
 * metrics. A new life has a new engine id and new block hashes.
 */
import { errorMessage } from '#shared/errors.ts';
import type { KvEventsConfig } from '#shared/instance.ts';
import { hostInUrl } from '../fleet/host-kind.ts';
import { addCacheConfigInfo } from './cache-config-info.ts';
import { EncodeEngine } from './encode-engine.ts';
import { EngineCore } from './engine-core.ts';
import { createEngineMetrics } from './engine-metrics.ts';
import { HttpMetrics } from './http-metrics.ts';
import { openKvPublishers, type KvPublishers } from './kv-publishers.ts';
import { MediaCache } from './media-cache.ts';
import { MetricsRegistry } from './metrics-registry.ts';
import { uuidFrom, type Prng } from './prng.ts';
import type { ResolvedSimOptions } from './sim-options.ts';
import type { TransferPorts } from './transfer/kv-transfer-config.ts';
import { openBootstrapServer, registerWorker, type BootstrapServer } from './transfer/mooncake-bootstrap.ts';
import type { SideChannel } from './transfer/side-channel.ts';

export interface EngineLifeOptions {
  readonly options: ResolvedSimOptions;
  readonly prng: Prng;
  /** Ports for peers, by rank; each rank has none, one, or (MoRIIO) two. */
  readonly sideChannels: readonly (readonly SideChannel[])[];
  /** An assertion failed in one of the cores; all of them are closed by then. */
  readonly onDeath: (reason: string) => void;
  readonly slowdown: () => number;
  /** Ports of an earlier life, to be bound again. */
  readonly kvEvents: KvEventsConfig | undefined;
  readonly bootstrapPort: number | undefined;
}

export interface EngineLife {
  /** Without the rank that engine processes append. */
  readonly engineId: string;
  /** The assertion that killed it; undefined while it lives. */
  readonly death: string | undefined;
  readonly startedAtUnixS: number;
  readonly cores: readonly EngineCore[];
  readonly encoder: EncodeEngine | undefined;
  readonly media: MediaCache;
  readonly publishers: KvPublishers | undefined;
  readonly registry: MetricsRegistry;
  readonly http: HttpMetrics;
  /** Where peers reach it. */
  readonly transferPorts: TransferPorts;
  close(): Promise<void>;
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

/** Mooncake's, on instances that may be asked for KV. It belongs to the engine process and goes with it. */
async function openBootstrap({ options, bootstrapPort }: EngineLifeOptions): Promise<BootstrapServer | undefined> {
  const isWanted = options.transfer === 'mooncake' && (options.role === 'prefill' || options.role === 'both');
  return isWanted ? openBootstrapServer(options.host, bootstrapPort ?? options.bootstrapPort) : undefined;
}

/** Workers register one after the other, in the background: until then `/query` is incomplete, as it is with engines. */
async function registerWorkers(bootstrap: BootstrapServer, input: EngineLifeOptions, engineIds: readonly string[]): Promise<void> {
  const { logger, host, name } = input.options;
  const address = hostInUrl(host);
  try {
    for (const [rank, engineId] of engineIds.entries()) {
      const port = input.sideChannels[rank]?.[0]?.port ?? 0;
      await registerWorker(`http://${address}:${bootstrap.port}`, { engineId, rank, addr: `tcp://${address}:${port}` });
    }
  } catch (error) {
    // Closed meanwhile: a life may be shorter than its registration.
    logger.debug({ instance: name, error: errorMessage(error) }, 'mooncake workers did not all register');
  }
}

/** Throws `sim-bind-failed` when a KV-event port or the bootstrap port is taken. */
export async function openEngineLife(input: EngineLifeOptions): Promise<EngineLife> {
  const { options, prng } = input;
  const publishers = await openPublishers(input);
  const bootstrap = await openBootstrap(input).catch((error: unknown) => {
    publishers?.close();
    throw error;
  });
  const registry = new MetricsRegistry();
  const engineId = uuidFrom(prng);
  const hashSeed = prng.hex(64);
  // vLLM appends the rank to the id in the engine process when there are several.
  const idOf = (rank: number): string => (options.dpSize > 1 ? `${engineId}_dp${rank}` : engineId);
  let death: string | undefined;
  const onFatal = (reason: string): void => {
    if (death !== undefined) return;
    death = reason;
    // One engine process that dies takes the others of its API server with it.
    for (const { core } of cores) core.close();
    input.onDeath(reason);
  };
  const cores = Array.from({ length: options.dpSize }, (_, rank) => {
    const core = new EngineCore({
      options,
      rank,
      engineId: idOf(rank),
      hashSeed,
      slowdown: input.slowdown,
      publish: (events) => publishers?.publish(rank, events),
      sideChannels: input.sideChannels[rank] ?? [],
      onFatal,
    });
    const metrics = createEngineMetrics({
      registry,
      model: options.model,
      rank,
      maxModelLen: options.maxModelLen,
      hasConnector: options.transfer !== 'none',
      hasNixl: options.transfer === 'nixl' || options.transfer === 'nixl-push',
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
  if (bootstrap !== undefined) void registerWorkers(bootstrap, input, cores.map((_, rank) => idOf(rank)));
  let isClosed = false;
  const first = cores[0];
  if (first === undefined) throw new Error('openEngineLife: dpSize is 0');
  const media = new MediaCache(options.encoderStore, first.metrics);
  const encoder =
    options.role === 'encode' ? new EncodeEngine({ options, metrics: first.metrics, media, slowdown: input.slowdown }) : undefined;
  return {
    engineId,
    get death() {
      return death;
    },
    startedAtUnixS: Math.floor(Date.now() / 1000),
    cores: cores.map(({ core }) => core),
    encoder,
    media,
    publishers,
    registry,
    http: new HttpMetrics(registry),
    transferPorts: {
      port: input.sideChannels[0]?.[0]?.port ?? 0,
      notifyPort: input.sideChannels[0]?.[1]?.port ?? 0,
      bootstrapPort: bootstrap?.port,
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      for (const { core } of cores) core.close();
      publishers?.close();
      await bootstrap?.close();
    },
  };
}

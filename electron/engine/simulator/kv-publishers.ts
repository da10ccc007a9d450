/** The publishers of all data-parallel ranks of one instance: rank r binds base port + r, for PUB and for replay. */
import type { KvEventsConfig } from '#shared/instance.ts';
import { PdscopeError } from '#shared/errors.ts';
import { neighbouringPorts } from './free-port.ts';
import type { KvEvent } from './kv-event.ts';
import { openKvPublisher, type KvPublisher, type PublishCounters } from './kv-publisher.ts';
import type { SimKvEventsOptions } from './sim-options.ts';

const DEFAULT_TOPIC = 'kv-events';
const RANGE_ATTEMPTS = 20;

export interface KvPublishersOptions {
  readonly host: string;
  readonly ranks: number;
  readonly events: SimKvEventsOptions;
}

export interface KvPublishers {
  /** For subscribers; the real ports. */
  readonly config: KvEventsConfig;
  publish(rank: number, events: readonly KvEvent[]): void;
  skipNext(batches: number): void;
  /** Batches still to be kept back, over all ranks. */
  pendingGap(): number;
  /** Sums over the ranks. */
  counters(): PublishCounters;
  close(): void;
}

interface Ports {
  /** undefined: the system chooses. */
  readonly pub: number | undefined;
  readonly replay: number | undefined;
}

function portOf(endpoint: string): number {
  return Number(endpoint.slice(endpoint.lastIndexOf(':') + 1));
}

async function openRank(options: KvPublishersOptions, rank: number, ports: Ports, bindAttempts?: number): Promise<KvPublisher> {
  const { host, events } = options;
  const address = host.includes(':') ? `[${host}]` : host;
  const endpoint = (base: number | undefined): string => `tcp://${address}:${base === undefined ? '*' : base + rank}`;
  return openKvPublisher({
    endpoint: endpoint(ports.pub),
    ...(events.replay !== false && { replayEndpoint: endpoint(ports.replay) }),
    topic: events.topic ?? DEFAULT_TOPIC,
    format: { encoding: events.encoding ?? 'map', hashForm: events.hashForm ?? 'int' },
    rank,
    ...(events.bufferSteps !== undefined && { bufferSteps: events.bufferSteps }),
    ...(events.replayLayout !== undefined && { replayLayout: events.replayLayout }),
    ...(bindAttempts !== undefined && { bindAttempts }),
  });
}

/** All ranks or none. The ports of ranks above 0 follow from rank 0's, so a chosen base must have free neighbours. */
async function openRange(options: KvPublishersOptions, ports: Ports, bindAttempts?: number): Promise<KvPublisher[]> {
  const opened: KvPublisher[] = [];
  try {
    for (let rank = 0; rank < options.ranks; rank += 1) {
      const first = opened[0];
      const base: Ports =
        first === undefined
          ? ports
          : {
              pub: portOf(first.endpoint),
              replay: first.replayEndpoint === undefined ? undefined : portOf(first.replayEndpoint),
            };
      opened.push(await openRank(options, rank, base, bindAttempts));
    }
    return opened;
  } catch (error) {
    for (const publisher of opened) publisher.close();
    throw error;
  }
}

async function openAll(options: KvPublishersOptions): Promise<KvPublisher[]> {
  const ports: Ports = { pub: options.events.port || undefined, replay: options.events.replayPort || undefined };
  if (ports.pub !== undefined || options.ranks === 1) return openRange(options, ports);
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await openRange(options, { pub: neighbouringPorts(options.ranks), replay: ports.replay ?? neighbouringPorts(options.ranks) }, 1);
    } catch (error) {
      if (attempt >= RANGE_ATTEMPTS) {
        throw new PdscopeError('sim-bind-failed', `Found no ${options.ranks} neighbouring ports for KV events: give a port.`, { cause: error });
      }
    }
  }
}

/** Throws `sim-bind-failed`. */
export async function openKvPublishers(options: KvPublishersOptions): Promise<KvPublishers> {
  const publishers = await openAll(options);
  const first = publishers[0];
  if (first === undefined) throw new Error('openKvPublishers: no ranks');
  return {
    config: {
      endpoint: first.endpoint.replace('0.0.0.0', '127.0.0.1'),
      ...(first.replayEndpoint !== undefined && { replayEndpoint: first.replayEndpoint.replace('0.0.0.0', '127.0.0.1') }),
      topic: options.events.topic ?? DEFAULT_TOPIC,
      ranks: options.ranks,
      mode: 'connect',
    },
    publish: (rank, events) => publishers[rank]?.publish(events),
    skipNext: (batches) => {
      for (const publisher of publishers) publisher.skipNext(batches);
    },
    pendingGap: () => publishers.reduce((sum, publisher) => sum + publisher.pendingGap, 0),
    counters() {
      const sum: PublishCounters = { batches: 0, events: 0, bytes: 0, skipped: 0, replayRequests: 0, replayedBatches: 0, subscriptions: 0 };
      for (const { counters } of publishers) {
        for (const key of Object.keys(sum) as (keyof PublishCounters)[]) sum[key] += counters[key];
      }
      return sum;
    },
    close: () => {
      for (const publisher of publishers) publisher.close();
    },
  };
}

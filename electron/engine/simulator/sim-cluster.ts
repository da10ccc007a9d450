/** A small simulated fleet in this process: the demo, and most tests' surroundings. */
import type { Role } from '#shared/vocabulary.ts';
import { freePort } from './free-port.ts';
import { createEncoderStore } from './media-cache.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from './sim-instance.ts';

type Shared = Omit<SimInstanceOptions, 'role' | 'name' | 'port' | 'peerPort' | 'bootstrapPort' | 'kvEvents'>;

/** What differs between the instances of a cluster: called for each, at every start. */
export type InstanceFlags = (role: Role) => Shared;

export interface SimClusterOptions extends Shared {
  /** Instances by role. Defaults: no encode, 2 prefill, 3 decode, no both. */
  readonly encode?: number;
  readonly prefill?: number;
  readonly decode?: number;
  readonly both?: number;
  /** Default: events on, map encoding, integer hashes, with replay. Ports are always chosen by the system. */
  readonly kvEvents?: SimInstanceOptions['kvEvents'];
  /** Default: nothing beyond what is shared. */
  readonly flags?: InstanceFlags;
}

export interface SimCluster {
  /** Encode, prefill, decode, both; each in order of number. */
  readonly instances: readonly SimInstance[];
  byUrl(url: string): SimInstance | undefined;
  /** Where a prefill or both instance has its Mooncake bootstrap server whenever it runs with Mooncake. */
  bootstrapPortOf(instance: SimInstance): number | undefined;
  /**
   * Ends every instance and starts it at the same addresses with other flags, as a deployment does that changes its command
   * lines: caches are empty, engine ids new, requests under way are cut. Throws what a failing instance threw; the others
   * are up then.
   */
  restart(flags: InstanceFlags): Promise<void>;
  close(): Promise<void>;
}

const LETTERS: Readonly<Record<Role, string>> = { encode: 'E', prefill: 'P', decode: 'D', both: 'B' };
/** Between the seeds of one instance's lives. */
const SEED_STEP = 500;

interface Place {
  readonly role: Role;
  readonly name: string;
  readonly seed: number;
}

function portOf(endpoint: string | undefined): number | undefined {
  return endpoint === undefined ? undefined : Number(endpoint.slice(endpoint.lastIndexOf(':') + 1));
}

/** The addresses of an instance, as options to have them again. */
function addressesOf(instance: SimInstance | undefined, kvEvents: SimInstanceOptions['kvEvents']): Partial<SimInstanceOptions> {
  if (instance === undefined) return { kvEvents: kvEvents ?? {} };
  const port = portOf(instance.url);
  const pubPort = portOf(instance.kvEvents?.endpoint);
  const replayPort = portOf(instance.kvEvents?.replayEndpoint);
  return {
    ...(port !== undefined && { port }),
    kvEvents:
      kvEvents === false || instance.kvEvents === undefined
        ? false
        : { ...kvEvents, ...(pubPort !== undefined && { port: pubPort }), ...(replayPort !== undefined && { replayPort }) },
  };
}

class RunningCluster implements SimCluster {
  readonly #places: readonly Place[];
  readonly #shared: Shared;
  readonly #kvEvents: SimInstanceOptions['kvEvents'];
  readonly #instances: (SimInstance | undefined)[];
  readonly #bootstrapPorts = new Map<string, number>();
  #lives = 0;

  constructor(options: SimClusterOptions) {
    const { encode = 0, prefill = 2, decode = 3, both = 0, seed = 1, kvEvents = {}, flags: _flags, ...shared } = options;
    const counts: readonly (readonly [Role, number])[] = [
      ['encode', encode],
      ['prefill', prefill],
      ['decode', decode],
      ['both', both],
    ];
    const wanted = counts.flatMap(([role, count]) => Array.from({ length: count }, (_, index) => ({ role, name: `${LETTERS[role]}${index}` })));
    this.#places = wanted.map((place, position) => ({ ...place, seed: seed * 1000 + position }));
    this.#kvEvents = kvEvents;
    this.#shared = { ...(encode > 0 && { encoderStore: createEncoderStore() }), ...shared };
    this.#instances = this.#places.map(() => undefined);
  }

  get instances(): readonly SimInstance[] {
    return this.#instances.filter((instance) => instance !== undefined);
  }

  byUrl(url: string): SimInstance | undefined {
    return this.instances.find((instance) => instance.url === url.replace(/\/$/u, ''));
  }

  bootstrapPortOf({ name }: SimInstance): number | undefined {
    return this.#bootstrapPorts.get(name);
  }

  async start(flags: InstanceFlags | undefined): Promise<void> {
    const results = await Promise.allSettled(this.#places.map((place, index) => this.#startAt(index, place, flags)));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  async restart(flags: InstanceFlags): Promise<void> {
    this.#lives += 1;
    await this.start(flags);
  }

  async close(): Promise<void> {
    await Promise.all(this.instances.map((instance) => instance.close()));
  }

  async #startAt(index: number, { role, name, seed }: Place, flags: InstanceFlags | undefined): Promise<void> {
    const previous = this.#instances[index];
    // Encoder-only instances run without prefix caching, so they have nothing to publish.
    const bootstrapPort = role === 'prefill' || role === 'both' ? await this.#bootstrapPort(name) : undefined;
    const addresses = addressesOf(previous, role === 'encode' ? false : this.#kvEvents);
    await previous?.close();
    this.#instances[index] = await startSimInstance({
      ...this.#shared,
      ...addresses,
      ...(bootstrapPort !== undefined && { bootstrapPort }),
      ...flags?.(role),
      role,
      name,
      // An engine that is started anew has another engine id.
      seed: seed + this.#lives * SEED_STEP,
    });
  }

  async #bootstrapPort(name: string): Promise<number> {
    const known = this.#bootstrapPorts.get(name);
    if (known !== undefined) return known;
    const port = await freePort(this.#shared.host ?? '127.0.0.1');
    this.#bootstrapPorts.set(name, port);
    return port;
  }
}

/** Starts all instances; if one fails, none is left running. Throws what the failing instance threw. */
export async function startSimCluster(options: SimClusterOptions = {}): Promise<SimCluster> {
  const cluster = new RunningCluster(options);
  try {
    await cluster.start(options.flags);
  } catch (error) {
    await cluster.close();
    throw error;
  }
  return cluster;
}

/** A small simulated fleet in this process: the demo, and most tests' surroundings. */
import type { Role } from '#shared/vocabulary.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from './sim-instance.ts';

export interface SimClusterOptions extends Omit<SimInstanceOptions, 'role' | 'name' | 'port' | 'nixlPort' | 'kvEvents'> {
  /** Instances by role. Defaults: no encode, 2 prefill, 3 decode, no both. */
  readonly encode?: number;
  readonly prefill?: number;
  readonly decode?: number;
  readonly both?: number;
  /** Default: events on, map encoding, integer hashes, with replay. Ports are always chosen by the system. */
  readonly kvEvents?: SimInstanceOptions['kvEvents'];
}

export interface SimCluster {
  /** Encode, prefill, decode, both; each in order of number. */
  readonly instances: readonly SimInstance[];
  byUrl(url: string): SimInstance | undefined;
  close(): Promise<void>;
}

const LETTERS: Readonly<Record<Role, string>> = { encode: 'E', prefill: 'P', decode: 'D', both: 'B' };

/** Starts all instances; if one fails, none is left running. Throws what the failing instance threw. */
export async function startSimCluster(options: SimClusterOptions = {}): Promise<SimCluster> {
  const { encode = 0, prefill = 2, decode = 3, both = 0, seed = 1, kvEvents = {}, ...shared } = options;
  const counts: readonly (readonly [Role, number])[] = [
    ['encode', encode],
    ['prefill', prefill],
    ['decode', decode],
    ['both', both],
  ];
  const wanted = counts.flatMap(([role, count]) => Array.from({ length: count }, (_, index) => ({ role, index })));
  const results = await Promise.allSettled(
    wanted.map(({ role, index }, position) =>
      startSimInstance({
        ...shared,
        role,
        name: `${LETTERS[role]}${index}`,
        seed: seed * 1000 + position,
        // Encoder-only instances run without prefix caching, so they have nothing to publish.
        kvEvents: role === 'encode' ? false : kvEvents,
      }),
    ),
  );
  const instances = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const close = async (): Promise<void> => {
    await Promise.all(instances.map((instance) => instance.close()));
  };
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) {
    await close();
    throw failed.reason;
  }
  return {
    instances,
    byUrl: (url) => instances.find((instance) => instance.url === url.replace(/\/$/u, '')),
    close,
  };
}

/** A proxy over the real fleet and simulated engines, for tests of one protocol. */
import { Fleet } from '#engine/fleet/fleet.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import { silentLogger } from '#engine/log.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { createProxy, type Proxy, type ProxyOptions } from '#engine/proxy/proxy.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { ConnectorName, Role } from '#shared/vocabulary.ts';
import { RecordingTracer } from './harness.ts';

export interface SimFleet extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly origin: string;
  readonly fleet: Fleet;
  readonly tracer: RecordingTracer;
  /** In the order of `roles`, as `sims`. */
  readonly instances: readonly Instance[];
  readonly sims: readonly SimInstance[];
  sim(index: number): SimInstance;
}

export interface SimFleetOptions {
  /** Of every engine. */
  readonly sim?: Partial<SimInstanceOptions>;
  /** In place of the proxy's defaults here: round-robin, with the linter, nothing to administer. */
  readonly proxy?: (fleet: Fleet) => Partial<ProxyOptions>;
  /** The fleet has an engine. */
  readonly onAdded?: (instance: Instance, sim: SimInstance) => void;
  /** When the proxy is closed, before the fleet is. */
  readonly onClose?: () => Promise<void>;
}

export const SIM_MODEL = 'sim/Qwen3-8B';

export async function startSimFleet(roles: readonly Role[], connector: ConnectorName, options: SimFleetOptions = {}): Promise<SimFleet> {
  const fleet = new Fleet({ logger: silentLogger, healthIntervalMs: 100, scrapeIntervalMs: 60_000 });
  const sims = await Promise.all(roles.map((role, seed) => startSimInstance({ role, seed, speed: 20, leaseMs: 2000, ...options.sim })));
  const instances: Instance[] = [];
  for (const sim of sims) {
    const instance = await fleet.add({ role: sim.role, url: sim.url });
    instances.push(instance);
    options.onAdded?.(instance, sim);
  }
  const tracer = new RecordingTracer();
  const proxy = createProxy({
    scheduler: fleet,
    fleet,
    tracer,
    logger: silentLogger,
    connector,
    linter: createLinter({ fleet }),
    policy: 'round-robin',
    admin: {
      add: () => Promise.reject(new Error('not scripted')),
      remove: () => Promise.reject(new Error('not scripted')),
    },
    metricsPage: () => Promise.resolve({ contentType: 'text/plain', body: '' }),
    version: 'test',
    ...options.proxy?.(fleet),
  });
  const { port } = await proxy.listen(0, '127.0.0.1');
  return {
    proxy,
    origin: `http://127.0.0.1:${port}`,
    fleet,
    tracer,
    instances,
    sims,
    sim(index) {
      const found = sims[index];
      if (found === undefined) throw new Error(`no simulated instance ${index}`);
      return found;
    },
    async [Symbol.asyncDispose]() {
      await proxy.close();
      await options.onClose?.();
      await fleet.close();
      await Promise.all(sims.map((sim) => sim.close()));
    },
  };
}

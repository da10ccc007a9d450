/** A proxy over the real fleet and simulated engines, for tests of one protocol. */
import { Fleet } from '#engine/fleet/fleet.ts';
import type { Instance } from '#engine/fleet/instance.ts';
import { silentLogger } from '#engine/log.ts';
import { createLinter } from '#engine/proxy/lint/create-linter.ts';
import { createProxy, type Proxy } from '#engine/proxy/proxy.ts';
import { startSimInstance, type SimInstance, type SimInstanceOptions } from '#engine/simulator/sim-instance.ts';
import type { ConnectorName, Role } from '#shared/vocabulary.ts';
import { RecordingTracer } from './harness.ts';

export interface SimFleet extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly origin: string;
  readonly tracer: RecordingTracer;
  readonly instances: readonly Instance[];
  /** In the order of `roles`. */
  sim(index: number): SimInstance;
}

export const SIM_MODEL = 'sim/Qwen3-8B';

export async function startSimFleet(roles: readonly Role[], connector: ConnectorName, options: Partial<SimInstanceOptions> = {}): Promise<SimFleet> {
  const fleet = new Fleet({ logger: silentLogger, healthIntervalMs: 100, scrapeIntervalMs: 60_000 });
  const sims = await Promise.all(roles.map((role) => startSimInstance({ role, speed: 20, leaseMs: 2000, ...options })));
  const instances: Instance[] = [];
  for (const sim of sims) instances.push(await fleet.add({ role: sim.role, url: sim.url }));
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
  });
  const { port } = await proxy.listen(0, '127.0.0.1');
  return {
    proxy,
    origin: `http://127.0.0.1:${port}`,
    tracer,
    instances,
    sim(index) {
      const found = sims[index];
      if (found === undefined) throw new Error(`no simulated instance ${index}`);
      return found;
    },
    async [Symbol.asyncDispose]() {
      await proxy.close();
      await fleet.close();
      await Promise.all(sims.map((sim) => sim.close()));
    },
  };
}

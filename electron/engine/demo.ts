/**
 * The demo: a simulated cluster on real sockets and ordinary clients in front of the proxy. The rest of the engine
 * cannot tell it from vLLM; only the operations of the simulation reach in here.
 */
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import type { SimFault } from '#shared/operations.ts';
import type { SimulationView } from '#shared/state.ts';
import type { EngineSettings } from './engine-options.ts';
import type { Instance } from './fleet/instance.ts';
import type { Logger } from './log.ts';
import { startSimCluster, type SimCluster } from './simulator/sim-cluster.ts';
import type { SimInstance } from './simulator/sim-instance.ts';
import { startTraffic, type Traffic } from './simulator/traffic.ts';

export type DemoSettings = NonNullable<EngineSettings['demo']>;

/** Nobody inspects what the demo's instances received, and a replay of the last thousand batches is plenty. */
const SMALL = { keepReceived: 0, kvEvents: { bufferSteps: 1000 } } as const;

export class Demo {
  readonly #settings: DemoSettings;
  readonly #cluster: SimCluster;
  #traffic: Traffic | undefined;

  private constructor(settings: DemoSettings, cluster: SimCluster) {
    this.#settings = settings;
    this.#cluster = cluster;
  }

  /** Starts the cluster; traffic begins with `startTraffic`, when there is a proxy to send it to. */
  static async start(settings: DemoSettings, logger: Logger): Promise<Demo> {
    const { encode, prefill, decode, both, seed } = settings;
    return new Demo(settings, await startSimCluster({ encode, prefill, decode, both, seed, logger, ...SMALL }));
  }

  /** How the cluster's instances join the fleet. */
  specs(): readonly InstanceSpec[] {
    return this.#cluster.instances.map(({ role, url, kvEvents }) => ({ role, url, ...(kvEvents !== undefined && { kvEvents }) }));
  }

  startTraffic(proxyOrigin: string): void {
    const { requestsPerSecond, seed } = this.#settings;
    const model = this.#cluster.instances[0]?.model;
    this.#traffic = startTraffic({ baseUrl: proxyOrigin, requestsPerSecond, seed, ...(model !== undefined && { model }) });
  }

  setRate(requestsPerSecond: number): void {
    this.#traffic?.setRate(requestsPerSecond);
  }

  /** Throws PdscopeError `not_simulated` for an instance that is not of this process's cluster. */
  async setFault(instance: Instance, fault: SimFault, amount: number | undefined): Promise<void> {
    const sim = this.#simOf(instance);
    if (sim === undefined) {
      throw new PdscopeError('not_simulated', `${instance.name} (${instance.origin}) is not of this demo: faults of another process are set where it was started (pdscope sim --fault).`);
    }
    await sim.setFault(fault, amount);
  }

  view(fleet: readonly Instance[]): SimulationView {
    const stats = this.#traffic?.stats();
    return {
      isRunning: stats !== undefined && stats.requestsPerSecond > 0,
      requestsPerSecond: stats?.requestsPerSecond ?? 0,
      faults: fleet.flatMap((instance) => {
        const fault = this.#simOf(instance)?.fault ?? 'none';
        return fault === 'none' ? [] : [{ instance: instance.id, fault }];
      }),
    };
  }

  /** Clients first: they would count the instances' end as failures. */
  async stopTraffic(): Promise<void> {
    await this.#traffic?.close();
    this.#traffic = undefined;
  }

  async close(): Promise<void> {
    await this.stopTraffic();
    await this.#cluster.close();
  }

  #simOf(instance: Instance): SimInstance | undefined {
    return this.#cluster.byUrl(instance.origin);
  }
}

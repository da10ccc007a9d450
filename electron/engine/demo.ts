/**
 * The demo: a simulated cluster on real sockets and ordinary clients in front of the proxy. The rest of the engine
 * cannot tell it from vLLM; only the operations of the simulation reach in here.
 * Invariant: the cluster runs with the transfer of the protocol in force. An engine has one, so a switch ends the
 * instances and starts them anew at the same addresses, as in a real deployment; clients wait meanwhile. Aggregated
 * serving has instances of its own, which are switched off while a P/D protocol is in force.
 */
import { request } from 'undici';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import type { InstanceSpec } from '#shared/instance.ts';
import type { SimFault } from '#shared/operations.ts';
import type { ProtocolOptions } from '#shared/protocol.ts';
import type { SimulationView } from '#shared/state.ts';
import type { ConnectorName } from '#shared/vocabulary.ts';
import { demoFlags } from './demo-flags.ts';
import type { EngineSettings } from './engine-options.ts';
import type { Fleet } from './fleet/fleet.ts';
import { hostInUrl } from './fleet/host-kind.ts';
import type { Instance } from './fleet/instance.ts';
import type { Logger } from './log.ts';
import { startSimCluster, type SimCluster } from './simulator/sim-cluster.ts';
import type { SimInstance } from './simulator/sim-instance.ts';
import { startTraffic, type Traffic } from './simulator/traffic.ts';

export type DemoSettings = NonNullable<EngineSettings['demo']>;

export interface DemoInput {
  readonly settings: DemoSettings;
  /** Whether somebody asked for these numbers of instances; otherwise the protocol may choose others. */
  readonly hasShape: boolean;
  readonly connector: ConnectorName;
  readonly protocol: ProtocolOptions;
  readonly logger: Logger;
}

/** Nobody inspects what the demo's instances received, and a replay of the last thousand batches is plenty. */
const SMALL = { keepReceived: 0, kvEvents: { bufferSteps: 1000 } } as const;
/** Clients under way may end before a switch; then they leave. */
const SWITCH_GRACE_MS = 1500;
/** A protocol may have to learn from its engines first (bootstrap tables, registrations); then clients begin anyway. */
const SERVING_DEADLINE_MS = 15_000;
const POLL_MS = 25;
/** Registrations come at once, unless something is wrong; then the engine starts without them. */
const JOIN_DEADLINE_MS = 1500;

/** MoRIIO engines join the fleet by registering themselves. */
function isSelfRegistering(connector: ConnectorName, instance: SimInstance): boolean {
  return connector === 'moriio' && (instance.role === 'prefill' || instance.role === 'decode');
}

export class Demo {
  readonly #input: DemoInput;
  /** Prefill and decode (and what else the shape has); undefined until a protocol needs it. */
  #pairs: SimCluster | undefined;
  /** Instances for aggregated serving; undefined until needed, or when the shape has some. */
  #whole: SimCluster | undefined;
  #connector: ConnectorName;
  #traffic: Traffic | undefined;
  #proxyOrigin: string | undefined;
  /** As asked for; clients keep to it unless they are held back. */
  #rate: number;
  #holds = 0;
  #lastSwitch: Promise<void> = Promise.resolve();

  private constructor(input: DemoInput) {
    this.#input = input;
    this.#connector = input.connector;
    this.#rate = input.settings.requestsPerSecond;
  }

  /** Starts the cluster; traffic begins with `startTraffic`, when there is a proxy to send it to. */
  static async start(input: DemoInput): Promise<Demo> {
    const demo = new Demo(input);
    await demo.#startMissing();
    return demo;
  }

  /** How the cluster's instances join the fleet. */
  specs(): readonly InstanceSpec[] {
    return this.#instances().flatMap((instance) => (isSelfRegistering(this.#connector, instance) ? [] : [this.#specOf(instance)]));
  }

  /** Resolves when all instances are in the fleet: those that register themselves come a moment after the proxy listens. */
  joined(fleet: Fleet): Promise<void> {
    return until(() => this.#instances().every(({ url, role }) => fleet.findByAddress(url, role) !== undefined), JOIN_DEADLINE_MS);
  }

  /** Clients begin once the proxy can serve them. */
  startTraffic(proxyOrigin: string): void {
    const model = this.#instances()[0]?.model;
    this.#proxyOrigin = proxyOrigin;
    this.#traffic = startTraffic({
      baseUrl: proxyOrigin,
      requestsPerSecond: 0,
      seed: this.#input.settings.seed,
      ...(model !== undefined && { model }),
      ...this.#flavour(this.#connector),
    });
    this.#holds += 1;
    void this.#letGo();
  }

  setRate(requestsPerSecond: number): void {
    this.#rate = requestsPerSecond;
    if (this.#holds === 0) this.#traffic?.setRate(requestsPerSecond);
  }

  /**
   * Switches to another protocol while no client is under way: `setConnector` puts it in force at the proxy, and its
   * engines run when this resolves. Rejects with what `setConnector` rejects with (then nothing changed), and with
   * PdscopeError `sim-bind-failed`.
   */
  useConnector(connector: ConnectorName, { fleet, setConnector }: { readonly fleet: Fleet; readonly setConnector: () => Promise<void> }): Promise<void> {
    const turn = this.#lastSwitch.then(() => (connector === this.#connector ? setConnector() : this.#switchTo(connector, fleet, setConnector)));
    this.#lastSwitch = turn.catch(() => {});
    return turn;
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
    const requestsPerSecond = this.#traffic === undefined ? 0 : this.#rate;
    return {
      isRunning: requestsPerSecond > 0,
      requestsPerSecond,
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
    await this.#lastSwitch;
    await Promise.all([this.#pairs?.close(), this.#whole?.close()]);
  }

  #instances(): readonly SimInstance[] {
    return [...(this.#pairs?.instances ?? []), ...(this.#whole?.instances ?? [])];
  }

  #simOf(instance: Instance): SimInstance | undefined {
    return this.#pairs?.byUrl(instance.origin) ?? this.#whole?.byUrl(instance.origin);
  }

  #specOf(instance: SimInstance): InstanceSpec {
    const { role, url, kvEvents } = instance;
    const bootstrapPort = this.#pairs?.bootstrapPortOf(instance);
    return { role, url, ...(kvEvents !== undefined && { kvEvents }), ...(bootstrapPort !== undefined && { bootstrapPort }) };
  }

  /** Without a shape to keep to, aggregated serving gets instances of its own and nothing idles beside them. */
  get #needsWhole(): boolean {
    const { settings } = this.#input;
    return this.#connector === 'aggregated' && settings.both === 0;
  }

  get #needsPairs(): boolean {
    return this.#connector !== 'aggregated' || this.#input.hasShape || this.#input.settings.both > 0;
  }

  async #startMissing(): Promise<void> {
    const { settings, logger, protocol } = this.#input;
    const { encode, prefill, decode, both, seed, dpSize } = settings;
    const flags = demoFlags(this.#connector, protocol, this.#registration());
    if (this.#needsPairs) {
      this.#pairs ??= await startSimCluster({ encode, prefill, decode, both, seed, dpSize, logger, flags, ...SMALL });
    }
    if (this.#needsWhole && this.#whole === undefined) {
      const count = Math.max(1, prefill + decode);
      this.#whole = await startSimCluster({ prefill: 0, decode: 0, both: count, seed: seed + 1, dpSize, logger, flags, ...SMALL });
    }
  }

  /** Engines of this machine reach a proxy that listens on all interfaces through loopback. */
  #registration(): string {
    const { moriioHost, moriioPort } = this.#input.protocol;
    return `${hostInUrl(moriioHost)}:${moriioPort}`;
  }

  #flavour(connector: ConnectorName): { readonly hasConversationIds: boolean; readonly hasMedia: boolean } {
    return { hasConversationIds: connector === 'nixl-bidirectional', hasMedia: this.#input.settings.encode > 0 };
  }

  async #switchTo(connector: ConnectorName, fleet: Fleet, setConnector: () => Promise<void>): Promise<void> {
    this.#holds += 1;
    this.#traffic?.setRate(0);
    await until(() => (this.#traffic?.stats().inFlight ?? 0) === 0, SWITCH_GRACE_MS);
    try {
      await setConnector();
      this.#connector = connector;
      // Cut, they would count against instances; and one that is slow to connect would come when there is nobody to serve it.
      await this.#traffic?.leave();
      // The proxy has read whatever came before this question.
      await this.#isServing();
      const flags = demoFlags(connector, this.#input.protocol, this.#registration());
      if (connector !== 'aggregated') await this.#pairs?.restart(flags);
      await this.#startMissing();
      await this.#join(fleet);
    } finally {
      this.#traffic?.setFlavour(this.#flavour(this.#connector));
      void this.#letGo();
    }
  }

  async #letGo(): Promise<void> {
    await until(() => this.#traffic === undefined || this.#isServing(), SERVING_DEADLINE_MS);
    this.#holds -= 1;
    if (this.#holds === 0) this.#traffic?.setRate(this.#rate);
  }

  /** What a client can know: the proxy's own word. Asked on a connection of its own. */
  async #isServing(): Promise<boolean> {
    try {
      const { statusCode, body } = await request(`${this.#proxyOrigin ?? ''}/health`, { reset: true });
      await body.dump();
      return statusCode === 200;
    } catch {
      // The proxy is closing, or has not begun: asked again until the deadline.
      return false;
    }
  }

  /** Instances that are new, or known only from their registration, join as configured ones; those not needed are off. */
  async #join(fleet: Fleet): Promise<void> {
    for (const sim of this.#instances()) {
      const known = fleet.findByAddress(sim.url, sim.role);
      if (known === undefined) {
        if (!isSelfRegistering(this.#connector, sim)) this.#tryJoin(fleet, this.#specOf(sim));
        continue;
      }
      // Clients are let in when it can serve: what a check found that met the port closed is not it.
      fleet.renew(known.id);
      if (known.registeredBy !== undefined && this.#connector !== 'moriio') {
        await fleet.remove(known.id, { force: true });
        this.#tryJoin(fleet, { ...this.#specOf(sim), name: known.name });
      }
    }
    for (const sim of this.#whole?.instances ?? []) {
      const known = fleet.findByAddress(sim.url, sim.role);
      if (known === undefined) continue;
      if (this.#needsWhole) fleet.enable(known.id);
      else fleet.disable(known.id);
    }
  }

  #tryJoin(fleet: Fleet, spec: InstanceSpec): void {
    try {
      fleet.addConfigured(spec);
    } catch (error) {
      this.#input.logger.warn({ url: spec.url, problem: errorMessage(error) }, 'an instance of the demo cannot join');
    }
  }
}

async function until(isTrue: () => boolean | Promise<boolean>, deadlineMs: number): Promise<void> {
  const endMs = performance.now() + deadlineMs;
  while (!(await isTrue()) && performance.now() < endMs) {
    await new Promise((resolve) => {
      setTimeout(resolve, POLL_MS);
    });
  }
}

/**
 * The bootstrap tables of all prefill instances, kept in step with the fleet while the protocol is in force.
 * Its servers belong to engines, not to the fleet's pools: an agent of its own asks them.
 */
import { Agent } from 'undici';
import type { Instance } from '../../../fleet/instance.ts';
import type { FleetRoster } from '../../../fleet/ports.ts';
import { BootstrapEntry, type BootstrapTiming } from './bootstrap-entry.ts';

export interface BootstrapBookOptions {
  readonly fleet: FleetRoster;
  /** Of instances that name none. */
  readonly defaultPort: number;
  readonly timing: BootstrapTiming;
  onAsked(entry: BootstrapEntry): void;
}

export class BootstrapBook {
  readonly #options: BootstrapBookOptions;
  readonly #agent: Agent;
  readonly #entries = new Map<Instance, BootstrapEntry>();
  /** What was last seen of an instance. */
  readonly #seen = new Map<Instance, string>();
  #listeners: (() => void)[] = [];

  constructor(options: BootstrapBookOptions) {
    this.#options = options;
    const timeoutMs = options.timing.queryMs;
    this.#agent = new Agent({ allowH2: false, autoSelectFamily: true, connect: { timeout: timeoutMs }, connections: 1, pipelining: 1, headersTimeout: timeoutMs, bodyTimeout: timeoutMs });
  }

  /** Follows the fleet; resolves when every instance was asked once. */
  async start(): Promise<void> {
    if (this.#listeners.length > 0) return;
    const { fleet } = this.#options;
    this.#listeners = [
      fleet.onAdded((instance) => void this.#add(instance)),
      fleet.onRemoved((instance) => this.#remove(instance)),
      fleet.onChanged((instance) => this.#changed(instance)),
    ];
    const present = new Set(fleet.list());
    for (const instance of this.#entries.keys()) if (!present.has(instance)) this.#remove(instance);
    await Promise.all([...present].map((instance) => this.#add(instance)));
  }

  /** Stops following; what is known stays, for requests that still run. */
  stop(): void {
    for (const stop of this.#listeners) stop();
    this.#listeners = [];
    for (const entry of this.#entries.values()) entry.setPolling(false);
  }

  async close(): Promise<void> {
    this.stop();
    for (const entry of this.#entries.values()) entry.close();
    this.#entries.clear();
    await this.#agent.destroy();
  }

  of(instance: Instance): BootstrapEntry | undefined {
    return this.#entries.get(instance);
  }

  list(): readonly BootstrapEntry[] {
    return [...this.#entries.values()];
  }

  async #add(instance: Instance): Promise<void> {
    if (instance.role !== 'prefill' && instance.role !== 'both') return;
    const { defaultPort, timing } = this.#options;
    const address = `http://${new URL(instance.origin).hostname}:${instance.bootstrapPort ?? defaultPort}`;
    const onAsked = (entry: BootstrapEntry): void => this.#options.onAsked(entry);
    const entry = this.#entries.get(instance) ?? new BootstrapEntry({ instance, address, dispatcher: this.#agent, timing, onAsked });
    this.#entries.set(instance, entry);
    this.#seen.set(instance, describe(instance));
    entry.setPolling(true);
    await entry.ask();
  }

  #remove(instance: Instance): void {
    this.#entries.get(instance)?.close();
    this.#entries.delete(instance);
    this.#seen.delete(instance);
  }

  /** Down and up again, another version or engine id: any of them may be a restart, after which engine ids are others. */
  #changed(instance: Instance): void {
    const entry = this.#entries.get(instance);
    const now = describe(instance);
    if (entry === undefined || this.#seen.get(instance) === now) return;
    this.#seen.set(instance, now);
    if (instance.state === 'down') entry.forget();
    else entry.doubt();
  }
}

function describe({ state, breaker, version, transfer, dpSize }: Instance): string {
  return JSON.stringify([state, breaker, version, transfer?.engineId, transfer?.tpSize, dpSize]);
}

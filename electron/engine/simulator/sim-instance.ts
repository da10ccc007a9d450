/**
 * One simulated engine endpoint: a real HTTP server, real ZMQ sockets and side channels to its peers, behaving like vLLM as far as
 * a proxy and a dashboard can see. The rest of pdscope cannot tell it from the real thing except by its mark.
 */
import type { KvEventsConfig } from '#shared/instance.ts';
import type { SimFault } from '#shared/operations.ts';
import type { Role } from '#shared/vocabulary.ts';
import { hostInUrl, reachableHost } from '../fleet/host-kind.ts';
import { openEngineLife, type EngineLife } from './engine-life.ts';
import type { MediaCounts } from './media-cache.ts';
import { openHttpFront, type HttpFront } from './http-front.ts';
import type { PublishCounters } from './kv-publisher.ts';
import { createPrng, seedOf, type Prng } from './prng.ts';
import { ReceivedLog, type ReceivedRequest } from './received-log.ts';
import { SimFaults } from './sim-faults.ts';
import { resolveSimOptions, type ResolvedSimOptions, type SimInstanceOptions } from './sim-options.ts';
import { createSimHandler } from './sim-server.ts';
import { formatZmqAddress, type MoriioAddress } from './transfer/moriio-address.ts';
import { startRegistration, type Registration } from './transfer/moriio-registration.ts';
import { closeSideChannels, openSideChannels, type SideChannel } from './transfer/side-channel.ts';

export type { ReceivedRequest } from './received-log.ts';
export type { SimInstanceOptions, SimKvEventsOptions, SimMoriioOptions, SimTiming, SimTransfer } from './sim-options.ts';

export interface SimStats {
  readonly running: number;
  /** Waiting for blocks or a place in the batch. */
  readonly waiting: number;
  /** Waiting for remote KV. */
  readonly loading: number;
  readonly blocks: number;
  readonly freeBlocks: number;
  /** Blocks that hold a hash, referenced or not. */
  readonly residentBlocks: number;
  /** Blocks kept for a peer. */
  readonly pinnedBlocks: number;
  readonly leases: number;
  /** Media items of requests, by where their encoder output came from: `encoded` are those no encode stage had done. */
  readonly media: MediaCounts;
  /** Loads that copied KV of other tokens than the request's, or KV computed on such, in this life: engines do not notice, answers are noise. */
  readonly corruptedLoads: number;
  /** Sequences ended because their client left, in this life. */
  readonly aborted: number;
  /** HTTP inference requests in flight. */
  readonly inFlight: number;
  /** Restarts so far. */
  readonly restarts: number;
}

export interface SimInstance {
  readonly role: Role;
  readonly name: string;
  readonly model: string;
  /** `http://host:port`. */
  readonly url: string;
  /** Real endpoints of rank 0; undefined without events. */
  readonly kvEvents: KvEventsConfig | undefined;
  /** New after each restart, without the `_dp<rank>` of several ranks; undefined without a transfer protocol. */
  readonly engineId: string | undefined;
  /** The assertion that killed the engine, until the next restart: 503 on /health, then refused connections. */
  readonly death: string | undefined;
  /** Mooncake bootstrap server, `http://host:port`, the same after restarts; undefined where there is none. */
  readonly bootstrapUrl: string | undefined;
  /** MoRIIO: `host:IP,handshake:PORT,notify:PORT` of rank 0, as registrations say it; undefined with other protocols. */
  readonly zmqAddress: string | undefined;
  readonly fault: SimFault;
  /**
   * `amount`: delay factor (`slow`, default 10), chunks before the cut (`reset-mid-stream`, 3), batches kept back
   * (`event-gap`, 5). `event-gap`, `restart` and `drop-lease` happen once; the others last until `none`.
   */
  setFault(fault: SimFault, amount?: number): Promise<void>;
  /** A new life on the same ports: sequence numbers from 0, empty cache, new engine id, new block hashes. */
  restart(): Promise<void>;
  /** Requests as they came in, oldest first; bounded. */
  readonly received: readonly ReceivedRequest[];
  clearReceived(): void;
  stats(): SimStats;
  /** What was published in this life, over all ranks. */
  readonly publish: Readonly<PublishCounters>;
  close(): Promise<void>;
}

const NOTHING_PUBLISHED: PublishCounters = { batches: 0, events: 0, bytes: 0, skipped: 0, replayRequests: 0, replayedBatches: 0, subscriptions: 0 };

interface Parts {
  readonly options: ResolvedSimOptions;
  readonly prng: Prng;
  readonly faults: SimFaults;
  readonly received: ReceivedLog;
  readonly sideChannels: readonly (readonly SideChannel[])[];
}

/** How long a process with a dead engine still answers before it exits, real milliseconds. */
const EXIT_AFTER_MS = 500;

/** A chosen port per rank; MoRIIO has a second for notifications. */
async function openPeerPorts({ transfer, host, peerPort, dpSize }: ResolvedSimOptions): Promise<readonly (readonly SideChannel[])[]> {
  if (transfer === 'none') return [];
  const first = await openSideChannels(host, peerPort, dpSize);
  if (transfer !== 'moriio') return first.map((channel) => [channel]);
  try {
    const second = await openSideChannels(host, 0, dpSize);
    return first.map((channel, rank) => [channel, ...second.slice(rank, rank + 1)]);
  } catch (error) {
    await closeSideChannels([first]);
    throw error;
  }
}

class RunningSimInstance implements SimInstance {
  readonly role: Role;
  readonly name: string;
  readonly model: string;
  readonly url: string;
  readonly #parts: Parts;
  readonly #front: HttpFront;
  readonly #inFlight: () => number;
  #life: EngineLife;
  readonly #setLife: (life: EngineLife) => void;
  readonly #zmq: MoriioAddress;
  readonly #registration: Registration | undefined;
  #restarts = 0;
  #isClosed = false;
  #lastTurn: Promise<void> = Promise.resolve();

  constructor(parts: Parts, state: { front: HttpFront; life: EngineLife; inFlight: () => number; setLife: (life: EngineLife) => void }) {
    const { options } = parts;
    this.#parts = parts;
    this.#front = state.front;
    this.#life = state.life;
    this.#inFlight = state.inFlight;
    this.#setLife = state.setLife;
    this.role = options.role;
    this.name = options.name;
    this.model = options.model;
    const address = `${hostInUrl(options.host)}:${state.front.port}`;
    this.url = `http://${address}`;
    const { port, notifyPort } = state.life.transferPorts;
    this.#zmq = { host: reachableHost(options.host), handshakePort: port, notifyPort };
    this.#registration = this.#register(address);
  }

  get kvEvents(): KvEventsConfig | undefined {
    return this.#life.publishers?.config;
  }

  get engineId(): string | undefined {
    return this.#parts.options.transfer === 'none' ? undefined : this.#life.engineId;
  }

  get bootstrapUrl(): string | undefined {
    const { bootstrapPort } = this.#life.transferPorts;
    return bootstrapPort === undefined ? undefined : `http://${hostInUrl(this.#parts.options.host)}:${bootstrapPort}`;
  }

  get zmqAddress(): string | undefined {
    return this.#parts.options.transfer === 'moriio' ? formatZmqAddress(this.#zmq) : undefined;
  }

  get death(): string | undefined {
    return this.#life.death;
  }

  get fault(): SimFault {
    const { faults } = this.#parts;
    // A gap is over when its batches were kept back.
    if (faults.fault === 'event-gap' && (this.#life.publishers?.pendingGap() ?? 0) === 0) faults.set('none');
    return faults.fault;
  }

  get received(): readonly ReceivedRequest[] {
    return this.#parts.received.entries;
  }

  clearReceived(): void {
    this.#parts.received.clear();
  }

  get publish(): Readonly<PublishCounters> {
    return this.#life.publishers?.counters() ?? NOTHING_PUBLISHED;
  }

  setFault(fault: SimFault, amount?: number): Promise<void> {
    return this.#inTurn(() => this.#applyFault(fault, amount));
  }

  restart(): Promise<void> {
    return this.#inTurn(() => this.#restartNow());
  }

  stats(): SimStats {
    const { cores } = this.#life;
    const sum = (read: (core: (typeof cores)[number]) => number): number => cores.reduce((total, core) => total + read(core), 0);
    return {
      running: sum((core) => core.running),
      waiting: sum((core) => core.waitingCapacity),
      loading: sum((core) => core.waitingDeferred),
      blocks: sum((core) => core.cache.capacity),
      freeBlocks: sum((core) => core.cache.freeBlocks),
      residentBlocks: sum((core) => core.cache.residentBlocks),
      pinnedBlocks: sum((core) => core.leases.pinnedBlocks),
      leases: sum((core) => core.leases.count),
      media: { ...this.#life.media.counts },
      corruptedLoads: sum((core) => core.corruptedLoads),
      aborted: sum((core) => core.aborted),
      inFlight: this.#inFlight(),
      restarts: this.#restarts,
    };
  }

  close(): Promise<void> {
    return this.#inTurn(async () => {
      this.#isClosed = true;
      this.#registration?.close();
      await this.#front.close();
      await this.#life.close();
      await closeSideChannels(this.#parts.sideChannels);
    });
  }

  #register(httpAddress: string): Registration | undefined {
    const { transfer, moriio, dpSize } = this.#parts.options;
    if (transfer !== 'moriio' || this.role === 'encode') return undefined;
    const facts = { type: this.role === 'prefill' ? 'P' : 'D', httpAddress, zmq: this.#zmq, dpSize, options: moriio } as const;
    return startRegistration(facts, () => this.#front.isListening && this.death === undefined);
  }

  /** The engine is dead: the API server says so for a moment, then its process ends. */
  exitSoon(): void {
    const life = this.#life;
    const exit = (): void => {
      void this.#inTurn(async () => {
        if (this.#life !== life) return;
        await this.#front.refuse();
        await life.close();
      });
    };
    setTimeout(exit, EXIT_AFTER_MS).unref();
  }

  /** Faults, restarts and the end move the same ports, so they happen one after the other; none after the end. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#lastTurn.then(() => (this.#isClosed ? undefined : work()));
    this.#lastTurn = turn.catch(() => {});
    return turn;
  }

  async #applyFault(fault: SimFault, amount: number | undefined): Promise<void> {
    const { faults } = this.#parts;
    const wasHanging = faults.fault === 'hang';
    faults.set(fault, amount);
    // Requests that were left hanging will never be answered; their clients should learn that the fault is over.
    if (wasHanging && fault !== 'hang') this.#front.dropConnections();
    if (fault === 'refuse') await this.#front.refuse();
    else if (this.#life.death === undefined) await this.#front.resume();
    if (fault === 'event-gap') this.#life.publishers?.skipNext(faults.amount);
    if (fault === 'drop-lease') {
      for (const core of this.#life.cores) core.leases.dropAll();
      faults.set('none');
    }
    if (fault === 'restart') {
      await this.#restartNow();
      faults.set('none');
    }
  }

  async #restartNow(): Promise<void> {
    const { kvEvents } = this;
    const { bootstrapPort } = this.#life.transferPorts;
    const { options, prng, sideChannels, faults } = this.#parts;
    await this.#front.refuse();
    await this.#life.close();
    this.#life = await openEngineLife({
      options, prng, sideChannels, kvEvents, bootstrapPort,
      slowdown: () => faults.slowdown(),
      onDeath: () => this.exitSoon(),
    });
    this.#setLife(this.#life);
    this.#restarts += 1;
    if (faults.fault !== 'refuse') await this.#front.resume();
  }
}

/** Starts an instance and waits until it answers. Throws `sim-bind-failed` when a given port is taken. */
export async function startSimInstance(given: SimInstanceOptions): Promise<SimInstance> {
  const options = resolveSimOptions(given);
  const prng = createPrng(seedOf(`${options.seed}/${options.role}/${options.name}`));
  const faults = new SimFaults();
  const received = new ReceivedLog(options.keepReceived);
  const sideChannels = await openPeerPorts(options);
  let life: EngineLife | undefined;
  let instance: RunningSimInstance | undefined;
  try {
    life = await openEngineLife({
      options, prng, sideChannels,
      slowdown: () => faults.slowdown(),
      onDeath: () => instance?.exitSoon(),
      kvEvents: undefined,
      bootstrapPort: undefined,
    });
    let current = life;
    let inFlight = 0;
    const handler = createSimHandler({
      context: { options, prng, life: () => current, inFlight: () => inFlight, slowdown: () => faults.slowdown(), isLying: () => faults.fault === 'wrong-cached-tokens' },
      faults,
      received,
      onInFlight: (change) => {
        inFlight += change;
      },
    });
    const front = await openHttpFront(options.host, options.port, handler);
    instance = new RunningSimInstance(
      { options, prng, faults, received, sideChannels },
      {
        front,
        life,
        inFlight: () => inFlight,
        setLife: (next) => {
          current = next;
        },
      },
    );
    return instance;
  } catch (error) {
    await life?.close();
    await closeSideChannels(sideChannels);
    throw error;
  }
}

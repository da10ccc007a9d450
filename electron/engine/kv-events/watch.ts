/**
 * Watching one publisher without an engine around it, for `pdscope events`: live batches of all ranks, optionally after
 * what the engine still keeps for replay. Same sockets, decoder and sequence tracking as the streams of the engine.
 */
import { errorMessage } from '#shared/errors.ts';
import { BatchApplier, type BatchContext } from './batch-applier.ts';
import { DecodePump, type PumpLane } from './decode-pump.ts';
import { rankEndpoint } from './endpoints.ts';
import { IntakeTurn } from './intake-turn.ts';
import type { KvEvent } from './kv-event.ts';
import type { Notice } from './kv-row.ts';
import { requestReplay, type ReplayOutcome } from './replay-client.ts';
import { SubSocket, type SocketPhase } from './sub-socket.ts';

/** One thing to print: an event of the engine, or what was noticed about the stream. */
export interface WatchRecord extends BatchContext {
  readonly rank: number;
  /** It came from the replay socket, not live. */
  readonly isReplayed: boolean;
  readonly event: KvEvent | Notice;
}

export interface WatchSummary {
  readonly batches: number;
  readonly events: number;
  readonly gaps: number;
  /** Batches missing. */
  readonly missed: number;
  /** Messages and events that could not be read. */
  readonly bad: number;
  readonly seconds: number;
}

export interface WatchOptions {
  /** Endpoint of rank 0, e.g. `tcp://10.0.0.1:5557`. */
  readonly endpoint: string;
  /** Byte prefix of the topic. Default '': all. */
  readonly topic?: string;
  /** Bind instead of connecting, for engines whose publisher connects. Default false. */
  readonly bind?: boolean;
  /** Data-parallel ranks. Default 1. */
  readonly ranks?: number;
  /** ROUTER endpoint of rank 0. Absent: no replay. */
  readonly replayEndpoint?: string;
  /** First sequence asked for. Default 0: everything the engine keeps. */
  readonly replayFrom?: number;
  /** Longest wait for a replay's next answer, and for the first connection before asking, ms. Default 3000. */
  readonly replayTimeoutMs?: number;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  /** Gets each record in order (per rank). */
  readonly onRow: (record: WatchRecord) => void;
  /** Gets connection changes; `reason` in words where there is something to say. */
  readonly onState?: (rank: number, phase: SocketPhase, reason: string | undefined) => void;
  /** Gets the end of each rank's replay. */
  readonly onReplayEnd?: (rank: number, outcome: ReplayOutcome) => void;
}

/**
 * Runs until `signal` aborts, then answers the summary.
 * @throws PdscopeError `kv_endpoint_invalid` for an endpoint that cannot be right for one of the ranks.
 */
export async function watchEvents(options: WatchOptions): Promise<WatchSummary> {
  const startedAtMs = performance.now();
  const pump = new DecodePump({ messages: 100_000, bytes: 256 * 1024 * 1024 });
  const intake = new IntakeTurn();
  const ranks = Array.from({ length: options.ranks ?? 1 }, (_, rank) => new RankWatch(rank, options, { pump, intake }));
  for (const rank of ranks) rank.start();
  if (!options.signal.aborted) {
    await new Promise<void>((resolve) => options.signal.addEventListener('abort', () => resolve(), { once: true }));
  }
  await Promise.all(ranks.map((rank) => rank.stop()));
  const appliers = ranks.map((rank) => rank.applier);
  const sum = (value: (applier: BatchApplier) => number): number => appliers.reduce((total, applier) => total + value(applier), 0);
  return {
    batches: sum((applier) => applier.batches),
    events: sum((applier) => applier.events),
    gaps: sum((applier) => applier.tracker.gaps),
    missed: sum((applier) => applier.tracker.missedBatches),
    bad: sum((applier) => applier.badMessages + applier.badEvents),
    seconds: (performance.now() - startedAtMs) / 1000,
  };
}

class RankWatch {
  readonly applier: BatchApplier;

  readonly #rank: number;
  readonly #options: WatchOptions;
  readonly #lane: PumpLane;
  readonly #socket: SubSocket;
  readonly #replayEndpoint: string | undefined;
  readonly #connected: Promise<void>;
  #onConnected: () => void = () => undefined;
  #isConnectionLost = false;
  #isReconnected = false;
  #isReplaying = false;
  #replay: Promise<void> = Promise.resolve();

  constructor(rank: number, options: WatchOptions, shared: { readonly pump: DecodePump; readonly intake: IntakeTurn }) {
    const mode = options.bind === true ? 'bind' : 'connect';
    this.#rank = rank;
    this.#options = options;
    this.#replayEndpoint = options.replayEndpoint === undefined ? undefined : rankEndpoint(options.replayEndpoint, rank, 'connect');
    this.#connected = new Promise((resolve) => {
      this.#onConnected = resolve;
    });
    this.applier = new BatchApplier({
      onRestart: () => undefined,
      onGap: () => undefined,
      onNotice: (context, notice) => this.#print(context, notice),
      onEvent: (context, event) => this.#print(context, event),
    });
    this.#lane = shared.pump.open((message) => {
      this.applier.apply(message.frames, message);
    });
    this.#socket = new SubSocket({
      endpoint: rankEndpoint(options.endpoint, rank, mode),
      mode,
      topic: options.topic ?? '',
      intake: shared.intake,
      onMessage: (frames) => {
        if (this.#lane.offer(frames, this.#isReconnected)) this.#isReconnected = false;
      },
      onPhase: (phase, reason) => this.#onPhase(phase, reason),
    });
  }

  start(): void {
    if (this.#replayEndpoint !== undefined) {
      // Live batches wait until the replay is through; those that it brought already are duplicates then.
      this.#lane.hold();
      this.#replay = this.#runReplay(this.#replayEndpoint);
    }
    this.#socket.open();
  }

  async stop(): Promise<void> {
    this.#onConnected();
    this.#lane.close();
    await this.#socket.close();
    await this.#replay;
  }

  async #runReplay(endpoint: string): Promise<void> {
    const { signal, replayFrom = 0, replayTimeoutMs = 3000 } = this.#options;
    try {
      // Asked only once live batches arrive too: else those between the replay's end and the connection are lost.
      await Promise.race([this.#connected, delay(replayTimeoutMs, signal)]);
      this.#isReplaying = true;
      const outcome = await requestReplay({
        endpoint,
        from: replayFrom,
        timeoutMs: replayTimeoutMs,
        signal,
        onMessage: ({ frames }) => {
          this.applier.tracker.expectFrom(replayFrom);
          this.applier.apply(frames, { receivedAtUnixMs: Date.now(), isReconnected: false, droppedBefore: 0 });
          return true;
        },
      });
      this.#isReplaying = false;
      if (outcome.reason !== undefined) this.#notice(`replay: ${outcome.reason}`);
      this.#options.onReplayEnd?.(this.#rank, outcome);
    } catch (error) {
      this.#isReplaying = false;
      this.#notice(`replay: ${errorMessage(error)}`);
    } finally {
      this.#lane.release();
    }
  }

  #onPhase(phase: SocketPhase, reason: string | undefined): void {
    if (phase === 'lost') this.#isConnectionLost = true;
    if (phase === 'connected') {
      this.#isReconnected = this.#isConnectionLost;
      this.#isConnectionLost = false;
      this.#onConnected();
    }
    this.#options.onState?.(this.#rank, phase, reason);
  }

  #notice(note: string): void {
    const context = { epoch: this.applier.tracker.epoch, seq: undefined, tsUnixMs: undefined, receivedAtUnixMs: Date.now() };
    this.#print(context, { kind: 'error', note });
  }

  #print(context: BatchContext, event: KvEvent | Notice): void {
    this.#options.onRow({ ...context, rank: this.#rank, isReplayed: this.#isReplaying, event });
  }
}

/** Resolves after `ms`, or at once when aborted. */
function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}

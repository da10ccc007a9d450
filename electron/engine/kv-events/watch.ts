/**
 * Watching one publisher without an engine around it, for `pdscope events`: live batches of all ranks, with what the
 * engine still keeps for replay before them and in their gaps. Same receiver as the streams of the engine.
 */
import { InstanceIdSchema, streamId } from '#shared/ids.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import type { BatchContext } from './batch-applier.ts';
import { DecodePump } from './decode-pump.ts';
import { checkRankEndpoints, rankEndpoint } from './endpoints.ts';
import { IntakeTurn } from './intake-turn.ts';
import type { KvEvent } from './kv-event.ts';
import type { Notice, StreamIdentity } from './kv-row.ts';
import type { ReplayOutcome } from './replay-client.ts';
import { StreamReceiver, type SharedIntake } from './stream-receiver.ts';
import type { SocketPhase } from './sub-socket.ts';
import { RankStats, sumStats, watchIndex, type WatchStats } from './watch-stats.ts';

/** One thing to print: an event of the engine, or what was noticed about the stream. */
export interface WatchRecord extends BatchContext {
  readonly rank: number;
  readonly event: KvEvent | Notice;
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
  /** ROUTER endpoint of rank 0. Absent: no replay, and gaps stay open. */
  readonly replayEndpoint?: string;
  /** First sequence asked for. Default: everything the engine keeps. */
  readonly replayFrom?: number;
  /** Longest wait for a replay's next answer, and for the first connection before asking, ms. Default 3000. */
  readonly replayTimeoutMs?: number;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  /** Gets each record in order (per rank). Absent: none is made. */
  readonly onRow?: (record: WatchRecord) => void;
  /** Gets the totals so far, once a second. */
  readonly onStats?: (stats: WatchStats) => void;
  /** Gets connection changes; `reason` in words where there is something to say. */
  readonly onState?: (rank: number, phase: SocketPhase, reason: string | undefined) => void;
  /** Gets the end of each question to a rank's replay socket. */
  readonly onReplayEnd?: (rank: number, outcome: ReplayOutcome) => void;
}

const STATS_MS = 1000;
const ENGINE = InstanceIdSchema.parse('engine');

/**
 * Runs until `signal` aborts, then answers the totals.
 * @throws PdscopeError `kv_endpoint_invalid` for an endpoint that cannot be right for one of the ranks.
 */
export async function watchEvents(options: WatchOptions): Promise<WatchStats> {
  const { signal, onStats, endpoint, replayEndpoint, ranks: count = 1, bind } = options;
  checkRankEndpoints({ endpoint, replayEndpoint, ranks: count, mode: bind === true ? 'bind' : 'connect' });
  const startedAtMs = performance.now();
  const shared = { pump: new DecodePump({ messages: 100_000, bytes: 256 * 1024 * 1024 }), intake: new IntakeTurn(), replayTurn: new IntakeTurn(2) };
  const index = watchIndex();
  const ranks = Array.from({ length: count }, (_, rank) => new RankWatch(rank, options, { shared, index }));
  const stats = (): WatchStats => sumStats(ranks, (performance.now() - startedAtMs) / 1000);
  const timer = onStats === undefined ? undefined : setInterval(() => onStats(stats()), STATS_MS);
  for (const rank of ranks) rank.start();
  if (!signal.aborted) {
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  }
  clearInterval(timer);
  const last = stats();
  await Promise.all(ranks.map((rank) => rank.stop()));
  return last;
}

class RankWatch {
  readonly stats: RankStats;

  readonly #rank: number;
  readonly #options: WatchOptions;
  readonly #receiver: StreamReceiver;
  #waiting: NodeJS.Timeout | undefined;

  constructor(rank: number, options: WatchOptions, { shared, index }: { readonly shared: SharedIntake; readonly index: KvIndex }) {
    const { replayEndpoint, replayFrom, replayTimeoutMs, onReplayEnd } = options;
    const mode = options.bind === true ? 'bind' : 'connect';
    this.#rank = rank;
    this.#options = options;
    this.stats = new RankStats(index.open(watchedStream(rank)));
    this.#receiver = new StreamReceiver({
      ...shared,
      endpoint: rankEndpoint(options.endpoint, rank, mode),
      mode,
      topic: options.topic ?? '',
      ...(replayEndpoint !== undefined && { replayEndpoint: rankEndpoint(replayEndpoint, rank, 'connect') }),
      ...(replayFrom !== undefined && { replayFrom }),
      ...(replayTimeoutMs !== undefined && { replayTimeoutMs }),
      ...(onReplayEnd !== undefined && { onReplayEnd: (outcome: ReplayOutcome) => onReplayEnd(rank, outcome) }),
      onPhase: (phase, reason) => options.onState?.(rank, phase, reason),
      sink: {
        onEpoch: () => this.stats.restart(Date.now()),
        onGap: () => undefined,
        onLost: () => undefined,
        onNotice: (context, notice) => this.#print(context, notice),
        onEvent: (context, event) => {
          this.stats.add(event, context.tsUnixMs ?? context.receivedAtUnixMs);
          this.#print(context, event);
        },
      },
    });
  }

  get applier(): StreamReceiver['applier'] {
    return this.#receiver.applier;
  }

  get dropped(): number {
    return this.#receiver.lane.dropped;
  }

  get isReplaying(): boolean {
    return this.#receiver.filler?.isAsking === true;
  }

  start(): void {
    // Asked for once live batches arrive too, or those between the replay's end and the connection are lost; but an
    // engine that can only be asked is asked.
    this.#waiting = setTimeout(() => {
      if (this.#receiver.phase !== 'connected') this.#receiver.filler?.catchUp();
    }, this.#options.replayTimeoutMs ?? 3000);
    this.#receiver.open();
  }

  async stop(): Promise<void> {
    clearTimeout(this.#waiting);
    await this.#receiver.close();
  }

  #print(context: BatchContext, event: KvEvent | Notice): void {
    const { onRow } = this.#options;
    if (onRow === undefined) return;
    const { epoch, seq, tsUnixMs, receivedAtUnixMs, isReplayed } = context;
    // Named one by one: copying all of an object takes several times as long, and there is one record an event.
    onRow({ epoch, seq, tsUnixMs, receivedAtUnixMs, isReplayed, rank: this.#rank, event });
  }
}

/** What a watched rank is called where streams have names. */
export function watchedStream(rank: number): StreamIdentity {
  return { id: streamId(ENGINE, rank), instance: ENGINE, instanceName: ENGINE, rank };
}

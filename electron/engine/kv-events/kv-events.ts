/**
 * KV-cache events of the whole fleet: one stream per data-parallel rank of each attached instance, one history, one
 * queue. Sockets only copy; decoding runs in slices of the event loop (decode-pump.ts).
 *
 * Gaps are filled from the engine's replay socket where one is configured (gap-filler.ts). Blocks are kept by whoever
 * observes (kv-observer.ts): the index, which counts them for the streams (block-books.ts).
 */
import type { RawFrames } from '#shared/cache.ts';
import { errorMessage } from '#shared/errors.ts';
import { streamId, type InstanceId, type StreamId } from '#shared/ids.ts';
import type { KvEventsConfig } from '#shared/instance.ts';
import type { KvNotes } from '#shared/kv-notes.ts';
import type { KvRow, KvStreamView } from '#shared/kv.ts';
import type { OperationOutputs } from '#shared/operations.ts';
import { silentLogger, type Logger } from '../log.ts';
import type { RowLog } from '../row-log.ts';
import type { BlockBooks } from './block-books.ts';
import { DecodePump, type QueueLimit } from './decode-pump.ts';
import { rankEndpoint } from './endpoints.ts';
import { FrameRing, type FrameRingOptions } from './frame-ring.ts';
import { IntakeTurn } from './intake-turn.ts';
import type { KvObserver } from './kv-observer.ts';
import { KvRowLog } from './kv-row-log.ts';
import { KvStream } from './kv-stream.ts';
import { RATE_STEP_S } from './rate-window.ts';
import { rawFrames } from './raw-frames.ts';
import { SharedBindings } from './shared-bindings.ts';
import type { GapRange } from './stream-tracker.ts';
import { unknownStream } from './unknown-stream.ts';
import type { ComputedPrompt } from './untold-stores.ts';

export interface KvEventsOptions {
  /** Who counts the blocks of the streams, as `observer` hears of them. */
  readonly books: BlockBooks;
  /** Rows kept. Default 50,000. */
  readonly capacity?: number;
  /** Memory of the kept rows, bytes for rows, about. Default 64 MiB. */
  readonly rowBytes?: number;
  /**
   * Messages waiting to be decoded, over all streams. Default 8,000 messages, 32 MiB: what waits is old to the garbage
   * collector, so a longer queue makes its pauses longer, and only puts off what a flood loses.
   */
  readonly queueLimit?: QueueLimit;
  /** Raw frames of recent messages. Default 16 MiB. */
  readonly frames?: FrameRingOptions;
  readonly logger?: Logger;
  /** Longest wait for the next answer of an engine's replay socket, ms. Default 3000. */
  readonly replayTimeoutMs?: number;
  /** Called for every range of batches found missing. */
  readonly onGap?: (stream: StreamId, gap: GapRange) => void;
  /** The lowest data-parallel rank that an instance itself says it has (`engine` labels of `/metrics`). Default: not told. */
  readonly firstRank?: (instance: InstanceId) => number | undefined;
  /** Gets every event in order, and what makes earlier ones void. */
  readonly observer?: KvObserver;
  /** Whether requests are being served, whose tokens must not wait for events. Asked once or twice a turn of the event loop. Default: never. */
  readonly isServing?: () => boolean;
}

interface AttachedInstance {
  readonly id: InstanceId;
  readonly name: string;
}

const MIB = 1024 * 1024;
/** Of a turn of the event loop, ms: what decoding gets, replays as much, and receiving half of it. */
const TURN_MS = 0.5;
/** The same while requests are served: every token that comes meanwhile waits until the turn is over. */
const SERVING_TURN_MS = 0.2;

export class KvEvents {
  readonly log: RowLog<KvRow>;

  readonly #options: KvEventsOptions;
  readonly #logger: Logger;
  readonly #rows: KvRowLog;
  readonly #frames: FrameRing;
  readonly #pump: DecodePump;
  readonly #intake = new IntakeTurn(() => this.#turnMs() / 2);
  readonly #replayTurn = new IntakeTurn(() => this.#turnMs());
  readonly #bindings = new SharedBindings();
  readonly #streams = new Map<InstanceId, { readonly instance: AttachedInstance; readonly config: KvEventsConfig; readonly streams: KvStream[] }>();
  readonly #closing = new Set<Promise<void>>();
  /** Dropped messages of streams that are gone. */
  #droppedBefore = 0;

  constructor(options: KvEventsOptions) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
    this.#rows = new KvRowLog({
      capacity: options.capacity ?? 50_000,
      maxBytes: options.rowBytes ?? 64 * MIB,
      dropped: () => this.#all().reduce((sum, stream) => sum + stream.dropped, this.#droppedBefore),
    });
    this.log = this.#rows;
    this.#frames = new FrameRing(options.frames);
    this.#pump = new DecodePump(options.queueLimit ?? { messages: 8000, bytes: 32 * MIB }, () => this.#turnMs());
  }

  /**
   * Opens the streams of an instance; replaces those it had. A socket that cannot be made shows as state `failed`.
   * @throws PdscopeError `kv_endpoint_invalid` when the endpoint cannot be right for one of the ranks; nothing is opened then.
   */
  attach(instance: AttachedInstance, config: KvEventsConfig): void {
    const endpoints = Array.from({ length: config.ranks }, (_, rank) => rankEndpoint(config.endpoint, rank, config.mode));
    this.detach(instance.id);
    const streams = endpoints.map((endpoint, rank) => this.#create(instance, config, { rank, endpoint }));
    this.#streams.set(instance.id, { instance, config, streams });
    for (const stream of streams) stream.open();
  }

  /**
   * Opens streams of further ranks of an attached instance, once it is known to have `ranks` of them; those there are
   * stay as they are. A rank whose endpoint cannot be made is logged and left out.
   */
  extend(id: InstanceId, ranks: number): void {
    const attached = this.#streams.get(id);
    if (attached === undefined) return;
    const { instance, config, streams } = attached;
    for (let rank = streams.length; rank < ranks; rank += 1) {
      let endpoint: string;
      try {
        endpoint = rankEndpoint(config.endpoint, rank, config.mode);
      } catch (error) {
        this.#logger.warn({ instance: id, rank, problem: errorMessage(error) }, 'KV events of a rank cannot be subscribed to');
        return;
      }
      const stream = this.#create(instance, config, { rank, endpoint });
      streams.push(stream);
      stream.open();
    }
  }

  #create(instance: AttachedInstance, { mode, topic, replayEndpoint }: KvEventsConfig, { rank, endpoint }: { readonly rank: number; readonly endpoint: string }): KvStream {
    const id = streamId(instance.id, rank);
    const { books, observer, replayTimeoutMs, firstRank } = this.#options;
    return new KvStream({
      identity: { id, instance: instance.id, instanceName: instance.name, rank },
      endpoint,
      mode,
      topic,
      ...(replayEndpoint !== undefined && { replay: replayOf(replayEndpoint, rank) }),
      ...(replayTimeoutMs !== undefined && { replayTimeoutMs }),
      bindings: this.#bindings,
      pump: this.#pump,
      intake: this.#intake,
      replayTurn: this.#replayTurn,
      log: this.#rows,
      frames: this.#frames,
      books,
      ...(observer !== undefined && { observer }),
      ...(firstRank !== undefined && { firstRank: () => firstRank(instance.id) }),
      siblings: () => this.#streams.get(instance.id)?.streams ?? [],
      onGap: (gap) => this.#options.onGap?.(id, gap),
      onPhase: (phase, reason) => this.#logger.debug({ stream: id, endpoint, phase, reason }, 'KV event stream changed state'),
    });
  }

  /** Closes the streams of an instance; its rows stay. Nothing happens when it has none. */
  detach(id: InstanceId): void {
    const attached = this.#streams.get(id);
    if (attached === undefined) return;
    this.#streams.delete(id);
    for (const stream of attached.streams) {
      this.#droppedBefore += stream.dropped;
      const closed = stream.close().finally(() => this.#closing.delete(closed));
      this.#closing.add(closed);
    }
  }

  streams(): readonly KvStreamView[] {
    return this.#all().map((stream) => stream.view());
  }

  /** Streams of an instance, by rank. */
  streamsOf(id: InstanceId): readonly StreamId[] {
    return this.#streams.get(id)?.streams.map((stream) => stream.identity.id) ?? [];
  }

  /** Whether the stream of an instance's rank was connected and received nothing since then; false for one that cannot be told. */
  isQuietSince(id: InstanceId, rank: number | undefined, unixMs: number): boolean {
    return this.#streamOf(id, rank)?.isQuietSince(unixMs) === true;
  }

  /** An instance computed a prompt, which its stream must have told (untold-stores.ts). */
  computed(id: InstanceId, rank: number | undefined, prompt: ComputedPrompt): void {
    this.#streamOf(id, rank)?.computed(prompt);
  }

  /** Without a rank: the only stream. Which of several ranks ran a request is not told. */
  #streamOf(id: InstanceId, rank: number | undefined): KvStream | undefined {
    const streams = this.#streams.get(id)?.streams ?? [];
    if (rank === undefined) return streams.length === 1 ? streams[0] : undefined;
    return streams.find(({ identity }) => identity.rank === rank);
  }

  /**
   * The message that a row came in.
   * @throws PdscopeError `kv_row_not_kept`, `kv_row_without_message`, `kv_frames_evicted`.
   */
  frames(n: number): RawFrames {
    const [row] = this.#rows.changedSince(n - 1);
    return rawFrames(n, row?.n === n ? row : undefined, this.#frames);
  }

  /** Events per second of every stream over the last two minutes; null where its connection was down. */
  rates(): OperationOutputs['kv.rates'] {
    return { stepS: RATE_STEP_S, streams: this.#all().map((stream) => ({ stream: stream.identity.id, perSecond: stream.rateHistory().map((rate) => rate ?? null) })) };
  }

  /**
   * What happened to a stream last.
   * @throws PdscopeError `kv_stream_unknown`.
   */
  notes(id: StreamId): KvNotes {
    const found = this.#all().find(({ identity }) => identity.id === id);
    if (found === undefined) throw unknownStream(id);
    return found.notes();
  }

  /** Over all streams, last five seconds. */
  eventsPerSecond(): number {
    return this.#all().reduce((sum, stream) => sum + stream.eventsPerSecond(), 0);
  }

  /** Resolves once all sockets are closed. */
  async close(): Promise<void> {
    for (const id of Array.from(this.#streams.keys())) this.detach(id);
    await Promise.all(this.#closing);
  }

  #turnMs(): number {
    return this.#options.isServing?.() === true ? SERVING_TURN_MS : TURN_MS;
  }

  #all(): KvStream[] {
    return Array.from(this.#streams.values(), ({ streams }) => streams).flat();
  }
}

/** A replay endpoint that cannot be right for a rank costs its replays, not its stream. */
function replayOf(endpoint: string, rank: number): string | { readonly problem: string } {
  try {
    return rankEndpoint(endpoint, rank, 'connect');
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

/**
 * KV-cache events of the whole fleet: one stream per data-parallel rank of each attached instance, one history, one
 * store of resident blocks, one queue. Sockets only copy; decoding runs in slices of the event loop (decode-pump.ts).
 *
 * Gaps are filled from the engine's replay socket where one is configured (gap-filler.ts). The index by content and cache
 * analytics are left to what builds on this, as an observer (kv-observer.ts).
 */
import type { RawFrames } from '#shared/cache.ts';
import { errorMessage, PdscopeError } from '#shared/errors.ts';
import { streamId, type InstanceId, type StreamId } from '#shared/ids.ts';
import type { KvEventsConfig } from '#shared/instance.ts';
import type { KvConfidence, KvRow, KvStreamView } from '#shared/kv.ts';
import type { ParsedOperationInput, ResidentPage } from '#shared/operations.ts';
import { silentLogger, type Logger } from '../log.ts';
import type { RowLog } from '../row-log.ts';
import { BlockStore } from './block-store.ts';
import { instanceConfidence } from './confidence.ts';
import { DecodePump, type QueueLimit } from './decode-pump.ts';
import { rankEndpoint } from './endpoints.ts';
import { FrameRing, type FrameRingOptions } from './frame-ring.ts';
import { IntakeTurn } from './intake-turn.ts';
import type { KvObserver } from './kv-observer.ts';
import { KvRowLog } from './kv-row-log.ts';
import { KvStream } from './kv-stream.ts';
import { rawFrames } from './raw-frames.ts';
import { queryResident } from './resident-query.ts';
import { SharedBindings } from './shared-bindings.ts';
import type { GapRange } from './stream-tracker.ts';

export interface KvEventsOptions {
  /** Rows kept. Default 50,000. */
  readonly capacity?: number;
  /** Memory of the kept rows, bytes for rows, about. Default 64 MiB. */
  readonly rowBytes?: number;
  /** Resident blocks tracked over all streams; the oldest go first. Default 1,000,000. */
  readonly residentCapacity?: number;
  /** Bytes of token ids kept for resident blocks; beyond it blocks have none. Default 128 MiB. */
  readonly residentTokenBytes?: number;
  /** Messages waiting to be decoded, over all streams. Default 20,000 messages, 64 MiB. */
  readonly queueLimit?: QueueLimit;
  /** Raw frames of recent messages. Default 16 MiB. */
  readonly frames?: FrameRingOptions;
  readonly logger?: Logger;
  /** Longest wait for the next answer of an engine's replay socket, ms. Default 3000. */
  readonly replayTimeoutMs?: number;
  /** Called for every range of batches found missing. */
  readonly onGap?: (stream: StreamId, gap: GapRange) => void;
  /** Gets every event in order, and what makes earlier ones void. */
  readonly observer?: KvObserver;
}

interface AttachedInstance {
  readonly id: InstanceId;
  readonly name: string;
}

const MIB = 1024 * 1024;

export class KvEvents {
  readonly log: RowLog<KvRow>;

  readonly #options: KvEventsOptions;
  readonly #logger: Logger;
  readonly #rows: KvRowLog;
  readonly #frames: FrameRing;
  readonly #store: BlockStore;
  readonly #pump: DecodePump;
  readonly #intake = new IntakeTurn();
  /** Replays of all streams together take about as long a turn as live decoding. */
  readonly #replayTurn = new IntakeTurn(2);
  readonly #bindings = new SharedBindings();
  readonly #streams = new Map<InstanceId, { readonly instance: AttachedInstance; readonly config: KvEventsConfig; readonly streams: KvStream[] }>();
  readonly #closing = new Set<Promise<void>>();
  /** Dropped messages of streams that are gone. */
  #droppedBefore = 0;

  constructor(options: KvEventsOptions = {}) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
    this.#rows = new KvRowLog({
      capacity: options.capacity ?? 50_000,
      maxBytes: options.rowBytes ?? 64 * MIB,
      dropped: () => this.#all().reduce((sum, stream) => sum + stream.dropped, this.#droppedBefore),
    });
    this.log = this.#rows;
    this.#frames = new FrameRing(options.frames);
    this.#store = new BlockStore({ capacity: options.residentCapacity ?? 1_000_000, tokenBytes: options.residentTokenBytes ?? 128 * MIB });
    this.#pump = new DecodePump(options.queueLimit ?? { messages: 20_000, bytes: 64 * MIB });
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
    const { observer, replayTimeoutMs } = this.#options;
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
      store: this.#store,
      ...(observer !== undefined && { observer }),
      onGap: (gap) => this.#options.onGap?.(id, gap),
      onPhase: (phase, reason) => this.#logger.debug({ stream: id, endpoint, phase, reason }, 'KV event stream changed state'),
    });
  }

  /** Closes the streams of an instance and forgets its blocks; its rows stay. Nothing happens when it has none. */
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

  /** How far cache numbers of an instance can be trusted, over all its ranks. */
  confidenceOf(id: InstanceId): KvConfidence {
    const streams = this.#streams.get(id)?.streams ?? [];
    return instanceConfidence(streams.map((stream) => ({ rank: stream.identity.rank, ...stream.confidence() })));
  }

  /**
   * Resident blocks, newest first.
   * @throws PdscopeError `kv_stream_unknown` when the named stream is not attached.
   */
  blocks(input: ParsedOperationInput<'kv.blocks'>): ResidentPage {
    const streams = this.#all();
    if (input.stream !== undefined && !streams.some((stream) => stream.identity.id === input.stream)) {
      throw new PdscopeError('kv_stream_unknown', `No KV event stream ${input.stream} is attached; it may have been removed.`);
    }
    return queryResident(streams, this.#store, input);
  }

  /**
   * The message that a row came in.
   * @throws PdscopeError `kv_row_not_kept`, `kv_row_without_message`, `kv_frames_evicted`.
   */
  frames(n: number): RawFrames {
    const [row] = this.#rows.changedSince(n - 1);
    return rawFrames(n, row?.n === n ? row : undefined, this.#frames);
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

/**
 * One KV-event stream: the socket of one data-parallel rank of an instance, its place in the decode queue, and its
 * state as views show it. Owns no history: rows and blocks go to what all streams share.
 */
import type { KvStreamState, KvStreamView } from '#shared/kv.ts';
import { BatchApplier, type BatchSink } from './batch-applier.ts';
import type { BlockStore } from './block-store.ts';
import type { DecodePump, PumpLane } from './decode-pump.ts';
import type { SocketMode } from './endpoints.ts';
import type { IntakeTurn } from './intake-turn.ts';
import type { KvRowLog } from './kv-row-log.ts';
import type { RowSource, StreamIdentity } from './kv-row.ts';
import { RateWindow } from './rate-window.ts';
import { ResidentTable } from './resident-table.ts';
import type { GapRange } from './stream-tracker.ts';
import { SubSocket, type SocketPhase } from './sub-socket.ts';

export interface KvStreamOptions {
  readonly identity: StreamIdentity;
  readonly endpoint: string;
  readonly mode: SocketMode;
  readonly topic: string;
  readonly pump: DecodePump;
  readonly intake: IntakeTurn;
  readonly log: KvRowLog;
  readonly store: BlockStore;
  readonly onGap: (gap: GapRange) => void;
  readonly onPhase: (phase: SocketPhase, reason: string | undefined) => void;
}

export class KvStream {
  readonly identity: StreamIdentity;
  readonly resident: ResidentTable;

  readonly #options: KvStreamOptions;
  readonly #socket: SubSocket;
  readonly #lane: PumpLane;
  readonly #applier: BatchApplier;
  readonly #rate = new RateWindow();
  #phase: SocketPhase = 'connecting';
  #reason: string | undefined;
  #isReconnected = false;
  /** The source last handed to the log; events of a batch share it. */
  #source: RowSource | undefined;

  constructor(options: KvStreamOptions) {
    this.#options = options;
    this.identity = options.identity;
    this.resident = new ResidentTable(options.store);
    this.#applier = new BatchApplier(this.#sink());
    this.#lane = options.pump.open((message) => {
      const events = this.#applier.apply(message.frames, message);
      if (events > 0) this.#rate.add(events, performance.now());
    });
    this.#socket = new SubSocket({
      endpoint: options.endpoint,
      mode: options.mode,
      topic: options.topic,
      intake: options.intake,
      onMessage: (frames) => {
        if (this.#lane.offer(frames, this.#isReconnected)) this.#isReconnected = false;
      },
      onPhase: (phase, reason) => this.#onPhase(phase, reason),
    });
  }

  /** Messages refused by the queue. */
  get dropped(): number {
    return this.#lane.dropped;
  }

  open(): void {
    this.#socket.open();
  }

  /** Stops receiving, drops what is queued, forgets the blocks. */
  async close(): Promise<void> {
    this.#lane.close();
    this.resident.reset();
    await this.#socket.close();
  }

  eventsPerSecond(): number {
    return this.#rate.perSecond(performance.now());
  }

  view(): KvStreamView {
    const applier = this.#applier;
    const { tracker, lastReceivedAtUnixMs, lastTsUnixMs } = applier;
    const reason = this.#stateReason();
    return {
      id: this.identity.id,
      instance: this.identity.instance,
      instanceName: this.identity.instanceName,
      rank: this.identity.rank,
      endpoint: this.#options.endpoint,
      topic: this.#options.topic,
      state: this.#state(),
      ...(reason !== undefined && { stateReason: reason }),
      ...(applier.encoding !== undefined && { encoding: applier.encoding }),
      ...(applier.hashForm !== undefined && { hashForm: applier.hashForm }),
      ...(tracker.lastSeq !== undefined && { lastSeq: tracker.lastSeq }),
      ...(lastReceivedAtUnixMs !== undefined && { lastReceivedAtUnixMs }),
      ...(lastReceivedAtUnixMs !== undefined && lastTsUnixMs !== undefined && { lagMs: lastReceivedAtUnixMs - lastTsUnixMs }),
      batches: applier.batches,
      events: applier.events,
      bytes: applier.bytes,
      eventsPerSecond: this.eventsPerSecond(),
      gaps: tracker.gaps,
      missedBatches: tracker.missedBatches,
      duplicateBatches: tracker.duplicateBatches,
      epochs: tracker.epoch,
      badMessages: applier.badMessages,
      badEvents: applier.badEvents,
      unknownFields: applier.unknownFields,
      unknownRemovals: this.resident.unknownRemovals,
      droppedMessages: this.#lane.dropped,
      sawStart: tracker.sawStart,
      resident: this.resident.counts(),
    };
  }

  #state(): KvStreamState {
    switch (this.#phase) {
      case 'connected': return this.#applier.batches + this.#applier.badMessages > 0 ? 'live' : 'silent';
      case 'connecting': case 'lost': case 'failed': return this.#phase;
    }
    return this.#phase;
  }

  #stateReason(): string | undefined {
    if (this.#reason !== undefined) return this.#reason;
    const { lastRank, topics } = this.#applier;
    // Several engines may connect to one bound socket; their sequences then look like endless restarts.
    if (topics.size > 1) {
      const names = Array.from(topics, (topic) => JSON.stringify(topic)).join(', ');
      return `several publishers share this stream (topics ${names}); give each instance its own endpoint or topic`;
    }
    // Wrong port offsets between ranks are a common mistake, and otherwise invisible.
    if (lastRank === undefined || lastRank === this.identity.rank) return undefined;
    return `its batches say rank ${lastRank}, but the endpoint was taken for rank ${this.identity.rank}`;
  }

  #onPhase(phase: SocketPhase, reason: string | undefined): void {
    if (phase === 'connected' && this.#phase === 'lost') this.#isReconnected = true;
    const isChange = phase !== this.#phase || reason !== this.#reason;
    this.#phase = phase;
    this.#reason = reason;
    if (isChange) this.#options.onPhase(phase, reason);
  }

  #sink(): BatchSink {
    const { log } = this.#options;
    return {
      onRestart: () => this.resident.reset(),
      onGap: (gap) => this.#options.onGap(gap),
      onNotice: (context, notice) => log.append({ stream: this.identity, ...context }, notice),
      onEvent: (context, event) => {
        let source = this.#source;
        if (source === undefined || source.seq !== context.seq || source.epoch !== context.epoch) {
          source = { stream: this.identity, ...context };
          this.#source = source;
        }
        log.append(source, event);
        this.resident.apply(event, context.tsUnixMs ?? context.receivedAtUnixMs);
      },
    };
  }
}

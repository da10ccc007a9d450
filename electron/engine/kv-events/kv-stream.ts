/**
 * One KV-event stream: a receiver of one data-parallel rank of an instance, and its state as views show it. Owns no
 * history: rows go to the log that all streams share, events to an observer, and blocks are counted by who keeps them.
 */
import type { KvNotes } from '#shared/kv-notes.ts';
import type { KvConfidence, KvCoverage, KvStreamState, KvStreamView } from '#shared/kv.ts';
import type { BatchContext, BatchSink } from './batch-applier.ts';
import { hashCount } from './block-hashes.ts';
import type { BlockBooks, StreamBooks } from './block-books.ts';
import { streamConfidence } from './confidence.ts';
import type { SocketMode } from './endpoints.ts';
import type { FrameRing } from './frame-ring.ts';
import type { KvEvent } from './kv-event.ts';
import type { KvObserver } from './kv-observer.ts';
import type { KvRowLog } from './kv-row-log.ts';
import type { RowSource, StreamIdentity } from './kv-row.ts';
import { RateWindow } from './rate-window.ts';
import type { SharedBindings } from './shared-bindings.ts';
import { StreamReceiver, type SharedIntake, type StreamReceiverOptions } from './stream-receiver.ts';
import { StreamNotes } from './stream-notes.ts';
import type { GapRange } from './stream-tracker.ts';
import type { SocketPhase, SubSocketOptions } from './sub-socket.ts';
import { UntoldStores, type ComputedPrompt } from './untold-stores.ts';

export interface KvStreamOptions extends SharedIntake, Pick<StreamReceiverOptions, 'subscribe' | 'request' | 'replayLimits'> {
  readonly identity: StreamIdentity;
  readonly endpoint: string;
  readonly mode: SocketMode;
  readonly topic: string;
  /** ROUTER endpoint of this rank; an object when one was configured that cannot be right. Absent: none. */
  readonly replay?: string | { readonly problem: string };
  readonly replayTimeoutMs?: number;
  /** For endpoints that we bind: shared with the other streams there. */
  readonly bindings: Pick<SharedBindings, 'subscribe' | 'unclaimed'>;
  readonly log: KvRowLog;
  readonly frames: FrameRing;
  readonly books: BlockBooks;
  readonly observer?: KvObserver;
  /** The lowest rank that the instance says it has. Default: not told. */
  readonly firstRank?: () => number | undefined;
  /** Streams of all ranks of the instance, this one among them. Default: only this one. */
  readonly siblings?: () => readonly KvStream[];
  readonly onGap: (gap: GapRange) => void;
  readonly onPhase: (phase: SocketPhase, reason: string | undefined) => void;
}

/** Counts so far, to be compared with those of a moment that made earlier ones meaningless. */
interface Mark {
  readonly batches: number;
  readonly events: number;
  readonly lost: number;
  readonly badMessages: number;
  readonly badEvents: number;
  readonly unknownEvents: number;
  readonly removedBlocks: number;
  readonly unknownRemovals: number;
  readonly untracked: number;
  readonly displaced: number;
  readonly uncertainLives: number;
  readonly strays: number;
}

const NOTHING: Mark = { batches: 0, events: 0, lost: 0, badMessages: 0, badEvents: 0, unknownEvents: 0, removedBlocks: 0, unknownRemovals: 0, untracked: 0, displaced: 0, uncertainLives: 0, strays: 0 };
const NO_BOOKS: StreamBooks = { unknownRemovals: 0, duplicateStores: 0, announcedBlocks: 0, unknownParents: 0, untracked: 0, displaced: 0, counts: () => [] };

export class KvStream {
  readonly identity: StreamIdentity;

  readonly #options: KvStreamOptions;
  readonly #receiver: StreamReceiver;
  readonly #rate = new RateWindow(performance.now());
  readonly #notes = new StreamNotes();
  #phase: SocketPhase = 'connecting';
  #reason: string | undefined;
  /** Since when it is connected; infinity while it is not. */
  #connectedAtUnixMs = Number.POSITIVE_INFINITY;
  readonly #untold = new UntoldStores();
  /** Of batches of the epoch they were lost in. */
  #lost = 0;
  #removedBlocks = 0;
  #epochMark = NOTHING;
  /** At the last AllBlocksCleared of this epoch. */
  #clearMark: Mark | undefined;
  /** The source last handed to the log; events of a batch share it. */
  #source: RowSource | undefined;
  #context: BatchContext | undefined;

  constructor(options: KvStreamOptions) {
    const { replay } = options;
    this.#rate.pause(performance.now());
    this.#options = options;
    this.identity = options.identity;
    this.#receiver = new StreamReceiver({
      ...options,
      ...(typeof replay === 'string' && { replayEndpoint: replay }),
      ...(options.mode === 'bind' && { subscribe: (socket: SubSocketOptions) => options.bindings.subscribe(socket) }),
      sink: this.#sink(),
      onApplied: (events) => {
        if (events > 0) this.#rate.add(events, performance.now());
      },
      onPhase: (_phase, reason) => this.#onPhase(reason),
    });
  }

  /** Messages refused by the queue. */
  get dropped(): number {
    return this.#receiver.lane.dropped;
  }

  open(): void {
    this.#options.observer?.onOpen?.(this.identity);
    this.#receiver.open();
  }

  /** Stops receiving and drops what is queued. */
  async close(): Promise<void> {
    const closed = this.#receiver.close();
    this.#options.observer?.onClose?.(this.identity);
    await closed;
  }

  eventsPerSecond(): number {
    return this.#rate.perSecond(performance.now());
  }

  /** Whether it was connected and received nothing since then, nor has anything waiting. */
  isQuietSince(unixMs: number): boolean {
    const { applier, filler, lane } = this.#receiver;
    const isIdle = lane.queued === 0 && lane.droppedSince === 0 && filler?.isAsking !== true;
    return isIdle && this.#connectedAtUnixMs <= unixMs && (applier.lastReceivedAtUnixMs === undefined || applier.lastReceivedAtUnixMs < unixMs);
  }

  /** The engine computed a prompt. Says nothing when something was received since. */
  computed(prompt: ComputedPrompt): void {
    this.#forgetTold();
    if (this.isQuietSince(prompt.sentAtUnixMs)) this.#untold.add(prompt, performance.now());
  }

  #forgetTold(): void {
    if (!this.isQuietSince(this.#untold.lastSentAtUnixMs)) this.#untold.clear();
  }

  /** Events per second that came live, in steps of two seconds, of two minutes at most; oldest first. Undefined for steps in which the connection was down. */
  rateHistory(): readonly (number | undefined)[] {
    return this.#rate.history(performance.now());
  }

  /** What happened to it last, rarer things than batches. */
  notes(): KvNotes {
    return this.#notes.view();
  }

  /** How far cache numbers of this stream can be trusted (confidence.ts). */
  confidence(): KvConfidence {
    const { applier, filler, lane } = this.#receiver;
    const { tracker } = applier;
    const resident = this.#books.counts();
    // A prefix-cache reset says nothing about other tiers, whose blocks may be of before it.
    const isGpuOnly = resident.every(({ medium, blocks }) => medium === 'GPU' || blocks === 0);
    const clearMark = isGpuOnly ? this.#clearMark : undefined;
    const mark = clearMark ?? this.#epochMark;
    const now = this.#mark();
    this.#forgetTold();
    return streamConfidence({
      state: this.#state(),
      applied: now.batches - mark.batches,
      unseen: clearMark === undefined ? tracker.firstSeq : 0,
      isKnownEmpty: clearMark !== undefined || tracker.expected === 0,
      lost: now.lost - mark.lost,
      waiting: lane.droppedSince,
      badMessages: now.badMessages - mark.badMessages,
      events: now.events - mark.events,
      badEvents: now.badEvents - mark.badEvents,
      unknownEvents: now.unknownEvents - mark.unknownEvents,
      removedBlocks: now.removedBlocks - mark.removedBlocks,
      unknownRemovals: now.unknownRemovals - mark.unknownRemovals,
      isLifeUncertain: now.uncertainLives > mark.uncertainLives,
      strays: now.strays - mark.strays,
      isReplaying: filler?.isAsking === true,
      lagMs: this.#lagMs(),
      hasSeveralPublishers: applier.topics.size > 1 || this.#receiver.hasRivals,
      hasOtherRank: this.#hasOtherRank,
      untold: this.#untold.facts(performance.now()),
      isRankTold: this.#options.firstRank?.() !== undefined,
      residentBlocks: resident.reduce((sum, { blocks }) => sum + blocks, 0),
      untrackedBlocks: now.untracked - mark.untracked,
      displacedBlocks: now.displaced - mark.displaced,
    });
  }

  view(): KvStreamView {
    const { applier, lane } = this.#receiver;
    const { tracker, lastReceivedAtUnixMs } = applier;
    const books = this.#books;
    const reason = this.#stateReason();
    const lagMs = this.#lagMs();
    const { replay } = this.#options;
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
      ...(lagMs !== undefined && { lagMs }),
      batches: applier.batches,
      events: applier.events,
      bytes: applier.bytes,
      eventsPerSecond: this.eventsPerSecond(),
      gaps: tracker.gaps,
      missedBatches: tracker.missedBatches,
      gapsFilled: tracker.gapsFilled,
      missedFilled: tracker.missedFilled,
      missedLost: tracker.missedLost,
      duplicateBatches: tracker.duplicateBatches,
      strayBatches: tracker.strayBatches,
      epochs: tracker.epoch,
      badMessages: applier.badMessages,
      badEvents: applier.badEvents,
      unknownEvents: applier.unknownEvents,
      unknownFields: applier.unknownFields,
      badTimestamps: applier.badTimestamps,
      unknownRemovals: books.unknownRemovals,
      duplicateStores: books.duplicateStores,
      announcedBlocks: books.announcedBlocks,
      unknownParents: books.unknownParents,
      hashFormChanges: applier.hashFormChanges,
      droppedMessages: lane.dropped,
      sawStart: tracker.sawStart,
      replay: this.#receiver.filler?.view() ?? {
        state: typeof replay === 'object' ? 'failed' : 'none',
        ...(typeof replay === 'object' && { reason: replay.problem }),
        asked: 0,
        failed: 0,
        batches: 0,
      },
      coverage: this.#coverage(),
      ...this.confidence(),
      resident: books.counts(),
    };
  }

  /** What its batches say, less the rank that it was taken for. */
  get #rankOffset(): number | undefined {
    const { lastRank } = this.#receiver.applier;
    return lastRank === undefined ? undefined : lastRank - this.identity.rank;
  }

  get #hasOtherRank(): boolean {
    return this.#rankOffset !== undefined && this.#rankOffset !== 0 && !this.#isLaterNode;
  }

  /**
   * Whether the instance is another node than the first of its deployment, whose ranks, and ports, count on (vLLM stamps the
   * global data-parallel index). Its `/metrics` tell. Without them: all of its streams are there, and say ranks by the same
   * amount higher. A base port that is off by one looks alike but for the last stream, which finds nobody; an instance of
   * one rank has no other stream, so of it nothing but `/metrics` tells.
   */
  get #isLaterNode(): boolean {
    const offset = this.#rankOffset ?? 0;
    const told = this.#options.firstRank?.();
    if (told !== undefined) return offset > 0 && offset === told;
    const siblings = this.#options.siblings?.() ?? [];
    return offset > 0 && siblings.length > 1 && siblings.every((stream) => stream.#rankOffset === offset || (stream.#rankOffset === undefined && stream.#state() === 'silent'));
  }

  get #books(): StreamBooks {
    return this.#options.books.stream(this.identity.id) ?? NO_BOOKS;
  }

  #state(): KvStreamState {
    const { phase, applier } = this.#receiver;
    switch (phase) {
      case 'connected': return applier.batches + applier.badMessages > 0 ? 'live' : 'silent';
      case 'connecting': case 'lost': case 'failed': return phase;
    }
    return phase;
  }

  #stateReason(): string | undefined {
    if (this.#reason !== undefined) return this.#reason;
    const { lastRank, topics } = this.#receiver.applier;
    // Several engines may connect to one bound socket; their sequences then look like endless restarts.
    if (topics.size > 1) {
      const names = Array.from(topics, (topic) => JSON.stringify(topic)).join(', ');
      return `several publishers share this stream (topics ${names}); give each instance its own endpoint or topic`;
    }
    if (this.#receiver.hasRivals) {
      return 'its sequence goes back again and again on one connection: several publishers seem to share this stream; give each instance its own endpoint or topic';
    }
    const { mode, endpoint, topic, bindings } = this.#options;
    const unclaimed = mode === 'bind' && this.#receiver.applier.batches === 0 ? bindings.unclaimed(endpoint) : [];
    if (unclaimed.length > 0) {
      return `nothing arrives under topic ${JSON.stringify(topic)}, but under ${unclaimed.map((other) => JSON.stringify(other)).join(', ')}, which no instance takes`;
    }
    const [other = topic] = topics;
    // Replies of the replay socket are not filtered.
    if (mode === 'connect' && !other.startsWith(topic)) {
      return `the replay socket answers under topic ${JSON.stringify(other)}, and only ${JSON.stringify(topic)} is subscribed to: what is published there does not arrive`;
    }
    if (mode === 'connect' && topic !== '' && this.#state() === 'silent') {
      return `nothing has arrived under topic ${JSON.stringify(topic)} yet: an idle engine, or one that publishes under another topic`;
    }
    // Wrong port offsets between ranks are a common mistake, and otherwise invisible.
    if (lastRank === undefined || lastRank === this.identity.rank) return undefined;
    if (this.#isLaterNode) return `its batches say rank ${lastRank}: the ranks of this instance count from ${lastRank - this.identity.rank}`;
    return `its batches say rank ${lastRank}, but the endpoint was taken for rank ${this.identity.rank}`;
  }

  #lagMs(): number | undefined {
    const { lastTsUnixMs, lastTsReceivedAtUnixMs } = this.#receiver.applier;
    return lastTsUnixMs === undefined || lastTsReceivedAtUnixMs === undefined ? undefined : lastTsReceivedAtUnixMs - lastTsUnixMs;
  }

  #coverage(): KvCoverage {
    const { applier: { batches, badMessages, tracker: { firstSeq } } } = this.#receiver;
    const mark = this.#epochMark;
    const applied = batches - mark.batches;
    const unreadable = badMessages - mark.badMessages;
    const lost = this.#lost - mark.lost;
    const all = applied + firstSeq + lost + unreadable;
    return { applied, unseen: firstSeq, lost, unreadable, ...(all > 0 && { share: applied / all }) };
  }

  #mark(): Mark {
    const { batches, events, badMessages, badEvents, unknownEvents } = this.#receiver.applier;
    const { unknownRemovals, untracked, displaced } = this.#books;
    return { batches, events, badMessages, badEvents, unknownEvents, unknownRemovals, untracked, displaced, uncertainLives: this.#receiver.uncertainLives, strays: this.#receiver.applier.tracker.strayBatches, lost: this.#lost, removedBlocks: this.#removedBlocks };
  }

  #onPhase(reason: string | undefined): void {
    const { phase } = this.#receiver;
    if (phase === this.#phase && reason === this.#reason) return;
    if (phase === 'connected' && this.#phase !== 'connected') {
      this.#connectedAtUnixMs = Date.now();
      this.#rate.resume(performance.now());
    } else if (phase !== 'connected') {
      this.#connectedAtUnixMs = Number.POSITIVE_INFINITY;
      this.#rate.pause(performance.now());
    }
    if (phase !== this.#phase) this.#notes.phase(phase, reason, Date.now());
    this.#phase = phase;
    this.#reason = reason;
    this.#options.onPhase(phase, reason);
  }

  #sink(): Omit<BatchSink, 'onGap'> & { onGap(gap: GapRange): void } {
    const { log, frames: ring, observer } = this.#options;
    const { identity } = this;
    return {
      onEpoch: (change) => {
        observer?.onEpoch?.(identity, change);
        this.#epochMark = this.#mark();
        this.#clearMark = undefined;
      },
      onGap: (gap) => this.#options.onGap(gap),
      onLost: (gap) => {
        if (gap.epoch === this.#receiver.applier.tracker.epoch) this.#lost += gap.to - gap.from + 1;
        observer?.onLost?.(identity, gap);
      },
      onUnreadable: ({ epoch, seq }) => {
        if (seq !== undefined) observer?.onLost?.(identity, { from: seq, to: seq, epoch });
      },
      onNotice: (context, notice) => {
        log.append(rowSource(identity, context), notice);
        this.#notes.notice(notice, context.receivedAtUnixMs);
      },
      onBatch: (events) => observer?.onBatch?.(identity, events),
      onEvent: (context, event) => this.#onEvent(context, event),
      onMessage: ({ receivedAtUnixMs }, frames) => ring.add(log.lastChange() + 1, receivedAtUnixMs, frames),
    };
  }

  #onEvent(context: BatchContext, event: KvEvent): void {
    const { log, observer } = this.#options;
    if (this.#context !== context || this.#source === undefined) {
      this.#context = context;
      this.#source = rowSource(this.identity, context);
    }
    log.append(this.#source, event);
    observer?.onEvent?.(this.identity, context, event);
    if (event.kind === 'removed') this.#removedBlocks += hashCount(event.hashes);
    else if (event.kind === 'cleared') {
      this.#clearMark = this.#mark();
      this.#notes.cleared(context.receivedAtUnixMs);
    }
  }
}

function rowSource(stream: StreamIdentity, { epoch, seq, tsUnixMs, receivedAtUnixMs }: BatchContext): RowSource {
  return { stream, epoch, seq, tsUnixMs, receivedAtUnixMs };
}

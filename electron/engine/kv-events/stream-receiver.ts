/**
 * What every subscriber of one publisher needs, the engine's streams and the command line alike: the SUB socket, its lane
 * in the decode queue, the applier, and the filler of gaps when there is a replay socket. Batches reach the sink in the
 * engine's order, each once, whether they came live or by replay.
 */
import { BatchApplier, type BatchSink } from './batch-applier.ts';
import type { DecodePump, PumpLane, QueuedMessage } from './decode-pump.ts';
import type { SocketMode } from './endpoints.ts';
import { GapFiller } from './gap-filler.ts';
import type { GapFillerOptions } from './gap-filler-options.ts';
import type { IntakeTurn } from './intake-turn.ts';
import type { ReplayOutcome } from './replay-client.ts';
import type { Subscription } from './shared-bindings.ts';
import { SubSocket, type SocketPhase, type SubSocketOptions } from './sub-socket.ts';

/** What all streams of a process share. */
export interface SharedIntake {
  readonly pump: DecodePump;
  readonly intake: IntakeTurn;
  readonly replayTurn: IntakeTurn;
}

export interface StreamReceiverOptions extends SharedIntake {
  readonly endpoint: string;
  readonly mode: SocketMode;
  readonly topic: string;
  /** ROUTER endpoint of this rank. Absent: gaps stay open. */
  readonly replayEndpoint?: string;
  /** First batch wanted at first contact. Default 0. */
  readonly replayFrom?: number;
  /** Longest wait for a replay's next answer, ms. Default 3000. */
  readonly replayTimeoutMs?: number;
  readonly onReplayEnd?: (outcome: ReplayOutcome) => void;
  readonly onPhase: (phase: SocketPhase, reason: string | undefined) => void;
  /** `onGap` is only told here: whether a gap is taken depends on the replay socket. */
  readonly sink: Omit<BatchSink, 'onGap'> & { onGap(gap: Parameters<BatchSink['onGap']>[0]): void };
  /** After each live message: how many events it had. */
  readonly onApplied?: (events: number) => void;
  readonly replayLimits?: GapFillerOptions['limits'];
  /** Makes the socket. Default: a SUB socket of its own. */
  readonly subscribe?: (options: SubSocketOptions) => Subscription;
  /** Asks the replay socket. Default: over a DEALER. */
  readonly request?: GapFillerOptions['request'];
}

/** An engine that starts anew takes its connection with it. This many steps back without a new one, in so many ms, come from several publishers. */
const RIVAL_RESTARTS = 3;
const RIVAL_WINDOW_MS = 60_000;

export class StreamReceiver {
  readonly applier: BatchApplier;
  readonly lane: PumpLane;
  readonly filler: GapFiller | undefined;
  phase: SocketPhase = 'connecting';
  /**
   * Times that batches were missing behind a new connection and no replay told whether the engine started anew meanwhile:
   * then blocks from before may be gone, though the sequence went on.
   */
  uncertainLives = 0;

  readonly #options: StreamReceiverOptions;
  readonly #socket: Subscription;
  #isReconnected = false;
  /** Number of the newest message when the connection broke last. */
  #brokeAfter: number | undefined;
  /** Number of the live message applied last. */
  #lastApplied = 0;
  /** `missedLost` and epoch as of then. */
  #lostBefore = 0;
  #epochBefore = 0;
  /** Number of the live message being handled; 0 for none. */
  #handling = 0;
  #handshakes = 0;
  /** When live batches went back without a new connection, the last few. */
  #stepsBackMs: readonly number[] = [];

  constructor(options: StreamReceiverOptions) {
    const { sink, endpoint, mode, topic, intake, replayEndpoint, replayFrom, replayTimeoutMs, onReplayEnd, replayLimits, request } = options;
    this.#options = options;
    this.applier = new BatchApplier({
      ...sink,
      onGap: (gap) => {
        sink.onGap(gap);
        return this.filler?.takes(gap, this.#handling) === true;
      },
      onLost: (gap) => {
        this.filler?.onLost(gap);
        sink.onLost(gap);
      },
      onEpoch: (change) => {
        if (this.#handling > 0 && !this.#hasBroken()) this.#onStepBack(change.reason);
        sink.onEpoch(change);
      },
    });
    this.lane = options.pump.open((message) => this.#handle(message));
    if (replayEndpoint !== undefined) {
      this.filler = new GapFiller({
        endpoint: replayEndpoint,
        turn: options.replayTurn,
        applier: this.applier,
        lane: this.lane,
        brokeAfter: () => (this.#hasBroken() ? this.#brokeAfter : undefined),
        onCurrent: () => {
          if (this.phase === 'connected') this.#brokeAfter = undefined;
        },
        ...(replayFrom !== undefined && { from: replayFrom }),
        ...(replayTimeoutMs !== undefined && { timeoutMs: replayTimeoutMs }),
        ...(onReplayEnd !== undefined && { onEnd: onReplayEnd }),
        ...(replayLimits !== undefined && { limits: replayLimits }),
        ...(request !== undefined && { request }),
      });
    }
    const subscribe = options.subscribe ?? ((socket: SubSocketOptions) => new SubSocket(socket));
    this.#socket = subscribe({
      endpoint,
      mode,
      topic,
      intake,
      onMessage: (frames) => {
        if (this.lane.offer(frames, this.#isReconnected)) this.#isReconnected = false;
      },
      onPhase: (phase, reason) => this.#onPhase(phase, reason),
      onHandshake: () => this.#onHandshake(),
    });
  }

  open(): void {
    this.#socket.open();
  }

  /** Whether live batches go back again and again on one connection, as those of several publishers do. */
  get hasRivals(): boolean {
    const [first] = this.#stepsBackMs;
    return this.#stepsBackMs.length === RIVAL_RESTARTS && first !== undefined && performance.now() - first < RIVAL_WINDOW_MS;
  }

  /** Stops receiving and replaying, drops what is queued. */
  async close(): Promise<void> {
    this.lane.close();
    await Promise.all([this.filler?.close(), this.#socket.close()]);
  }

  #handle(message: QueuedMessage): void {
    const { applier, filler, lane } = this;
    if (filler?.isStale(message.number) === true) {
      applier.tracker.duplicateBatches += 1;
      return;
    }
    const eventsBefore = applier.events;
    const isOvertaken = filler?.isOvertaken(message.number) === true;
    const isReconnected = message.isReconnected && !isOvertaken && filler?.isVerified(message.number) !== true;
    const { receivedAtUnixMs, droppedBefore } = message;
    const isFirstOfConnection = this.#hasBroken() && message.number > (this.#brokeAfter ?? 0);
    this.#handling = message.number;
    const applied = applier.apply(message.frames, { receivedAtUnixMs, droppedBefore, isReconnected, isOvertaken });
    this.#handling = 0;
    if (applied === 'held') lane.hold(message);
    if (applied !== 'applied') return;
    const { missedLost, epoch } = applier.tracker;
    if (isFirstOfConnection && epoch === this.#epochBefore && missedLost > this.#lostBefore) this.uncertainLives += 1;
    this.#lostBefore = missedLost;
    this.#epochBefore = epoch;
    this.#lastApplied = message.number;
    this.#options.onApplied?.(applier.events - eventsBefore);
  }

  /** Whether the connection broke since the last live batch that was applied, or the last replay that was whole. */
  #hasBroken(): boolean {
    return this.#brokeAfter !== undefined && this.#lastApplied <= this.#brokeAfter;
  }

  #onStepBack(reason: string): void {
    this.#stepsBackMs = [...this.#stepsBackMs, performance.now()].slice(-RIVAL_RESTARTS);
    this.filler?.distrust(`live batches went back without a new connection (${reason}); is it this stream's replay socket?`);
  }

  /** The phase says `connected` from the first message on, which may be late data of a connection that is gone. */
  #onHandshake(): void {
    this.#handshakes += 1;
    if (this.#handshakes === 1 || this.phase !== 'connected') return;
    this.#brokeAfter ??= this.lane.lastNumber;
    if (this.#options.mode === 'connect') this.#isReconnected = true;
    this.filler?.catchUp();
  }

  #onPhase(phase: SocketPhase, reason: string | undefined): void {
    const isNew = phase === 'connected' && this.phase !== 'connected';
    if (isNew && this.phase === 'lost') this.#isReconnected = true;
    if (phase === 'lost' && this.phase !== 'lost') this.#brokeAfter = this.lane.lastNumber;
    this.phase = phase;
    if (isNew) this.filler?.catchUp();
    this.#options.onPhase(phase, reason);
  }
}

/**
 * Gets missing batches of one stream from the engine's replay socket (replay-client.ts) before anything newer is applied.
 *
 * When it asks: at first contact, for what was sent before (from 0); at a new connection, for what was sent meanwhile;
 * and at a gap in the live batches. The stream's lane is held from then on, so live batches wait in the bounded queue;
 * everything replayed is applied in order, to the end marker, which covers later gaps too; then the lane goes on, and
 * live batches that the replay had are duplicates.
 *
 * Every question begins with the newest batch that was applied (one batch more than is missing). The engine must still
 * have it, with the same timestamp: else it started anew, which live batches alone may never show. Without a broken
 * connection in between, it is another engine that answers, and nothing of it is applied. When the engine keeps that batch
 * no more, and the connection broke, nobody can tell: then the blocks known so far are given up too.
 *
 * Live batches never wait without bound: silence of `timeoutMs` or `maxFillMs` in all ends it. What was not filled is
 * lost, counted, and said; and the next question waits for a back-off that doubles while the socket stays silent.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { KvReplayView } from '#shared/kv.ts';
import { batchRange } from './batch-applier.ts';
import { readSequence } from './decode-batch.ts';
import { EmptyReplay, keepsNone } from './empty-replay.ts';
import { DEFAULT_LIMITS, type FillLimits, type GapFillerOptions } from './gap-filler-options.ts';
import type { Notice, NoticeFacts } from './kv-row.ts';
import { badRepliesText, requestReplay, type ReplayLayout } from './replay-client.ts';
import type { GapRange } from './stream-tracker.ts';

const MAX_BACK_OFF_MS = 300_000;
/** Questions of one fill: engines may start anew while they answer. */
const MAX_QUESTIONS = 4;

type Answer =
  | { readonly kind: 'whole' }
  | { readonly kind: 'failed'; readonly reason: string; readonly messages: number; readonly isForeign?: boolean }
  /** The connection was made anew while it was asked. */
  | { readonly kind: 'again' }
  /** The engine started anew since the newest batch applied: ask for its new life. */
  | { readonly kind: 'restarted' };

export class GapFiller {
  readonly #options: GapFillerOptions;
  readonly #limits: FillLimits;
  readonly #closing = new AbortController();
  #running: Promise<void> | undefined;
  /** Ends the question being asked. */
  #question: AbortController | undefined;
  #isAskedAnew = false;
  /** The gap being filled, and how many of its batches came. */
  #gap: GapRange | undefined;
  #filledInGap = 0;
  #gapShownBy = 0;
  /** Batches of this epoch that a replay brought, and no batch received live has confirmed to be this engine's. */
  #unconfirmed = 0;
  #isAnchorLive = false;
  /** Replies to the question being asked that look like batches, and whose number cannot be read. */
  #unnumbered = 0;
  #failures = 0;
  #isSilent = false;
  #reason: string | undefined;
  #retryAtMs = Number.NEGATIVE_INFINITY;
  #endedAtMs = Number.NEGATIVE_INFINITY;
  #asked = 0;
  #failed = 0;
  #layout: ReplayLayout | undefined;
  #staleUpTo = 0;
  #overtakenUpTo = 0;
  #verifiedUpTo = 0;
  readonly #empty = new EmptyReplay();
  /** The epoch that was taken to begin at 0 only because the socket had nothing. */
  #assumedEpoch = 0;

  constructor(options: GapFillerOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
  }

  get isAsking(): boolean {
    return this.#running !== undefined;
  }

  /** Whether a live message belongs to a life of the engine that a replay showed to be over, or was in that replay. */
  isStale(number: number): boolean {
    return number <= this.#staleUpTo;
  }

  /** Whether a replay brought batches after the connection broke on which this live message came. */
  isOvertaken(number: number): boolean {
    return number <= this.#overtakenUpTo;
  }

  /** Whether a replay told, after this live message was received, which life of the engine is the current one. */
  isVerified(number: number): boolean {
    return number <= this.#verifiedUpTo;
  }

  view(): KvReplayView {
    const state = this.isAsking ? 'asking' : this.#reason === undefined ? 'idle' : 'failed';
    const retryInMs = this.#retryAtMs - performance.now();
    return {
      state,
      endpoint: this.#options.endpoint,
      ...(this.#reason !== undefined && { reason: this.#reason }),
      asked: this.#asked,
      failed: this.#failed,
      batches: this.#options.applier.replayedBatches,
      ...(this.#layout !== undefined && { layout: this.#layout }),
      ...(state === 'failed' && retryInMs > 0 && { retryAtUnixMs: Date.now() + retryInMs }),
    };
  }

  /** A connection was made, the first or a new one: gets what was sent before. Holds the lane at once. */
  catchUp(): void {
    if (this.#closing.signal.aborted) return;
    if (this.#running !== undefined) {
      // The question went to an engine that is gone.
      this.#isAskedAnew = true;
      this.#question?.abort();
      return;
    }
    // A new engine may have the socket that the old one lacked; but a connection may also come and go every second.
    if (this.#isSilent && performance.now() < this.#endedAtMs + this.#limits.backOffMs) return;
    this.#gap = undefined;
    this.#start();
  }

  /** Takes a gap that the live message `shownBy` showed, and holds the lane; false while asking is no use. */
  takes(gap: GapRange, shownBy: number): boolean {
    if (this.#closing.signal.aborted || this.#running !== undefined || performance.now() < this.#retryAtMs) return false;
    this.#gap = gap;
    this.#gapShownBy = shownBy;
    this.#filledInGap = 0;
    this.#start();
    return true;
  }

  /** To be told of batches lost while a replay is applied: those it could not begin with. */
  onLost(gap: GapRange): void {
    const filling = this.#gap;
    // What the gap being filled lost is settled at its end.
    if (this.#running === undefined || (filling?.epoch === gap.epoch && gap.from <= filling.to)) return;
    const { tracker } = this.#options.applier;
    tracker.found(gap);
    tracker.settle(0, gap.to - gap.from + 1);
    this.#say('lost', `${batchRange(gap, 'is', 'are')} lost: the engine keeps batches from ${gap.to + 1} on`);
  }

  /** Live batches do not fit what the socket answered: it is asked less and less often. */
  distrust(reason: string): void {
    this.#fail(reason, true);
  }

  /** Ends what is running; the lane is let go. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#question?.abort();
    await this.#running;
  }

  #start(): void {
    this.#options.lane.hold();
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      this.#endedAtMs = performance.now();
      this.#options.lane.release();
    });
  }

  async #run(): Promise<void> {
    const { applier, lane } = this.#options;
    const { signal } = this.#closing;
    const startedAtMs = performance.now();
    const batchesBefore = applier.replayedBatches;
    const wasContacted = applier.tracker.expected !== undefined;
    await delay(this.#endedAtMs + this.#limits.pauseMs - startedAtMs, signal);
    let answer: Answer = { kind: 'again' };
    let hasRestarted = false;
    let hasBroken = false;
    for (let question = 0; question < MAX_QUESTIONS && (answer.kind === 'again' || answer.kind === 'restarted'); question += 1) {
      if (signal.aborted) return;
      const receivedBefore = lane.lastNumber;
      answer = await this.#ask(startedAtMs + this.#limits.maxFillMs);
      if (answer.kind === 'again') continue;
      if (answer.kind === 'restarted') {
        hasRestarted = true;
        continue;
      }
      const broken = this.#options.brokeAfter();
      if (answer.kind === 'whole') {
        // It has everything that the current life had sent before it was asked for.
        if (hasRestarted) this.#staleUpTo = receivedBefore;
        else if (broken !== undefined) this.#staleUpTo = Math.min(broken, receivedBefore);
        hasBroken = broken !== undefined;
        this.#verifiedUpTo = lane.lastNumber;
      }
      if (answer.kind === 'whole' || (answer.isForeign !== true && answer.messages > 0)) this.#options.onCurrent();
    }
    if (signal.aborted) return;
    this.#end(answer, { batches: applier.replayedBatches - batchesBefore, wasContacted, hasRestarted, hasBroken });
  }

  async #ask(untilMs: number): Promise<Answer> {
    const { applier, endpoint, turn, timeoutMs, brokeAfter, onEnd, request = requestReplay } = this.#options;
    const { tracker } = applier;
    const anchor = tracker.anchorSeq;
    this.#isAnchorLive = anchor !== undefined && !applier.isLastReplayed;
    const question = new AbortController();
    this.#question = question;
    this.#asked += 1;
    this.#unnumbered = 0;
    let isOther = false;
    let isFirst = true;
    const timer = setTimeout(() => question.abort(), Math.max(0, untilMs - performance.now()));
    const from = anchor ?? tracker.expected ?? this.#options.from ?? 0;
    const common = { endpoint, turn, signal: question.signal, ...(timeoutMs !== undefined && { timeoutMs }) };
    const outcome = await request({
      ...common,
      from,
      onMessage: ({ frames }) => {
        this.#empty.batch();
        if (isFirst) this.#checkAnchor(anchor, frames[1]);
        isFirst = false;
        isOther = !this.#take(frames);
        return !isOther;
      },
    });
    const isEmpty = (anchor !== undefined || this.#gap !== undefined) && (await this.#empty.isEmpty(outcome, from, () => request({ ...common, from: 0, onMessage: () => false })));
    clearTimeout(timer);
    if (outcome.layout !== undefined) this.#layout = outcome.layout;
    onEnd?.(outcome);
    if (outcome.messages > 0) this.#overtakenUpTo = brokeAfter() ?? this.#overtakenUpTo;
    if (this.#isAskedAnew) {
      this.#isAskedAnew = false;
      return { kind: 'again' };
    }
    const { messages } = outcome;
    if (outcome.status === 'aborted') return { kind: 'failed', messages, reason: `${endpoint} had not answered to the end after ${this.#limits.maxFillMs / 1000} s${badRepliesText(outcome.badReplies)}` };
    if (isEmpty && (this.#empty.isKnown || this.#hasSent(anchor))) {
      this.#empty.isKnown = true;
      return { kind: 'failed', messages, reason: keepsNone(endpoint) };
    }
    const isGone = anchor !== undefined && outcome.status === 'complete' && messages === 0;
    if (anchor !== undefined && (isOther || isGone)) {
      const broken = brokeAfter();
      if (broken === undefined) {
        const what = isGone ? `does not have batch ${anchor} that` : `has another batch ${anchor} than`;
        return { kind: 'failed', messages, isForeign: true, reason: `${endpoint} ${what} this stream sent: it answers for another engine` };
      }
      applier.restart(`after a new connection the engine ${isGone ? 'no longer has' : 'has another'} batch ${anchor}`, Date.now());
      if (isEmpty) this.#assumedEpoch = tracker.epoch;
      this.#unconfirmed = 0;
      this.#staleUpTo = broken;
      return { kind: 'restarted' };
    }
    if (outcome.status === 'complete' && this.#unnumbered > 0) {
      return { kind: 'failed', messages, reason: `${endpoint} answered with ${this.#unnumbered} ${this.#unnumbered === 1 ? 'batch whose number' : 'batches whose numbers'} cannot be read` };
    }
    if (outcome.status !== 'complete') return { kind: 'failed', messages, reason: outcome.reason ?? `${endpoint} did not answer` };
    // Nothing was sent yet, so whatever comes is seen from the start.
    if (tracker.expected === undefined && (this.#options.from ?? 0) === 0) {
      tracker.begin(0);
      this.#assumedEpoch = tracker.epoch;
    }
    return { kind: 'whole' };
  }

  /** Whether the engine that answers now has published: a batch that was applied, or one that waits behind the gap. */
  #hasSent(anchor: number | undefined): boolean {
    const broken = this.#options.brokeAfter();
    return broken === undefined || (anchor === undefined && this.#gapShownBy > broken);
  }

  /** Gives up what is known when the answer begins behind the newest batch applied, and another life is possible. */
  #checkAnchor(anchor: number | undefined, sequence: Uint8Array): void {
    const { applier, brokeAfter } = this.#options;
    const first = readSequence(sequence);
    if (anchor === undefined || first === undefined || first <= anchor || brokeAfter() === undefined) return;
    applier.disown(`after a new connection the engine keeps batches from ${first} on only, so it may have started anew since batch ${anchor}`, Date.now());
  }

  /** False when the batch is of another life than the batches applied. */
  #take(frames: readonly Uint8Array[]): boolean {
    const { applier, from } = this.#options;
    const { tracker } = applier;
    if (tracker.expected === undefined && from !== undefined) tracker.begin(from);
    const applied = applier.applyReplayed(frames, Date.now());
    if (applied === 'other-life') return false;
    if (applied === 'unnumbered') {
      this.#unnumbered += 1;
      return true;
    }
    const { lastSeq = -1, epoch } = tracker;
    if (applied === 'seen') {
      if (this.#isAnchorLive) this.#unconfirmed = 0;
      return true;
    }
    this.#unconfirmed += 1;
    const gap = this.#gap;
    if (gap?.epoch === epoch && lastSeq >= gap.from && lastSeq <= gap.to) this.#filledInGap += 1;
    return true;
  }

  #end(answer: Answer, run: { readonly batches: number; readonly wasContacted: boolean; readonly hasRestarted: boolean; readonly hasBroken: boolean }): void {
    const { applier, endpoint } = this.#options;
    let reason: string | undefined;
    let isForeign = false;
    if (answer.kind === 'failed') ({ reason, isForeign = false } = answer);
    else if (answer.kind !== 'whole') reason = 'the engine started anew again and again while it was asked';
    const gap = this.#gap;
    const { expected = 0, epoch } = applier.tracker;
    if (gap !== undefined && reason === undefined && !run.hasRestarted && !run.hasBroken && expected <= gap.to) {
      isForeign = true;
      reason = `${endpoint} does not have ${batchRange({ from: expected, to: gap.to }, 'that this stream sent', 'that this stream sent')}: it answers for another engine`;
    }
    if (gap !== undefined) this.#settle(gap, reason);
    else this.#report(run);
    this.#gap = undefined;
    if (reason === undefined) {
      this.#failures = 0;
      this.#isSilent = false;
      this.#reason = undefined;
      this.#retryAtMs = Number.NEGATIVE_INFINITY;
      return;
    }
    if (gap === undefined) this.#say('error', `replay: ${reason}`);
    this.#fail(reason, answer.kind !== 'failed' || run.batches === 0);
    // What it brought before cannot be told from this engine's own.
    if (isForeign && this.#unconfirmed > 0 && epoch === applier.tracker.epoch) applier.disown(`the replay socket ${endpoint} answers for another engine`, Date.now());
    if (isForeign) this.#unconfirmed = 0;
  }

  /** The gap is over: counts what came and what did not, and goes on behind it. */
  #settle(gap: GapRange, reason: string | undefined): void {
    const { applier } = this.#options;
    const { tracker } = applier;
    const count = gap.to - gap.from + 1;
    if (this.#empty.isKnown && tracker.epoch === this.#assumedEpoch && tracker.joinLate(gap)) {
      const why = reason ?? 'the engine no longer keeps them';
      this.#say('lost', `${neverSeen(count, gap.to + 1)}: ${why}`, { kind: 'unseen', gap, reason: why });
      return;
    }
    const isOpen = tracker.epoch === gap.epoch && (tracker.expected ?? 0) <= gap.to;
    // Shown by a batch of a life that is over, it is none in the current one.
    const isVoid = isOpen && this.isStale(this.#gapShownBy);
    const filled = isVoid ? 0 : this.#filledInGap;
    if (isOpen && !isVoid) applier.lose({ ...gap, from: Math.max(gap.from, tracker.expected ?? 0) });
    tracker.settle(filled, count - filled);
    if (filled > 0) this.#say('filled', filled === count ? `${batchRange(gap, 'came', 'came')} by replay` : `${filled} of ${count} missing batches (${gap.from} to ${gap.to}) came by replay`, { kind: 'came', gap, batches: filled });
    if (filled === count) return;
    const what = filled === 0 ? batchRange(gap, 'is', 'are') : `${count - filled} of ${count} missing batches (${gap.from} to ${gap.to}) are`;
    const why = reason ?? (tracker.epoch === gap.epoch && !isVoid ? 'the engine no longer keeps them' : 'the engine that had them is gone');
    this.#say('lost', `${what} lost: ${why}`, { kind: 'gone', gap, batches: count - filled, reason: why });
  }

  /** What a replay brought that no live batch was waiting for. */
  #report({ batches, wasContacted, hasRestarted }: { readonly batches: number; readonly wasContacted: boolean; readonly hasRestarted: boolean }): void {
    const { tracker } = this.#options.applier;
    const { lastSeq, firstSeq } = tracker;
    if (batches === 0 || lastSeq === undefined) return;
    const when = hasRestarted ? 'of the engine\'s new life' : wasContacted ? 'sent since the last one received' : 'from before this subscription';
    this.#say('filled', `${batches} ${batches === 1 ? 'batch' : 'batches'} ${when} came by replay, up to ${lastSeq}`);
    if (!wasContacted && firstSeq > 0 && this.#options.from === undefined) this.#say('lost', `${neverSeen(firstSeq, firstSeq)}: the engine keeps those from ${firstSeq} on`);
  }

  #fail(reason: string, isSilent: boolean): void {
    this.#failed += 1;
    this.#failures += 1;
    this.#isSilent = isSilent;
    this.#reason = reason;
    this.#retryAtMs = performance.now() + Math.min(MAX_BACK_OFF_MS, this.#limits.backOffMs * 2 ** (this.#failures - 1));
  }

  #say(kind: Notice['kind'], note: string, facts?: NoticeFacts): void {
    this.#options.applier.notice({ kind, note, ...(facts !== undefined && { facts }) }, Date.now());
  }
}

function neverSeen(count: number, before: number): string {
  return count === 1 ? `the batch before ${before} was never seen` : `the ${count} batches before ${before} were never seen`;
}

/** Resolves after `ms`, or at once when aborted. */
async function delay(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await sleep(ms, undefined, { signal }).catch(() => undefined);
}

/**
 * Finds out why requests missed: soon after the leg that computed a prompt answered, the prompt's tokens are had
 * (prompt-tokens.ts) and held against the index as it was when the leg was scheduled, since what the index remembers of
 * the past is bounded. Off the hot path: requests only leave a reference.
 *
 * Two lanes. Where instances have to be asked for the tokens, two prompts at a time are, and ten a second: that protects
 * the engines. Where the tokens are there, or are read off events, only what it costs this process is bounded. Requests
 * beyond either are explained when somebody opens them (opened-requests.ts): their prompts stay for that.
 * Switched off, nothing is kept. Every request that is not explained has a reason.
 */
import { errorMessage } from '#shared/errors.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import type { KvDoubtCode } from '#shared/kv.ts';
import type { IndexHitRecorder } from '../cache-hits/cache-hits.ts';
import type { VerdictSink } from '../findings/findings.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { KvEvents } from '../kv-events/kv-events.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import { blockSizeOf } from '../kv-index/prefix-query.ts';
import type { Logger } from '../log.ts';
import { engineMetricsOf } from '../telemetry/materialise.ts';
import type { RecordWatcher } from '../telemetry/record-watcher.ts';
import type { LegRecord, RequestRecord } from '../telemetry/request-record.ts';
import { Allowance } from './allowance.ts';
import { CauseGrouper } from './cause-grouper.ts';
import { isComputing } from './computing-leg.ts';
import type { EngineCall } from './engine-call.ts';
import { EventFallback, type Meanwhile } from './event-fallback.ts';
import { disagreement } from './hit-check.ts';
import { IndexHits } from './index-hits.ts';
import type { KeptMiss } from './kept-report.ts';
import { MissReporter, noStream, routedTokens, unavailable, type ComputedPrompt } from './miss-reporter.ts';
import { OpenedRequests, scheduledAt, type OpenedRecords } from './opened-requests.ts';
import { OFF_REASON, PromptKeeper, type KeptPrompt } from './prompt-keeper.ts';
import { explainedApi, NO_PROMPT_REASON, saltOf, sessionOf, type PromptSource } from './prompt-source.ts';
import type { RecentStores } from './recent-stores.ts';
import type { ReuseAnnouncers } from './reuse-announcers.ts';
import type { TokenText } from './token-text.ts';
import { toldStores } from './told-stores.ts';

export interface MissExplainerOptions {
  readonly index: KvIndex;
  readonly stores: RecentStores;
  readonly announcers: ReuseAnnouncers;
  readonly fleet: Pick<Fleet, 'get' | 'list'>;
  readonly kvEvents: Pick<KvEvents, 'streams' | 'streamsOf'>;
  readonly call: EngineCall;
  readonly text: TokenText;
  readonly authorization: string | undefined;
  readonly findings: VerdictSink;
  readonly logger: Logger;
  readonly isOn: boolean;
  /** Gets what the index held of prompts. Default: nobody. */
  readonly hits?: IndexHitRecorder;
  /** Requests per second for which instances are asked. Default: 10 on average, 40 after a quiet time. */
  readonly calls?: { readonly perSecond: number; readonly burst: number };
}

interface Job {
  readonly record: RequestRecord;
  readonly leg: LegRecord;
  readonly sentAtUnixMs: number;
  /** When the wait for events ends that usage says there are, and for such as there may be. */
  readonly lastTryMs: number;
  readonly lastLookMs: number;
  readonly dueMs: number;
  /** It waits for the usage of its leg: no instance could tell its tokens, and what the events tell needs that. */
  readonly late?: LateJob;
}

interface LateJob {
  /** Why no instance could tell. */
  readonly reason: string;
  readonly meanwhile: Meanwhile;
}

type Lane = 'asking' | 'reading';

/** Events of what the leg met are published within its step, and come within milliseconds mostly. */
const SETTLE_MS = 120;
const POLL_MS = 40;
/** How long a replay of missing events is waited for, and events of what was computed. */
const REPLAY_PATIENCE_MS = 5000;
/** How long events are waited for where usage does not say whether there are any. */
const OPEN_PATIENCE_MS = 1000;
const SOON_BETTER: ReadonlySet<KvDoubtCode> = new Set(['replaying', 'batches-waiting', 'connection-lost']);
/** Prompts at a time, of either lane. */
const AT_ONCE = 2;
/** How long a job that could start waits for a place. */
const TURN_PATIENCE_MS = 2000;
/** Jobs that wait for events, or for their turn. */
const MAX_QUEUE = 1024;
const MAX_CHECKS = 1000;
/** Requests whose end is waited for. */
const MAX_LATE = 256;
/** Requests for which instances are asked, unless told otherwise. */
const CALLS = { perSecond: 10, burst: 40 };
/** Of this process, ms: a twentieth of a core. */
const CPU = { perSecond: 50, burst: 250 };

const PENDING: KeptMiss = { state: 'unavailable', reason: 'the prompt is being made tokens; ask again in a moment', isPending: true };
const LATE: KeptMiss = {
  state: 'unavailable', isPending: true,
  reason: 'no instance can tell the tokens, and reading them from the events that followed needs the usage at the end of the answer; ask again when it has ended',
};
/** Said of requests that are left to whoever opens them. */
export const LEFT_REASON = 'more requests came than are explained by themselves; one is explained when it is opened, for as long as its prompt is kept';

export class MissExplainer implements Omit<RecordWatcher, 'onReportAsked'> {
  readonly #options: MissExplainerOptions;
  readonly #keeper: PromptKeeper;
  readonly #reporter: MissReporter;
  readonly #opened: OpenedRequests;
  readonly #fallback: EventFallback;
  readonly #hits: IndexHits;
  readonly #calls: Allowance;
  readonly #cpu = new Allowance(CPU);
  readonly #late = new Map<RequestRecord, Job>();
  #queue: Job[] = [];
  #checks: { readonly record: RequestRecord; readonly dueMs: number }[] = [];
  readonly #running = { asking: 0, reading: 0 };
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: MissExplainerOptions) {
    const { calls = CALLS, isOn, logger } = options;
    this.#options = options;
    this.#fallback = new EventFallback(options);
    this.#hits = new IndexHits({ kvEvents: options.kvEvents, to: options.hits });
    this.#keeper = new PromptKeeper({ isOn });
    this.#calls = new Allowance(calls);
    this.#reporter = new MissReporter({ ...options, grouper: new CauseGrouper(options.text), spent: (ms) => this.#cpu.spend(ms) });
    // What people ask for does not wait for what is explained by itself, nor take from it.
    this.#opened = new OpenedRequests({ keeper: this.#keeper, reporter: this.#reporter, allowance: new Allowance(CALLS), logger });
  }

  get isOn(): boolean {
    return this.#keeper.isOn;
  }

  /** Requests that nobody can have explained: prompts too large, too many that waited, or given way. */
  get dropped(): number {
    return this.#keeper.refused + this.#keeper.gaveWay;
  }

  /** Whether a request that was left is explained when it is opened. */
  canOpen(id: RecordId): boolean {
    return this.#keeper.spare(id) !== undefined;
  }

  /** Why a request missed that has no report. Undefined: nothing else is known than what its record says. */
  async open(id: RecordId, reason: string | undefined, records: OpenedRecords): Promise<KeptMiss | undefined> {
    const why = await this.#opened.why(id, records);
    if (why !== undefined || reason !== LEFT_REASON) return why;
    const { gaveWay, maxBytes } = this.#keeper;
    const gone = gaveWay === 0 ? 'its prompt is not kept any more' : `its prompt is not kept any more: ${gaveWay} gave way to newer ones, as ${Math.round(maxBytes / 1024 / 1024)} MiB of them are kept`;
    return unavailable(this.isOn ? `more requests came than are explained by themselves, and ${gone}` : OFF_REASON);
  }

  /** Switched off, prompts kept so far are let go at once. */
  setOn(isOn: boolean): void {
    this.#keeper.isOn = isOn;
    if (isOn) return;
    // Prompts of some that wait are let go already: what they wait for is the end of their answer.
    const waiting = new Set([...this.#keeper.clear(), ...this.#late.keys(), ...this.#queue.map(({ record }) => record)]);
    this.#queue = [];
    this.#late.clear();
    for (const record of waiting) this.#set(record, unavailable(OFF_REASON));
    this.#opened.clear(unavailable(OFF_REASON));
    this.#fallback.clear();
  }

  onParsed(record: RequestRecord, body: Buffer): void {
    if (record.isOwnProbe) return;
    if (explainedApi(record.init) === undefined) {
      record.why = unavailable(NO_PROMPT_REASON);
      return;
    }
    const reason = this.#isClosed ? OFF_REASON : this.#keeper.keep(record, body);
    if (reason !== undefined) record.why = unavailable(reason);
  }

  onTokens(record: RequestRecord, tokens: Uint32Array, from: NonNullable<KeptPrompt['from']>): void {
    this.#keeper.learn(record, tokens, from);
  }

  onAnswered(leg: LegRecord): void {
    const { record } = leg;
    if (this.isOn) this.#fallback.seen(leg);
    if (record.isOwnProbe || explainedApi(record.init) === undefined || !isComputing(leg)) return;
    // Of a prefill that was repeated, only the first one counts.
    if (!record.legs.some((other) => other !== leg && other.firstByteMs !== undefined && isComputing(other))) this.#hits.answered(leg);
    if (record.why !== undefined) return;
    const nowMs = performance.now();
    const sentAtUnixMs = Date.now() - (record.elapsedMs() - leg.sentMs);
    if (this.#queue.length >= MAX_QUEUE) {
      record.why = this.#left({ record, leg, sentAtUnixMs });
      return;
    }
    record.why = PENDING;
    this.#queue.push({ record, leg, sentAtUnixMs, ...patience(nowMs), dueMs: nowMs + SETTLE_MS });
    this.#wake();
  }

  onEnded(record: RequestRecord): void {
    if (this.isOn) for (const leg of record.legs) if (leg.firstByteMs === undefined) this.#fallback.seen(leg);
    const late = this.#late.get(record);
    if (late !== undefined) {
      this.#late.delete(record);
      const nowMs = performance.now();
      this.#queue.push({ ...late, ...patience(nowMs), dueMs: nowMs + SETTLE_MS });
    }
    if (record.why === undefined && this.#keeper.take(record) !== undefined) {
      record.why = unavailable(`no instance answered with a computed prompt: the request ended as ${record.state}`);
    }
    if (record.why?.state !== 'ready' && record.why?.isPending !== true) return;
    if (this.#checks.length < MAX_CHECKS) this.#checks.push({ record, dueMs: performance.now() + SETTLE_MS });
    this.#wake();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#queue = [];
    this.#checks = [];
    this.#late.clear();
    this.#opened.clear(unavailable(OFF_REASON));
    this.#fallback.clear();
    this.#keeper.clear();
  }

  #wake(): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#turn();
      if (this.#queue.length > 0 || this.#checks.length > 0) this.#wake();
    }, POLL_MS);
    this.#timer.unref();
  }

  #turn(): void {
    const nowMs = performance.now();
    this.#start(nowMs);
    // A check needs the report; a job that still runs is looked at again.
    const ready = this.#checks.filter(({ dueMs }) => dueMs <= nowMs);
    if (ready.length === 0) return;
    this.#checks = this.#checks.filter(({ dueMs }) => dueMs > nowMs);
    for (const { record } of ready) {
      if (record.why?.state === 'unavailable' && record.why.isPending) this.#checks.push({ record, dueMs: nowMs + SETTLE_MS });
      else this.#check(record);
    }
  }

  /** Starts jobs that are due, for which there is a place; the others stay, wait for events, or are left to whoever opens the request. */
  #start(nowMs: number): void {
    const due = this.#queue.filter(({ dueMs }) => dueMs <= nowMs);
    if (due.length === 0) return;
    const staying = this.#queue.filter(({ dueMs }) => dueMs > nowMs);
    const improving = this.#improving();
    for (const job of due) {
      const lane = this.#laneOf(job);
      if (this.#running[lane] >= AT_ONCE) {
        if (job.late !== undefined || nowMs - job.dueMs < TURN_PATIENCE_MS) staying.push(job);
        else this.#set(job.record, this.#left(job));
      } else if (nowMs < job.lastTryMs && (improving.has(job.leg.instance.id) || this.#isAwaited(job, nowMs))) {
        staying.push({ ...job, dueMs: nowMs + SETTLE_MS });
      } else if (job.late === undefined && !this.#mayStart(lane)) {
        this.#set(job.record, this.#left(job));
      } else {
        void this.#run(job, lane);
      }
    }
    this.#queue = staying;
  }

  #mayStart(lane: Lane): boolean {
    return lane === 'asking' ? this.#calls.take() : this.#cpu.left > 0;
  }

  #laneOf({ record, late }: Job): Lane {
    const kept = this.#keeper.waiting(record);
    const isKnown = late !== undefined || kept === undefined || kept.tokens !== undefined || record.hasTokenIds;
    return isKnown || !this.#reporter.canAsk({ init: record.init, model: record.parsedInit?.model }) ? 'reading' : 'asking';
  }

  /** Where missing batches are being asked for, or a new connection is about to tell what became of the engine: the picture is about to get better. */
  #improving(): ReadonlySet<InstanceId> {
    const found = this.#options.kvEvents.streams().filter(({ reasons }) => reasons?.some(({ code }) => SOON_BETTER.has(code)) === true);
    return new Set(found.map(({ instance }) => instance));
  }

  #isAwaited(job: Job, nowMs: number): boolean {
    const told = this.#told(job);
    return told === 'awaited' || (told === 'open' && nowMs < job.lastLookMs);
  }

  #told({ record, leg, sentAtUnixMs, late }: Job): ReturnType<typeof toldStores> {
    const { index, stores, fleet } = this.#options;
    const kept = this.#keeper.waiting(record);
    const isReadFromEvents = late === undefined && kept !== undefined && kept.tokens === undefined && !record.hasTokenIds && !this.#reporter.canAsk({ init: record.init, model: record.parsedInit?.model });
    return toldStores(leg, sentAtUnixMs, { index, stores, fleet, legs: () => this.#fallback.legs, isReadFromEvents });
  }

  async #run(job: Job, lane: Lane): Promise<void> {
    const { record, leg } = job;
    this.#running[lane] += 1;
    let why: KeptMiss;
    try {
      why = await this.#reportOf(job, lane);
    } catch (error) {
      this.#options.logger.error({ request: record.id, error: errorMessage(error) }, 'a request could not be explained');
      why = unavailable(`explaining it failed: ${errorMessage(error)}`);
    }
    if (why.state === 'ready') this.#hits.explained(leg, why.report);
    this.#set(record, why);
    this.#running[lane] -= 1;
    if (!this.#isClosed) this.#start(performance.now());
  }

  async #reportOf(job: Job, lane: Lane): Promise<KeptMiss> {
    const { record, leg, late } = job;
    const computed = this.#computed(job);
    // A prompt that may have to wait for the end of its answer is kept, and counted, until then.
    const kept = this.#keeper.waiting(record);
    if (kept === undefined) return unavailable(OFF_REASON);
    if (!this.#reporter.hasStream(computed)) return this.#done(record, noStream(computed));
    const source = this.#reporter.source(record.init, kept.body);
    if (source.kind === 'none') return this.#done(record, unavailable(source.reason));
    if (late !== undefined) return this.#done(record, await this.#fromEvents(job, { source, late, computed }));
    const mayAsk = (): boolean => lane === 'asking' || this.#calls.take();
    const routed = routedTokens(source, kept);
    if (routed !== undefined) return this.#done(record, await this.#reporter.whole(record, computed, { source, prompt: routed, mayAsk }));
    const meanwhile = this.#fallback.meanwhile(leg, job.sentAtUnixMs);
    const answer = await this.#reporter.tokens(source, computed);
    if (answer.ok) return this.#done(record, await this.#reporter.whole(record, computed, { source, prompt: answer.prompt, mayAsk }));
    const waiting: LateJob = { reason: answer.reason, meanwhile };
    if (leg.usage?.promptTokens !== undefined || leg.outcome !== 'running' || record.state !== 'running') return this.#done(record, await this.#fromEvents(job, { source, late: waiting, computed }));
    // Switched off while it was asked for.
    if (!this.isOn) return unavailable(OFF_REASON);
    if (this.#late.size >= MAX_LATE) return this.#done(record, unavailable(`${answer.reason}; nor do events: too many requests were waiting for the end of their answer`));
    this.#late.set(record, { ...job, late: waiting });
    return LATE;
  }

  /** The last resort: tokens from what was stored meanwhile. */
  async #fromEvents(job: Job, { source, late: { reason, meanwhile }, computed }: { readonly source: PromptSource; readonly late: LateJob; readonly computed: ComputedPrompt }): Promise<KeptMiss> {
    // From a part of the events another request's blocks would look like its own.
    const { record, leg } = job;
    if (this.#told(job) === 'awaited') return unavailable(`${reason}; nor do the events that followed: the stream had not told what was computed ${REPLAY_PATIENCE_MS / 1000} s later`);
    const answer = this.#fallback.ask(leg, meanwhile, { salt: saltOf(source), lora: this.#reporter.adapterOf(computed), sessionId: sessionOf(source, record.init.headers) });
    if (!answer.ok) return unavailable(`${reason}; nor do the events that followed: ${answer.reason}`);
    return await this.#reporter.whole(record, computed, { source, prompt: answer.prompt, mayAsk: () => this.#calls.take() });
  }

  #computed({ record, leg, sentAtUnixMs }: Pick<Job, 'record' | 'leg' | 'sentAtUnixMs'>): ComputedPrompt {
    const { metrics, sentMs, firstByteMs = sentMs } = leg;
    return {
      id: record.id, init: record.init, model: record.parsedInit?.model, leg: record.legs.indexOf(leg), instance: leg.instance, rank: leg.rank,
      atUnixMs: scheduledAt(sentAtUnixMs, { queueMs: engineMetricsOf(metrics)?.queueMs, waitedMs: firstByteMs - sentMs }),
    };
  }

  /** It is not explained by itself: its prompt stays for whoever opens it. */
  #left({ record, leg, sentAtUnixMs }: Pick<Job, 'record' | 'leg' | 'sentAtUnixMs'>): KeptMiss {
    const { instance: { id }, rank } = leg;
    const stream = this.#options.index.streams.find(({ identity, isClosed }) => identity.instance === id && !isClosed && (rank === undefined || identity.rank === rank));
    this.#keeper.makeSpare(record, {
      init: record.init, model: record.parsedInit?.model, leg: record.legs.indexOf(leg), sentAtUnixMs, blockSize: stream === undefined ? 0 : blockSizeOf(stream),
    });
    return unavailable(LEFT_REASON);
  }

  #done(record: RequestRecord, why: KeptMiss): KeptMiss {
    this.#keeper.take(record);
    return why;
  }

  #set(record: RequestRecord, why: KeptMiss): void {
    record.why = why;
    record.touch();
  }

  #check(record: RequestRecord): void {
    const { why } = record;
    if (why?.state !== 'ready') return;
    const leg = record.legs[why.leg];
    const verdict = leg === undefined ? undefined : disagreement(why.report, leg);
    if (verdict === undefined || leg === undefined) return;
    this.#options.findings.report(verdict, {
      instanceName: leg.instance.name,
      request: { id: record.id, n: record.n, requestId: record.parsedInit?.requestId ?? record.init.requestId },
    });
  }
}

function patience(nowMs: number): Pick<Job, 'lastTryMs' | 'lastLookMs'> {
  return { lastTryMs: nowMs + REPLAY_PATIENCE_MS, lastLookMs: nowMs + OPEN_PATIENCE_MS };
}

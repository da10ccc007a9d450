/**
 * Finds out why requests missed: soon after the leg that computed a prompt answered, the prompt's tokens are had
 * (prompt-tokens.ts) and held against the index as it was when the leg was scheduled, since what the index remembers of
 * the past is bounded. Off the hot path: requests only leave a reference; at most two prompts are asked for at a time.
 *
 * A prompt is kept from its arrival until its tokens were had, never longer, and not at all when this is switched off. What is kept
 * with the record is the report. Every request that is not explained has a reason.
 */
import type { Confidence } from '#shared/cache.ts';
import { errorMessage } from '#shared/errors.ts';
import type { StreamId } from '#shared/ids.ts';
import type { KvDoubtCode } from '#shared/kv.ts';
import type { IndexHitRecorder } from '../cache-hits/cache-hits.ts';
import type { VerdictSink } from '../findings/findings.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { KvEvents } from '../kv-events/kv-events.ts';
import { streamConfidence } from '../kv-index/confidence.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import { finishInSlices } from '../kv-index/subtree-counts.ts';
import type { Logger } from '../log.ts';
import { engineMetricsOf } from '../telemetry/materialise.ts';
import type { RecordWatcher } from '../telemetry/record-watcher.ts';
import type { LegRecord, RequestRecord } from '../telemetry/request-record.ts';
import { CauseGrouper } from './cause-grouper.ts';
import { isComputing } from './computing-leg.ts';
import type { EngineCall } from './engine-call.ts';
import { EventFallback, type Meanwhile } from './event-fallback.ts';
import { heldSteps } from './held-at-decode.ts';
import { disagreement } from './hit-check.ts';
import { IndexHits } from './index-hits.ts';
import type { KeptMiss } from './kept-report.ts';
import { reportSteps } from './miss-report.ts';
import { OFF_REASON, PromptKeeper, type KeptPrompt } from './prompt-keeper.ts';
import { explainedApi, NO_PROMPT_REASON, promptSource, saltOf, sessionOf, type PromptSource } from './prompt-source.ts';
import { promptTokens, type PromptTokens } from './prompt-tokens.ts';
import type { RecentStores } from './recent-stores.ts';
import type { ReuseAnnouncers } from './reuse-announcers.ts';
import type { TokenText } from './token-text.ts';

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
  /** Requests explained per second, on average. Default 10. */
  readonly perSecond?: number;
}

interface Job {
  readonly record: RequestRecord;
  readonly leg: LegRecord;
  readonly sentAtUnixMs: number;
  readonly lastTryMs: number;
  readonly dueMs: number;
  /** It waits for the usage of its leg: no instance could tell its tokens, and what the events tell needs that. */
  readonly late?: LateJob;
}

interface LateJob {
  readonly source: PromptSource;
  /** Why no instance could tell. */
  readonly reason: string;
  readonly meanwhile: Meanwhile;
}

/** Events of what the leg met are published within its step, and come within milliseconds. */
const SETTLE_MS = 120;
const POLL_MS = 40;
/** How long a replay of missing events is waited for. */
const REPLAY_PATIENCE_MS = 5000;
const SOON_BETTER: ReadonlySet<KvDoubtCode> = new Set(['replaying', 'batches-waiting', 'connection-lost']);
const AT_ONCE = 2;
const MAX_QUEUE = 256;
const MAX_CHECKS = 1000;
/** Requests whose end is waited for. */
const MAX_LATE = 64;

const PENDING: KeptMiss = { state: 'unavailable', reason: 'the prompt is being made tokens; ask again in a moment', isPending: true };
const LATE: KeptMiss = {
  state: 'unavailable', isPending: true,
  reason: 'no instance can tell the tokens, and reading them from the events that followed needs the usage at the end of the answer; ask again when it has ended',
};

export class MissExplainer implements Omit<RecordWatcher, 'onReportAsked'> {
  readonly #options: MissExplainerOptions;
  readonly #keeper: PromptKeeper;
  readonly #fallback: EventFallback;
  readonly #hits: IndexHits;
  readonly #grouper: CauseGrouper;
  readonly #late = new Map<RequestRecord, Job>();
  #queue: Job[] = [];
  #checks: { readonly record: RequestRecord; readonly dueMs: number }[] = [];
  #running = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: MissExplainerOptions) {
    this.#options = options;
    this.#fallback = new EventFallback(options);
    this.#grouper = new CauseGrouper(options.text);
    this.#hits = new IndexHits({ kvEvents: options.kvEvents, to: options.hits });
    this.#keeper = new PromptKeeper({ isOn: options.isOn, ...(options.perSecond !== undefined && { perSecond: options.perSecond }) });
  }

  get isOn(): boolean {
    return this.#keeper.isOn;
  }

  /** Requests left out because too many came, or too large ones. */
  get dropped(): number {
    return this.#keeper.dropped;
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
    if (this.#queue.length >= MAX_QUEUE) {
      this.#keeper.take(record);
      record.why = unavailable('too many requests were waiting to be explained');
      return;
    }
    record.why = PENDING;
    const nowMs = performance.now();
    const sentAtUnixMs = Date.now() - (record.elapsedMs() - leg.sentMs);
    this.#queue.push({ record, leg, sentAtUnixMs, lastTryMs: nowMs + REPLAY_PATIENCE_MS, dueMs: nowMs + SETTLE_MS });
    this.#wake();
  }

  onEnded(record: RequestRecord): void {
    if (this.isOn) for (const leg of record.legs) if (leg.firstByteMs === undefined) this.#fallback.seen(leg);
    const late = this.#late.get(record);
    if (late !== undefined) {
      this.#late.delete(record);
      this.#queue.push({ ...late, dueMs: performance.now() + SETTLE_MS });
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
    const due = this.#queue.filter((job) => job.dueMs <= nowMs).slice(0, AT_ONCE - this.#running);
    if (due.length > 0) this.#queue = this.#queue.filter((job) => !due.includes(job));
    for (const job of due) {
      if (this.#isWaitingForEvents(job) && nowMs < job.lastTryMs) {
        this.#queue.push({ ...job, dueMs: nowMs + SETTLE_MS });
        continue;
      }
      this.#running += 1;
      void this.#explain(job).finally(() => {
        this.#running -= 1;
      });
    }
    // A check needs the report; a job that still runs is looked at again.
    const ready = this.#checks.filter(({ dueMs }) => dueMs <= nowMs);
    if (ready.length === 0) return;
    this.#checks = this.#checks.filter(({ dueMs }) => dueMs > nowMs);
    for (const { record } of ready) {
      if (record.why?.state === 'unavailable' && record.why.isPending) this.#checks.push({ record, dueMs: nowMs + SETTLE_MS });
      else this.#check(record);
    }
  }

  /** Missing batches are being asked for, or a new connection is about to tell what became of the engine: the picture is about to get better. */
  #isWaitingForEvents({ leg }: Job): boolean {
    return this.#options.kvEvents.streams().some(({ instance, reasons }) => instance === leg.instance.id && reasons?.some(({ code }) => SOON_BETTER.has(code)) === true);
  }

  async #explain(job: Job): Promise<void> {
    const { record } = job;
    let why: KeptMiss;
    try {
      why = await this.#reportOf(job);
    } catch (error) {
      this.#options.logger.error({ request: record.id, error: errorMessage(error) }, 'a request could not be explained');
      why = unavailable(`explaining it failed: ${errorMessage(error)}`);
    }
    if (why.state === 'ready') this.#hits.explained(job.leg, why.report);
    this.#set(record, why);
  }

  async #reportOf(job: Job): Promise<KeptMiss> {
    const { record, leg, sentAtUnixMs, late } = job;
    if (late !== undefined) return this.#fromEvents(job, late);
    const { fleet, kvEvents, call, authorization } = this.#options;
    const kept = this.#keeper.take(record);
    if (kept === undefined) return unavailable(OFF_REASON);
    const { id: instance, name } = leg.instance;
    if (kvEvents.streamsOf(instance).length === 0) return unavailable(`${name} has no KV event stream, so nothing is known of its cache`);
    const source = promptSource(record.init, kept.body);
    if (source.kind === 'none') return unavailable(source.reason);
    const routed = routedTokens(source, kept);
    if (routed !== undefined) return await this.#report(job, source, routed);
    const meanwhile = this.#fallback.meanwhile(leg, sentAtUnixMs);
    const model = record.parsedInit?.model;
    const instances = fleet.list()
      .filter(({ state, role, models }) => state === 'up' && role !== 'encode' && (model === undefined || models.includes(model)))
      .toSorted((a, b) => a.inFlight - b.inFlight);
    const own = record.init.headers['authorization'];
    const answer = await promptTokens(source, { call, instances, authorization: typeof own === 'string' ? own : authorization });
    if (answer.ok) return await this.#report(job, source, answer.prompt);
    const waiting: LateJob = { source, reason: answer.reason, meanwhile };
    if (leg.usage?.promptTokens !== undefined || leg.outcome !== 'running' || record.state !== 'running') return await this.#fromEvents(job, waiting);
    // Switched off while it was asked for.
    if (!this.isOn) return unavailable(OFF_REASON);
    if (this.#late.size >= MAX_LATE) return unavailable(`${answer.reason}; nor do events: too many requests were waiting for the end of their answer`);
    this.#late.set(record, { ...job, late: waiting });
    return LATE;
  }

  /** The last resort: tokens from what was stored meanwhile. */
  async #fromEvents(job: Job, { source, reason, meanwhile }: LateJob): Promise<KeptMiss> {
    const { record, leg } = job;
    const answer = this.#fallback.ask(leg, meanwhile, { salt: saltOf(source), lora: this.#adapterOf(job), sessionId: sessionOf(source, record.init.headers) });
    return answer.ok ? await this.#report(job, source, answer.prompt) : unavailable(`${reason}; nor do the events that followed: ${answer.reason}`);
  }

  async #report(job: Job, source: PromptSource, prompt: PromptTokens): Promise<KeptMiss> {
    const { record, leg, sentAtUnixMs } = job;
    const { fleet, kvEvents, index } = this.#options;
    const views = kvEvents.streams();
    const confidenceOf = (stream: StreamId): Confidence => streamConfidence(views.find(({ id }) => id === stream));
    const [lora, salt] = [this.#adapterOf(job), saltOf(source)];
    const why = await finishInSlices(reportSteps(
      {
        request: record.id, prompt, atUnixMs: sentAtUnixMs + queueMs(leg), instance: leg.instance.id, rank: leg.rank,
        lora, salt, leg: record.legs.indexOf(leg),
      },
      { index, roleOf: (id) => fleet.get(id)?.role, confidenceOf, blockSizeOf: (id) => fleet.get(id)?.gauges?.blockSize },
    ));
    if (why.state !== 'ready') return why;
    const held = await finishInSlices(heldSteps(record, index, { prompt, lora, salt, confidenceOf }));
    return { ...why, shares: await this.#grouper.group(why.shares, source, why.report.blockSize ?? 0), ...(held !== undefined && { held }) };
  }

  /** The model asked for, where that names an adapter of the instance. */
  #adapterOf({ record, leg }: Job): string | undefined {
    const { fleet, index } = this.#options;
    const model = record.parsedInit?.model;
    return model !== undefined && fleet.get(leg.instance.id)?.models[0] !== model && index.graph.extras.find({ lora: model }) !== undefined ? model : undefined;
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

/** Tokens that routing had are those an instance would be asked for again; of media only render tells the keys. */
function routedTokens(source: PromptSource, { tokens, from }: KeptPrompt): PromptTokens | undefined {
  const isPlain = source.kind === 'text' || (source.kind === 'chat' && !source.hasMedia);
  return isPlain && tokens !== undefined && from !== undefined ? { tokens, from, media: [] } : undefined;
}

/** Between sending and scheduling, as the engine told it; blocks that came meanwhile were found. */
function queueMs({ metrics, sentMs, firstByteMs = sentMs }: LegRecord): number {
  const told = engineMetricsOf(metrics)?.queueMs ?? 0;
  return told <= firstByteMs - sentMs ? told : 0;
}

const reasons = new Map<string, KeptMiss>();

/** One object for all requests with a reason: they may be many. */
function unavailable(reason: string): KeptMiss {
  const known = reasons.get(reason);
  if (known !== undefined) return known;
  const made: KeptMiss = { state: 'unavailable', reason, isPending: false };
  if (reasons.size < 1000) reasons.set(reason, made);
  return made;
}

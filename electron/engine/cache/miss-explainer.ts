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
import type { IndexHitRecorder } from '../cache-hits/cache-hits.ts';
import type { VerdictSink } from '../findings/findings.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { KvEvents } from '../kv-events/kv-events.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import type { Logger } from '../log.ts';
import { engineMetricsOf } from '../telemetry/materialise.ts';
import type { RecordWatcher } from '../telemetry/record-watcher.ts';
import type { LegRecord, RequestRecord } from '../telemetry/request-record.ts';
import { placeOf } from './cause-place.ts';
import type { EngineCall } from './engine-call.ts';
import { disagreement } from './hit-check.ts';
import type { KeptMiss, MissShare } from './kept-report.ts';
import { makeReport } from './miss-report.ts';
import { OFF_REASON, PromptKeeper } from './prompt-keeper.ts';
import { promptSource, type PromptSource } from './prompt-source.ts';
import { promptTokens } from './prompt-tokens.ts';
import { streamTrust } from './stream-trust.ts';
import type { TokenText } from './token-text.ts';

export interface MissExplainerOptions {
  readonly index: KvIndex;
  readonly fleet: Pick<Fleet, 'get' | 'list'>;
  readonly kvEvents: Pick<KvEvents, 'streams' | 'streamsOf'>;
  readonly call: EngineCall;
  readonly text: TokenText;
  readonly authorization: string | undefined;
  readonly findings: VerdictSink;
  readonly logger: Logger;
  readonly isOn: boolean;
  /** Gets what the index held of every prompt explained. Default: nobody. */
  readonly hits?: IndexHitRecorder;
  /** Requests explained per second, on average. Default 10. */
  readonly perSecond?: number;
}

interface Job {
  readonly record: RequestRecord;
  readonly leg: LegRecord;
  readonly sentAtUnixMs: number;
  readonly lastTryMs: number;
  dueMs: number;
}

/** Events of what the leg met are published within its step, and come within milliseconds. */
const SETTLE_MS = 120;
const POLL_MS = 40;
/** How long a replay of missing events is waited for. */
const REPLAY_PATIENCE_MS = 5000;
const AT_ONCE = 2;
const MAX_QUEUE = 256;
const MAX_CHECKS = 1000;
const MAX_PLACES = 500;

const PENDING: KeptMiss = { state: 'unavailable', reason: 'the prompt is being made tokens; ask again in a moment', isPending: true };

export class MissExplainer implements RecordWatcher {
  readonly #options: MissExplainerOptions;
  readonly #keeper: PromptKeeper;
  #queue: Job[] = [];
  #checks: { readonly record: RequestRecord; readonly dueMs: number }[] = [];
  /** Where causes stand, by their key: equal causes are looked up once. */
  readonly #places = new Map<string, { readonly where: string | undefined }>();
  #running = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: MissExplainerOptions) {
    this.#options = options;
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
    this.#queue = [];
    for (const record of this.#keeper.clear()) this.#set(record, unavailable(OFF_REASON));
  }

  onParsed(record: RequestRecord, body: Buffer): void {
    if (record.isOwnProbe) return;
    const reason = this.#isClosed ? OFF_REASON : this.#keeper.keep(record, body);
    if (reason !== undefined) record.why = unavailable(reason);
  }

  onAnswered(leg: LegRecord): void {
    const { record } = leg;
    if (record.why !== undefined || !isComputing(leg)) return;
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
    if (record.why === undefined && this.#keeper.take(record) !== undefined) {
      record.why = unavailable(`no instance answered with a computed prompt: the request ended as ${record.state}`);
    }
    if (record.why?.state !== 'ready' && record.why !== PENDING) return;
    if (this.#checks.length < MAX_CHECKS) this.#checks.push({ record, dueMs: performance.now() + SETTLE_MS });
    this.#wake();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#queue = [];
    this.#checks = [];
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
      if (record.why === PENDING) this.#checks.push({ record, dueMs: nowMs + SETTLE_MS });
      else this.#check(record);
    }
  }

  /** Missing batches are being asked for: the picture is about to get better. */
  #isWaitingForEvents({ leg }: Job): boolean {
    return this.#options.kvEvents.streams().some(({ instance, reasons }) => instance === leg.instance.id && reasons?.some(({ code }) => code === 'replaying' || code === 'batches-waiting') === true);
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
    this.#count(job.leg, why);
    this.#set(record, why);
  }

  async #reportOf({ record, leg, sentAtUnixMs }: Job): Promise<KeptMiss> {
    const { fleet, kvEvents, call, authorization, index } = this.#options;
    const body = this.#keeper.take(record);
    if (body === undefined) return unavailable(OFF_REASON);
    const { id: instance, name } = leg.instance;
    if (kvEvents.streamsOf(instance).length === 0) return unavailable(`${name} has no KV event stream, so nothing is known of its cache`);
    const source = promptSource(record.init.api, body);
    const model = record.parsedInit?.model;
    const instances = fleet.list()
      .filter(({ state, role, models }) => state === 'up' && role !== 'encode' && (model === undefined || models.includes(model)))
      .toSorted((a, b) => a.inFlight - b.inFlight);
    const own = record.init.headers['authorization'];
    const answer = await promptTokens(source, { call, instances, authorization: typeof own === 'string' ? own : authorization });
    if (!answer.ok) return unavailable(answer.reason);
    const adapter = model !== undefined && fleet.get(instance)?.models[0] !== model && index.graph.extras.find({ lora: model }) !== undefined ? model : undefined;
    const views = kvEvents.streams();
    const why = makeReport(
      {
        request: record.id, prompt: answer.prompt, atUnixMs: sentAtUnixMs + queueMs(leg), instance, rank: leg.rank,
        lora: adapter, salt: saltOf(source), leg: record.legs.indexOf(leg),
      },
      { index, roleOf: (id) => fleet.get(id)?.role, confidenceOf: (stream: StreamId): Confidence => streamTrust(views.find(({ id }) => id === stream)) },
    );
    return why.state === 'ready' ? { ...why, shares: await this.#placed(why.shares, source) } : why;
  }

  /** Says of divergences in which message they stand, while the request is still at hand. */
  async #placed(shares: readonly MissShare[], source: PromptSource): Promise<readonly MissShare[]> {
    if (source.kind !== 'chat') return shares;
    return await Promise.all(shares.map(async (share) => {
      const { key, place } = share;
      if (place === undefined) return share;
      let found = this.#places.get(key);
      if (found === undefined) {
        const [lead, asked] = await this.#options.text.decode([{ tokens: place.lead }, { tokens: place.asked }]);
        if (asked === undefined) return share;
        found = { where: placeOf(source.json, { lead: lead ?? '', asked }) };
        this.#places.set(key, found);
        for (const oldest of this.#places.keys()) {
          if (this.#places.size <= MAX_PLACES) break;
          this.#places.delete(oldest);
        }
      }
      return found.where === undefined ? share : { ...share, place: { ...place, where: found.where } };
    }));
  }

  #count({ instance }: LegRecord, why: KeptMiss): void {
    if (why.state !== 'ready') return;
    const { ranges, promptTokens = 0, confidence } = why.report;
    const hitTokens = ranges.reduce((sum, { kind, tokens }) => (kind === 'hit' ? sum + tokens : sum), 0);
    this.#options.hits?.recordIndex({ instance: instance.id, queryTokens: promptTokens, hitTokens, confidence });
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

/** The leg that computes the prompt: prefill, or decode when there was no prefill or it failed. */
function isComputing({ kind, status = 0, record }: LegRecord): boolean {
  if (status >= 300) return false;
  if (kind === 'prefill') return true;
  return kind === 'decode' && !record.legs.some((leg) => leg.kind === 'prefill' && leg.outcome !== 'error' && (leg.status ?? 200) < 300);
}

/** Between sending and scheduling, as the engine told it; blocks that came meanwhile were found. */
function queueMs({ metrics, sentMs, firstByteMs = sentMs }: LegRecord): number {
  const told = engineMetricsOf(metrics)?.queueMs ?? 0;
  return told <= firstByteMs - sentMs ? told : 0;
}

function saltOf(source: PromptSource): string | undefined {
  const salt = source.kind === 'none' ? undefined : source.json['cache_salt'];
  return typeof salt === 'string' && salt !== '' ? salt : undefined;
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

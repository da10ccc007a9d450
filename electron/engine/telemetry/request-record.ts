/**
 * One request as it is recorded: the hot path's side (RequestTrace, LegTrace) stores numbers and references, nothing
 * else. Folding into histograms, rows for views and explanations are made from it elsewhere, later.
 */
import { SEVERITIES, type Severity, type Verdict } from '#shared/findings.ts';
import type { RecordId } from '#shared/ids.ts';
import type { GaugesAtSend, LegUsage, RequestError, RequestRow, RequestState, RoutingDecision } from '#shared/request.ts';
import { ChunkLog } from './chunk-log.ts';
import type { Clock } from './clock.ts';
import { GapReader } from './gaps.ts';
import type { KeptMiss } from '../cache/kept-report.ts';
import type { RecordWatcher } from './record-watcher.ts';
import type { LegFacts, LegInit, LegTrace, ParsedInit, RequestInit, RequestTrace } from './trace.ts';

/** What records need of the telemetry that made them. */
export interface RecordOwner {
  readonly clock: Clock;
  /** Bytes of one captured body that are kept. */
  readonly captureLimitBytes: number;
  readonly watcher: RecordWatcher | undefined;
  /** The record has news; called at most once until it was settled. */
  touched(record: RequestRecord): void;
  retried(): void;
  judged(record: RequestRecord, verdict: Verdict): void;
  ended(record: RequestRecord): void;
  /** Whether another `bytes` of captured bodies fit. */
  takeCaptureBudget(bytes: number): boolean;
  /** The chunk log is full of unread entries. */
  gapsOverflow(record: RequestRecord): void;
}

export interface KeptBody {
  readonly data: Buffer;
  readonly bytes: number;
}

const MAX_REWRITE_CHARS = 200;
/** Verdicts kept per request; a request with hundreds of media items may have as many. */
const MAX_VERDICTS = 32;

export class RequestRecord implements RequestTrace {
  readonly id: RecordId;
  readonly n: number;
  readonly init: RequestInit;
  readonly isOwnProbe: boolean;
  readonly wantsBodies: boolean;
  readonly receivedMs: number;
  readonly legs: LegRecord[] = [];
  readonly decisions: RoutingDecision[] = [];
  /** The first ones; all of them are counted. */
  verdicts: Verdict[] | undefined;
  verdictCount = 0;
  worstVerdict: Severity = 'info';
  parsedMs: number | undefined;
  /** `ParsedInit` without the body. */
  parsedInit: { readonly [K in 'model' | 'isStream' | 'requestBytes' | 'requestId']: ParsedInit[K] | undefined } | undefined;
  clientBody: KeptBody | undefined;
  status: number | undefined;
  retries = 0;
  responseBytes = 0;
  /** SSE events to the client. */
  events = 0;
  /** Writes to the client; only of streams. */
  stream: { readonly chunks: ChunkLog; readonly gaps: GapReader } | undefined;
  firstChunkMs: number | undefined;
  lastChunkMs: number | undefined;
  state: RequestState = 'running';
  endMs: number | undefined;
  error: RequestError | undefined;
  captureBytes = 0;
  /** Why it missed, once that was found out; set by the watcher. */
  why: KeptMiss | undefined;
  /** See `ParsedInit`. */
  asksForReport = false;
  /** See `ParsedInit`. */
  hasTokenIds = false;

  // Bookkeeping of the store and the sampler.
  isDirty = false;
  row: RequestRow | undefined;
  /** What of it the statistics have. Plain fields: records are many, and each object more is copied and marked for as long as they live. */
  foldedEvents = 0;
  isTtftFolded = false;
  isHandoffFolded = false;
  isEndFolded = false;
  isGapsFolded = false;
  isTpotFolded = false;
  median: { readonly events: number; readonly ms: number | undefined } | undefined;
  readonly #owner: RecordOwner;

  constructor(owner: RecordOwner, init: RequestInit, identity: { id: RecordId; n: number; wantsBodies: boolean; isOwnProbe: boolean }) {
    this.#owner = owner;
    this.init = init;
    this.id = identity.id;
    this.n = identity.n;
    this.wantsBodies = identity.wantsBodies;
    this.isOwnProbe = identity.isOwnProbe;
    this.receivedMs = owner.clock.now();
  }

  parsed(init: ParsedInit): void {
    const { model, isStream, requestBytes, requestId } = init;
    this.parsedMs = this.elapsedMs();
    this.parsedInit = { model, isStream, requestBytes, requestId };
    this.asksForReport = init.asksForReport === true;
    this.hasTokenIds = init.hasTokenIds === true;
    if (this.wantsBodies) this.clientBody = this.keep(init.body);
    this.#owner.watcher?.onParsed(this, init.body);
    this.touch();
  }

  prompt(tokens: Uint32Array, from: NonNullable<RoutingDecision['tokensFrom']>): void {
    this.#owner.watcher?.onTokens(this, tokens, from);
  }

  decided(decision: Omit<RoutingDecision, 'atMs'>): void {
    // Field by field: a spread makes an object of twice the size and many times the cost.
    const { kind, policy, chosen, rank, attempt, candidates, excluded, degraded, promptTokens, tokensFrom } = decision;
    const kept: { -readonly [K in keyof RoutingDecision]: RoutingDecision[K] } = { kind, policy, chosen, attempt, atMs: this.elapsedMs(), candidates, excluded };
    if (rank !== undefined) kept.rank = rank;
    if (degraded !== undefined) kept.degraded = degraded;
    if (promptTokens !== undefined) kept.promptTokens = promptTokens;
    if (tokensFrom !== undefined) kept.tokensFrom = tokensFrom;
    this.decisions.push(kept);
  }

  retried(): void {
    this.retries += 1;
    this.#owner.retried();
    this.touch();
  }

  verdict(verdict: Verdict): void {
    this.verdicts ??= [];
    if (this.verdicts.length < MAX_VERDICTS) this.verdicts.push(verdict);
    this.verdictCount += 1;
    if (SEVERITIES.indexOf(verdict.severity) > SEVERITIES.indexOf(this.worstVerdict)) this.worstVerdict = verdict.severity;
    this.#owner.judged(this, verdict);
    this.touch();
  }

  leg(init: LegInit): LegTrace {
    const leg = new LegRecord(this, init);
    this.legs.push(leg);
    if (this.asksForReport) this.#owner.watcher?.onReportAsked(leg);
    this.touch();
    return leg;
  }

  responded(status: number): void {
    this.status = status;
    this.touch();
  }

  chunk(bytes: number, events: number): void {
    const atMs = this.elapsedMs();
    this.responseBytes += bytes;
    this.lastChunkMs = atMs;
    // Gaps and TTFT are defined for streams: with one body the first byte is the last token's.
    if (this.parsedInit?.isStream === true) this.#streamed(atMs, bytes, events);
    if (!this.isDirty) this.touch();
  }

  end(state: Exclude<RequestState, 'running'>, error?: RequestError): void {
    if (this.state !== 'running') return;
    this.endMs = this.elapsedMs();
    this.state = state;
    this.error = error;
    this.#owner.ended(this);
    this.touch();
  }

  #streamed(atMs: number, bytes: number, events: number): void {
    if (events > 0) {
      this.events += events;
      this.firstChunkMs ??= atMs;
    }
    const stream = (this.stream ??= { chunks: new ChunkLog(), gaps: new GapReader() });
    if (stream.gaps.isBehind(stream.chunks)) this.#owner.gapsOverflow(this);
    stream.chunks.push(atMs, bytes, events);
  }

  /** The first byte of a leg's answer came. */
  answered(leg: LegRecord): void {
    this.#owner.watcher?.onAnswered(leg);
  }

  /** Milliseconds since the request was received. */
  elapsedMs(): number {
    return this.#owner.clock.now() - this.receivedMs;
  }

  touch(): void {
    if (this.isDirty) return;
    this.isDirty = true;
    this.#owner.touched(this);
  }

  /** Copies the part of a body that may be kept; undefined when there is no room for it. */
  keep(body: Buffer | string): KeptBody | undefined {
    const limit = this.#owner.captureLimitBytes;
    const whole = typeof body === 'string' ? Buffer.from(body) : body;
    const bytes = Math.min(limit, whole.length);
    // The budget is for running requests; finished ones are bounded by the store.
    if (this.state === 'running' && !this.#owner.takeCaptureBudget(bytes)) return undefined;
    this.captureBytes += bytes;
    return { data: Buffer.from(whole.subarray(0, bytes)), bytes: whole.length };
  }
}

export interface LegInstance {
  readonly id: LegInit['instance']['id'];
  readonly name: string;
  readonly role: LegInit['instance']['role'];
  readonly isSimulated: boolean;
}

/** One object for all legs of an instance. */
const identities = new WeakMap<LegInit['instance'], LegInstance>();

function identityOf(instance: LegInit['instance']): LegInstance {
  const known = identities.get(instance);
  if (known?.isSimulated === instance.isSimulated) return known;
  const { id, name, role, isSimulated } = instance;
  const identity = { id, name, role, isSimulated };
  identities.set(instance, identity);
  return identity;
}

export class LegRecord implements LegTrace {
  readonly record: RequestRecord;
  readonly kind: LegInit['kind'];
  readonly attempt: number;
  /** Not the Instance itself: a record must not keep the connections of a removed one. */
  readonly instance: LegInstance;
  readonly rank: number | undefined;
  readonly url: string;
  readonly requestHeaders: LegInit['headers'];
  readonly requestBytes: number;
  readonly rewrites: LegInit['rewrites'];
  readonly gaugesAtSend: GaugesAtSend;
  readonly sentMs: number;
  requestBody: KeptBody | undefined;
  responseBody: KeptBody | undefined;
  transferParamsSent: unknown;
  transferParamsReceived: unknown;
  headersMs: number | undefined;
  status: number | undefined;
  responseHeaders: Readonly<Record<string, string | string[] | undefined>> | undefined;
  firstByteMs: number | undefined;
  responseBytes = 0;
  usage: LegUsage | undefined;
  finishReason: string | undefined;
  metrics: unknown;
  endMs: number | undefined;
  outcome: 'running' | 'ok' | 'error' | 'aborted' = 'running';
  error: RequestError | undefined;
  isSentFolded = false;
  isEndFolded = false;
  isUsageFolded = false;

  constructor(record: RequestRecord, init: LegInit) {
    const { instance } = init;
    this.record = record;
    this.sentMs = record.elapsedMs();
    this.kind = init.kind;
    this.attempt = init.attempt;
    this.instance = identityOf(instance);
    this.rank = init.rank;
    this.url = init.url;
    this.requestHeaders = init.headers;
    this.requestBytes = init.requestBytes;
    this.rewrites = init.rewrites.some(isLong) ? init.rewrites.map(shorten) : init.rewrites;
    this.transferParamsSent = init.kvTransferParams;
    if (record.wantsBodies) this.requestBody = record.keep(init.body);
    this.gaugesAtSend = gaugesOf(instance);
  }

  headers(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void {
    this.headersMs = this.record.elapsedMs();
    this.status = status;
    this.responseHeaders = headers;
  }

  bytes(count: number): void {
    this.responseBytes += count;
    if (this.firstByteMs !== undefined) return;
    this.firstByteMs = this.record.elapsedMs();
    this.record.answered(this);
  }

  facts(facts: LegFacts): void {
    if (facts.usage !== undefined) this.usage = facts.usage;
    if (facts.finishReason !== undefined) this.finishReason = facts.finishReason;
    if (facts.kvTransferParams !== undefined) this.transferParamsReceived = facts.kvTransferParams;
    if (facts.metrics !== undefined) this.metrics = facts.metrics;
    if (facts.body !== undefined && this.record.wantsBodies) this.responseBody = this.record.keep(facts.body);
    this.record.touch();
  }

  end(outcome: 'ok' | 'error' | 'aborted', error?: RequestError): void {
    if (this.outcome !== 'running') return;
    this.endMs = this.record.elapsedMs();
    this.outcome = outcome;
    this.error = error;
    this.record.touch();
  }
}

type Rewrite = LegInit['rewrites'][number];

function isLong(rewrite: Rewrite): boolean {
  return (rewrite.from?.length ?? 0) > MAX_REWRITE_CHARS || (rewrite.to?.length ?? 0) > MAX_REWRITE_CHARS;
}

function shorten(rewrite: Rewrite): Rewrite {
  const { field, from, to } = rewrite;
  return {
    field,
    ...(from !== undefined && { from: from.slice(0, MAX_REWRITE_CHARS) }),
    ...(to !== undefined && { to: to.slice(0, MAX_REWRITE_CHARS) }),
  };
}

function gaugesOf(instance: LegInit['instance']): GaugesAtSend {
  const { gauges } = instance;
  if (gauges === undefined) return { inFlight: instance.inFlight };
  const { running, waiting, kvUsage } = gauges;
  return {
    inFlight: instance.inFlight,
    scrapeAgeMs: Math.max(0, Date.now() - gauges.scrapedAtUnixMs),
    ...(running !== undefined && { running }),
    ...(waiting !== undefined && { waiting }),
    ...(kvUsage !== undefined && { kvUsage }),
  };
}

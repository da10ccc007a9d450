/**
 * What pdscope remembers of its requests: the records, and the statistics folded from them. The proxy calls the Tracer
 * side on its hot path, where a call stores numbers and marks the record; everything that costs is done in `settle`,
 * five times a second and before each read. Overload drops records or samples and counts them; it never delays a token.
 */
import { PdscopeError } from '#shared/errors.ts';
import type { Verdict } from '#shared/findings.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import type { InstanceLatency } from '#shared/instance.ts';
import type { OperationOutputs, ParsedOperationInput } from '#shared/operations.ts';
import type { Quantiles } from '#shared/quantiles.ts';
import type { RequestDetail, RequestRow, RequestState } from '#shared/request.ts';
import type { EngineState, FlowEdge } from '#shared/state.ts';
import type { VerdictSink } from '../findings/findings.ts';
import type { Instance } from '../fleet/instance.ts';
import type { RowLog } from '../row-log.ts';
import { secondOf, systemClock, unixMsOf, type Clock } from './clock.ts';
import type { InstanceStats } from './instance-stats.ts';
import type { LogHistogram } from './log-histogram.ts';
import type { ExplainedRecord, KeptRecord } from './kept-record.ts';
import { NO_TRACE } from './no-trace.ts';
import { RecordSealer } from './record-sealer.ts';
import { RecordStore } from './record-store.ts';
import type { RecordWatcher } from './record-watcher.ts';
import { RequestRecord, type RecordOwner } from './request-record.ts';
import { RATE_SECONDS, Sampler } from './sampler.ts';
import { querySeries } from './series-query.ts';
import type { RequestInit, RequestTrace, Tracer } from './trace.ts';
import { CounterSeries, SUMMARY_SECONDS, type DistributionSeries } from './windowed.ts';

export interface TelemetryOptions {
  /** Records kept, running ones included. Default 10,000. */
  readonly requestCapacity?: number;
  /** Memory of finished records, estimated. Default 96 MiB. */
  readonly maxRecordBytes?: number;
  /** Of one captured body. Default 64 KiB. */
  readonly captureLimitBytes?: number;
  /** Of all bodies captured by requests still running. Default 32 MiB. */
  readonly captureTotalBytes?: number;
  /** Requests with this header are pdscope's own. Default `x-pdscope-probe`. */
  readonly ownHeader?: string;
  /** How often records are folded, milliseconds; 0 = only when something is read. Default 200. */
  readonly settleIntervalMs?: number;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Gets every verdict, at most a settle interval after it was reached. Default: nobody. */
  readonly findings?: VerdictSink;
  /** Follows records as they go on. Default: nobody. */
  readonly watcher?: RecordWatcher;
  /** Name of an instance in the fleet, for verdicts about one that no leg went to. Default: only legs are looked at. */
  readonly instanceName?: (id: InstanceId) => string | undefined;
}

/** Requests that ended in the same way, since the start. */
export interface EndedCount {
  readonly state: RequestState;
  /** What the client got; absent when it left before. */
  readonly status?: number;
  readonly count: number;
}

/** Verdicts that may wait for the next settling. */
const MAX_JUDGED = 10_000;

type Totals = Omit<EngineState['totals'], 'kvEventsPerSecond'>;

export class Telemetry implements Tracer {
  readonly log: RowLog<RequestRow>;
  /** Puts a report why it missed with a record, whether that is sealed or not. */
  readonly explain: RecordStore['explain'] = (id, why) => this.#store.explain(id, why);
  readonly #store: RecordStore;
  readonly #sealer: RecordSealer;
  readonly #sampler = new Sampler();
  readonly #clock: Clock;
  readonly #owner: RecordOwner;
  readonly #ownHeader: string;
  readonly #startedSecond: number;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #findings: VerdictSink | undefined;
  readonly #instanceName: (id: InstanceId) => string | undefined;
  #judged: { readonly record: RequestRecord; readonly verdict: Verdict }[] = [];
  #dirty: RequestRecord[] = [];
  /** Ended records whose last samples wait for the facts of the answer. */
  #waiting: RequestRecord[] = [];
  #isCapturing = false;
  #n = 0;
  #ended = { ok: 0, error: 0, aborted: 0 };
  /** Status codes are three digits, so this cannot grow. */
  readonly #byStatus = new Map<string, EndedCount & { count: number }>();
  #retries = 0;
  #capturedBytes = 0;
  #droppedBodies = 0;
  #droppedVerdicts = 0;
  #unrecorded = 0;
  readonly #received = new CounterSeries();
  readonly #errors = new CounterSeries();
  readonly #retried = new CounterSeries();

  constructor(options: TelemetryOptions = {}) {
    const clock = options.clock ?? systemClock;
    this.#clock = clock;
    this.#findings = options.findings;
    this.#instanceName = options.instanceName ?? (() => undefined);
    this.#ownHeader = options.ownHeader ?? 'x-pdscope-probe';
    this.#startedSecond = secondOf(clock, clock.now());
    const captureTotalBytes = options.captureTotalBytes ?? 32 * 1024 * 1024;
    this.#store = new RecordStore({
      capacity: options.requestCapacity ?? 10_000,
      maxBytes: options.maxRecordBytes ?? 96 * 1024 * 1024,
      clock,
      settle: () => this.settle(),
    });
    this.#sealer = new RecordSealer(this.#store, clock);
    this.log = this.#store;
    this.#owner = {
      clock,
      captureLimitBytes: options.captureLimitBytes ?? 64 * 1024,
      watcher: options.watcher,
      touched: (record) => this.#dirty.push(record),
      retried: () => {
        this.#retries += 1;
        this.#retried.add(this.#second(), 1);
      },
      judged: (record, verdict) => {
        if (this.#findings === undefined) return;
        if (this.#judged.length < MAX_JUDGED) this.#judged.push({ record, verdict });
        else this.#droppedVerdicts += 1;
      },
      ended: (record) => {
        this.#countEnd(record);
        options.watcher?.onEnded(record);
      },
      takeCaptureBudget: (bytes) => {
        if (this.#capturedBytes + bytes > captureTotalBytes) {
          this.#droppedBodies += 1;
          return false;
        }
        this.#capturedBytes += bytes;
        return true;
      },
      gapsOverflow: (record) => this.#sampler.foldGaps(record),
    };
    const intervalMs = options.settleIntervalMs ?? 200;
    if (intervalMs > 0) {
      this.#timer = setInterval(() => this.settle(), intervalMs);
      this.#timer.unref();
    }
  }

  // Hot path

  begin(init: RequestInit): RequestTrace {
    this.#n += 1;
    this.#received.add(this.#second(), 1);
    if (!this.#store.hasRoom()) {
      this.#unrecorded += 1;
      return NO_TRACE;
    }
    const record = new RequestRecord(this.#owner, init, {
      id: `r${this.#n}` as RecordId,
      n: this.#n,
      wantsBodies: this.#isCapturing,
      isOwnProbe: init.headers[this.#ownHeader] !== undefined,
    });
    this.#store.add(record);
    record.touch();
    return record;
  }

  // Commands

  /** Applies to requests that begin from now on. */
  setCapture(isOn: boolean): void {
    this.#isCapturing = isOn;
  }

  get isCapturing(): boolean {
    return this.#isCapturing;
  }

  /** Drops the series of an instance that left. */
  forget(id: InstanceId): void {
    this.settle();
    this.#sampler.forget(id);
  }

  /** Records gauges; the engine calls it once a second. */
  sample(instances: readonly Instance[]): void {
    const second = this.#second();
    for (const instance of instances) {
      const stats = this.#sampler.of(instance);
      if (stats === undefined) continue;
      stats.inFlight.record(second, instance.inFlight);
      const kvUsage = instance.gauges?.kvUsage;
      if (kvUsage !== undefined) stats.kvUsage.record(second, kvUsage);
    }
  }

  /** Folds everything marked into the statistics. Called by itself; public for tests and for a last look. */
  settle(): void {
    this.#reportVerdicts();
    this.#fold();
    this.#sealer.run();
  }

  #fold(): void {
    const second = this.#second();
    const waiting = this.#waiting;
    if (waiting.length > 0) this.#waiting = waiting.filter((record) => !this.#sampler.fold(record, second));
    const dirty = this.#dirty;
    if (dirty.length === 0 && waiting.length === 0) return;
    this.#dirty = [];
    for (const record of dirty) {
      record.isDirty = false;
      this.#store.touch(record);
      if (!this.#sampler.fold(record, second)) this.#waiting.push(record);
      if (record.endMs !== undefined) this.#store.finish(record);
    }
    this.#sampler.flushGaps();
  }

  #reportVerdicts(): void {
    if (this.#judged.length === 0) return;
    const judged = this.#judged;
    this.#judged = [];
    for (const { record, verdict } of judged) {
      const instanceName = this.#nameOf(record, verdict.instance);
      this.#findings?.report(verdict, {
        connector: record.init.connector,
        ...(instanceName !== undefined && { instanceName }),
        request: { id: record.id, n: record.n, requestId: record.parsedInit?.requestId ?? record.init.requestId },
      });
    }
  }

  /** A held-back leg is not in the record, and an instance may have left the fleet since. */
  #nameOf({ legs, decisions }: RequestRecord, id: InstanceId | undefined): string | undefined {
    if (id === undefined) return undefined;
    return (
      legs.find(({ instance }) => instance.id === id)?.instance.name ??
      decisions.flatMap(({ candidates, excluded }) => [...candidates, ...excluded]).find(({ instance }) => instance === id)?.name ??
      this.#instanceName(id)
    );
  }

  close(): void {
    clearInterval(this.#timer);
    this.#sealer.close();
  }

  // Reading

  detail(id: RecordId): RequestDetail | undefined {
    this.settle();
    return this.#store.detail(id);
  }

  /** Undefined when it is not kept (any more). */
  find(id: RecordId): ExplainedRecord | undefined {
    return this.#store.explained(id);
  }

  /** Kept records, oldest first; to be read at once. */
  records(): Iterable<KeptRecord> {
    return this.#store.records();
  }

  /** Memory of finished records, bytes, about. */
  get recordBytes(): number {
    return this.#store.bytes;
  }

  /** Samples, edges, bodies, verdicts and requests that were not recorded to protect the hot path. */
  get dropped(): number {
    return this.#sampler.dropped + this.#droppedBodies + this.#droppedVerdicts + this.#unrecorded;
  }

  totals(): Totals {
    const { ok, error, aborted } = this.#ended;
    return {
      received: this.#n,
      running: this.#n - this.#unrecorded - ok - error - aborted,
      ok,
      error,
      aborted,
      retries: this.#retries,
      requestsPerSecond: this.#rate(this.#received),
      chunksPerSecond: this.#rate(this.#sampler.events),
      errors5m: this.#last5m(this.#errors),
      retries5m: this.#last5m(this.#retried),
    };
  }

  /** Last five minutes; a part without samples is absent. */
  instanceLatency(id: InstanceId): InstanceLatency {
    const stats = this.#sampler.find(id);
    return stats === undefined ? {} : this.#summaries(stats.series);
  }

  /** Of one data-parallel rank; empty when no leg was pinned to it. */
  rankLatency(id: InstanceId, rank: number): InstanceLatency {
    const stats = this.#sampler.find(id)?.ranks().get(rank);
    return stats === undefined ? {} : this.#summaries(stats.series);
  }

  instanceRates(id: InstanceId): { readonly tokensPerSecond?: number; readonly errors5m: number } {
    const stats = this.#sampler.find(id);
    const counter = stats?.tokenCounter;
    return {
      ...(counter !== undefined && { tokensPerSecond: this.#rate(counter) }),
      errors5m: stats === undefined ? 0 : this.#last5m(stats.errors),
    };
  }

  fleetLatency(): EngineState['latency'] {
    return this.#summaries(this.#sampler.fleet);
  }

  /** Prompt tokens of prefill legs that also said how many were cached; undefined when none ever did. */
  get promptTokens5m(): number | undefined {
    return this.#sampler.hasCachedTokens ? this.#last5m(this.#sampler.promptTokens) : undefined;
  }

  get cachedTokens5m(): number | undefined {
    return this.#sampler.hasCachedTokens ? this.#last5m(this.#sampler.cachedTokens) : undefined;
  }

  edges(): FlowEdge[] {
    return this.#sampler.edges(this.#second(), this.#rateSeconds());
  }

  /** @throws PdscopeError `instance_not_found` when an instance asked for is not in `instances`. */
  query(input: ParsedOperationInput<'series.query'>, instances: readonly Instance[]): OperationOutputs['series.query'] {
    this.settle();
    const unknown = input.instances?.find((id) => !instances.some((instance) => instance.id === id));
    if (unknown !== undefined) throw new PdscopeError('instance_not_found', `There is no instance "${unknown}" in the fleet.`);
    const nowMs = this.#clock.now();
    const second = secondOf(this.#clock, nowMs);
    const series = querySeries(input, instances, { second, stats: (id) => this.#sampler.find(id) });
    return { nowUnixMs: unixMsOf(this.#clock, nowMs), windowS: input.windowS, stepS: input.stepS, series };
  }

  /** For the Prometheus page: totals since the start. */
  instanceStats(): Iterable<InstanceStats> {
    this.settle();
    return this.#sampler.all();
  }

  endedCounts(): Iterable<EndedCount> {
    return this.#byStatus.values();
  }

  get handoffLifetime(): LogHistogram {
    this.settle();
    return this.#sampler.handoffLifetime;
  }

  // Inside

  #second(): number {
    return secondOf(this.#clock, this.#clock.now());
  }

  #countEnd(record: RequestRecord): void {
    if (record.state === 'running') return;
    this.#ended[record.state] += 1;
    const key = `${record.state} ${record.status ?? ''}`;
    const known = this.#byStatus.get(key);
    if (known === undefined) this.#byStatus.set(key, { state: record.state, ...(record.status !== undefined && { status: record.status }), count: 1 });
    else known.count += 1;
    if (record.state === 'error') this.#errors.add(this.#second(), 1);
    this.#capturedBytes -= record.captureBytes;
  }

  /** Complete seconds that a rate covers: ten, or as many as there have been. */
  #rateSeconds(): number {
    return Math.max(1, Math.min(RATE_SECONDS, this.#second() - this.#startedSecond));
  }

  #rate(counter: CounterSeries): number {
    const second = this.#second();
    const seconds = this.#rateSeconds();
    return counter.sum(second - seconds, second - 1) / seconds;
  }

  #last5m(counter: CounterSeries): number {
    const second = this.#second();
    return counter.sum(second - SUMMARY_SECONDS + 1, second);
  }

  #summaries<K extends string>(series: Readonly<Record<K, DistributionSeries>>): { readonly [P in K]?: Quantiles } {
    const second = this.#second();
    const result: { [P in K]?: Quantiles } = {};
    for (const [name, source] of Object.entries(series) as [K, DistributionSeries][]) {
      const summary = source.summary(second);
      if (summary !== undefined) result[name] = summary;
    }
    return result;
  }
}

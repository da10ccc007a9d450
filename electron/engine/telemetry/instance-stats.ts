/** Everything counted about one instance: series of 15 minutes, and totals since it joined for the Prometheus page. */
import type { InstanceId } from '#shared/ids.ts';
import type { LegUsage } from '#shared/request.ts';
import type { LegKind, Role } from '#shared/vocabulary.ts';
import { BucketBatch } from './bucket-batch.ts';
import { LogHistogram } from './log-histogram.ts';
import { CounterSeries, DistributionSeries, GaugeSeries } from './windowed.ts';

export const DISTRIBUTIONS = ['prefillMs', 'ttftMs', 'itlMs', 'tpotMs', 'e2elMs'] as const;
export type DistributionName = (typeof DISTRIBUTIONS)[number];

/** More ranks than this have no series of their own; real engines have at most a few dozen behind one address. */
const MAX_RANKS = 256;

/** Latency of the legs that were pinned to one data-parallel rank. */
class RankStats {
  readonly series: Readonly<Record<DistributionName, DistributionSeries>> = createSeries();
  readonly gaps = new BucketBatch();
}

function createSeries(): Readonly<Record<DistributionName, DistributionSeries>> {
  return {
    prefillMs: new DistributionSeries(), ttftMs: new DistributionSeries(), itlMs: new DistributionSeries(),
    tpotMs: new DistributionSeries(), e2elMs: new DistributionSeries(),
  };
}

export class InstanceStats {
  readonly id: InstanceId;
  readonly role: Role;
  name: string;
  readonly series: Readonly<Record<DistributionName, DistributionSeries>>;
  /** Since the instance joined. */
  readonly lifetime: Readonly<Record<DistributionName, LogHistogram>>;
  /** Duration of finished legs by kind, since the instance joined. */
  readonly legMs: Readonly<Record<LegKind, LogHistogram>>;
  /** Gaps of this round, on their way into `itlMs`. */
  readonly gaps = new BucketBatch();
  readonly requests = new CounterSeries();
  readonly errors = new CounterSeries();
  /** SSE events of decode legs. */
  readonly events = new CounterSeries();
  /** Prompt tokens that prefill legs reported. */
  readonly promptTokens = new CounterSeries();
  /** Of answers that told both: tokens of the prompt, and of them those that were cached. */
  readonly cached: Readonly<Record<'prefill' | 'decode', { readonly promptTokens: CounterSeries; readonly cachedTokens: CounterSeries }>> = {
    prefill: { promptTokens: new CounterSeries(), cachedTokens: new CounterSeries() },
    decode: { promptTokens: new CounterSeries(), cachedTokens: new CounterSeries() },
  };
  readonly inFlight = new GaugeSeries();
  readonly kvUsage = new GaugeSeries();
  readonly #ranks = new Map<number, RankStats>();
  hasPromptTokens = false;
  hasEvents = false;
  errorsTotal = 0;
  eventsTotal = 0;
  promptTokensTotal = 0;

  constructor(id: InstanceId, role: Role, name: string) {
    this.id = id;
    this.role = role;
    this.name = name;
    this.series = createSeries();
    this.lifetime = {
      prefillMs: new LogHistogram(), ttftMs: new LogHistogram(), itlMs: new LogHistogram(),
      tpotMs: new LogHistogram(), e2elMs: new LogHistogram(),
    };
    this.legMs = {
      encode: new LogHistogram(), render: new LogHistogram(), prefill: new LogHistogram(), decode: new LogHistogram(), forward: new LogHistogram(),
    };
  }

  /** @param rank the data-parallel rank that the leg was pinned to, if any. */
  record(name: DistributionName, second: number, ms: number, bucket: number, rank?: number): void {
    this.series[name].record(second, ms, bucket);
    this.lifetime[name].record(ms, bucket);
    if (rank !== undefined) this.rank(rank)?.series[name].record(second, ms, bucket);
  }

  /** Made at first sight; undefined beyond the limit. */
  rank(rank: number): RankStats | undefined {
    let stats = this.#ranks.get(rank);
    if (stats === undefined && this.#ranks.size < MAX_RANKS) {
      stats = new RankStats();
      this.#ranks.set(rank, stats);
    }
    return stats;
  }

  /** Ranks that legs were pinned to, and what was seen of them. */
  ranks(): ReadonlyMap<number, RankStats> {
    return this.#ranks;
  }

  countEvents(second: number, count: number): void {
    this.hasEvents = true;
    this.events.add(second, count);
    this.eventsTotal += count;
  }

  countPromptTokens(second: number, count: number): void {
    this.hasPromptTokens = true;
    this.promptTokens.add(second, count);
    this.promptTokensTotal += count;
  }

  countCached(kind: 'prefill' | 'decode', second: number, { promptTokens, cachedTokens }: LegUsage): void {
    if (promptTokens === undefined || cachedTokens === undefined) return;
    this.cached[kind].promptTokens.add(second, promptTokens);
    this.cached[kind].cachedTokens.add(second, cachedTokens);
  }

  /** Whether tokens/s of this instance means prompt tokens (prefill) or streamed output events (decode, both). */
  get tokenCounter(): CounterSeries | undefined {
    if (this.role === 'prefill') return this.hasPromptTokens ? this.promptTokens : undefined;
    return this.hasEvents ? this.events : undefined;
  }
}

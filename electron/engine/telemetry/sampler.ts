/**
 * Folds records into histograms and counters. The hot path only marks a record; `settle` looks once at every marked one,
 * at most a few times a second, and takes what is new: legs sent and ended, the first chunk, gaps between chunks, the
 * end. So a sample counts in the second in which it was folded, at most a fifth of a second after it happened.
 *
 * TTFT, ITL, TPOT and E2EL are of inference requests only. A forwarded request may be anything (an embedding, a list):
 * its leg is counted, its times are not. Gaps of a stream that pdscope made out of a whole answer are not taken.
 */
import type { InstanceId } from '#shared/ids.ts';
import type { FlowEdge } from '#shared/state.ts';
import type { LegKind } from '#shared/vocabulary.ts';
import type { GapSink } from './gaps.ts';
import { InstanceStats, type DistributionName } from './instance-stats.ts';
import { bucketOf, LogHistogram } from './log-histogram.ts';
import { answeringLeg, handoffMs, isReemitted, tpotMs, trailingMessages } from './materialise.ts';
import type { LegRecord, RequestRecord } from './request-record.ts';
import { CounterSeries, DistributionSeries } from './windowed.ts';

/** How long the last facts of an answer may come after its end before gaps are closed without them. */
const FACTS_GRACE_MS = 100;
/** Seconds over which rates are taken. Complete seconds only, so that a rate does not saw. */
export const RATE_SECONDS = 10;
const MAX_EDGES = 4096;
const MAX_INSTANCES = 1024;
const NO_SINK: GapSink = { record() {} };
/** A leg's work comes from the first of these that the request had. */
const STAGES_BEFORE: { readonly [K in LegKind]?: readonly LegKind[] } = { decode: ['prefill', 'encode'], prefill: ['encode'] };

export class Sampler {
  readonly #instances = new Map<InstanceId, InstanceStats>();
  readonly #forgotten = new Set<InstanceId>();
  readonly #edges = new Map<string, { readonly from: InstanceId | 'proxy'; readonly to: InstanceId; readonly counts: CounterSeries }>();
  readonly fleet: Readonly<Record<DistributionName | 'handoffMs' | 'addedMs', DistributionSeries>> = {
    prefillMs: new DistributionSeries(), ttftMs: new DistributionSeries(), itlMs: new DistributionSeries(),
    tpotMs: new DistributionSeries(), e2elMs: new DistributionSeries(), handoffMs: new DistributionSeries(), addedMs: new DistributionSeries(),
  };
  readonly handoffLifetime = new LogHistogram();
  readonly events = new CounterSeries();
  readonly promptTokens = new CounterSeries();
  readonly cachedTokens = new CounterSeries();
  hasCachedTokens = false;
  /** Samples not taken because a table was full. */
  dropped = 0;
  #second = 0;
  readonly #withGaps = new Set<InstanceStats>();

  all(): Iterable<InstanceStats> {
    return this.#instances.values();
  }

  find(id: InstanceId): InstanceStats | undefined {
    return this.#instances.get(id);
  }

  /** The statistics of an instance, made at first sight; undefined when it is gone or there are too many. */
  of(instance: { readonly id: InstanceId; readonly role: InstanceStats['role']; readonly name: string }): InstanceStats | undefined {
    let stats = this.#instances.get(instance.id);
    if (stats === undefined) {
      if (this.#forgotten.has(instance.id)) return undefined;
      if (this.#instances.size >= MAX_INSTANCES) {
        this.dropped += 1;
        return undefined;
      }
      stats = new InstanceStats(instance.id, instance.role, instance.name);
      this.#instances.set(instance.id, stats);
    }
    return stats;
  }

  /** For an instance that left. Ids are never reused; legs of it that end later must not bring it back. */
  forget(id: InstanceId): void {
    this.#forgotten.add(id);
    this.#instances.delete(id);
    for (const [key, edge] of this.#edges) if (edge.from === id || edge.to === id) this.#edges.delete(key);
  }

  /** Takes what is new in a record. @returns false when something is still to come and it should be looked at again. */
  fold(record: RequestRecord, second: number): boolean {
    this.#second = second;
    let index = 0;
    for (const leg of record.legs) this.#foldLeg(record, leg, index++);
    this.#foldStart(record);
    if (record.init.api === 'forward') return this.#foldForwarded(record);
    const answering = answeringLeg(record);
    const stats = answering === undefined ? undefined : this.of(answering.instance);
    if (record.events > record.foldedEvents) {
      const news = record.events - record.foldedEvents;
      record.foldedEvents = record.events;
      this.events.add(second, news);
      stats?.countEvents(second, news);
    }
    if (!record.isTtftFolded && record.firstChunkMs !== undefined) {
      record.isTtftFolded = true;
      this.#record(stats, 'ttftMs', record.firstChunkMs, answering?.rank);
    }
    this.foldGaps(record);
    if (record.endMs === undefined) return true;
    if (!record.isEndFolded) {
      record.isEndFolded = true;
      if (record.state === 'ok') this.#record(stats, 'e2elMs', record.endMs, answering?.rank);
    }
    return this.#foldEnd(record, stats);
  }

  /** Its events count towards the total flow only. */
  #foldForwarded(record: RequestRecord): boolean {
    if (record.events > record.foldedEvents) {
      this.events.add(this.#second, record.events - record.foldedEvents);
      record.foldedEvents = record.events;
    }
    record.stream?.gaps.read(record.stream.chunks, NO_SINK);
    return true;
  }

  /** Takes new gaps only; also called by the hot path before unread ones would be overwritten. */
  foldGaps(record: RequestRecord): void {
    const { stream } = record;
    if (stream === undefined) return;
    stream.gaps.read(stream.chunks, isOwnPace(record) ? this.#gapSink(answeringLeg(record)) : NO_SINK);
  }

  /** Hands the gaps of this round on. Called after every round of `fold`. */
  flushGaps(): void {
    for (const stats of this.#withGaps) {
      stats.series.itlMs.addBatch(this.#second, stats.gaps);
      stats.lifetime.itlMs.addBatch(stats.gaps);
      this.fleet.itlMs.addBatch(this.#second, stats.gaps);
      stats.gaps.clear();
      for (const { series, gaps } of stats.ranks().values()) {
        if (gaps.isEmpty) continue;
        series.itlMs.addBatch(this.#second, gaps);
        gaps.clear();
      }
    }
    this.#withGaps.clear();
  }

  /** Flows between instances over the last complete seconds. Edges without any are forgotten. */
  edges(second: number, seconds: number): FlowEdge[] {
    const edges: FlowEdge[] = [];
    for (const [key, edge] of this.#edges) {
      const count = edge.counts.sum(second - seconds, second - 1);
      if (count > 0) edges.push({ from: edge.from, to: edge.to, requestsPerSecond: count / seconds });
      else if (!edge.counts.has(second - seconds, second)) this.#edges.delete(key);
    }
    return edges;
  }

  /** What can only be told once the facts of the answer are in. */
  #foldEnd(record: RequestRecord, stats: InstanceStats | undefined): boolean {
    const answering = answeringLeg(record);
    if (!record.isTpotFolded) {
      const tpot = tpotMs(record);
      if (tpot !== undefined) {
        record.isTpotFolded = true;
        this.#record(stats, 'tpotMs', tpot, answering?.rank);
      }
    }
    if (record.isGapsFolded) return true;
    const isWaiting = record.state === 'ok' && record.firstChunkMs !== undefined && answering?.usage === undefined;
    if (isWaiting && record.elapsedMs() - (record.endMs ?? 0) < FACTS_GRACE_MS) return false;
    record.isGapsFolded = true;
    record.stream?.gaps.finish(trailingMessages(record), isOwnPace(record) ? this.#gapSink(answering) : NO_SINK);
    return true;
  }

  #foldLeg(record: RequestRecord, leg: LegRecord, index: number): void {
    const { instance } = leg;
    if (leg.isSentFolded && leg.isEndFolded && leg.isUsageFolded) return;
    const stats = this.of(instance);
    if (!leg.isSentFolded) {
      leg.isSentFolded = true;
      stats?.requests.add(this.#second, 1);
      this.#countEdge(sourceOf(record, leg, index), instance.id);
    }
    if (!leg.isEndFolded && leg.endMs !== undefined) {
      leg.isEndFolded = true;
      const ms = leg.endMs - leg.sentMs;
      if (leg.outcome === 'ok') {
        stats?.legMs[leg.kind].record(ms);
        if (leg.kind === 'prefill') this.#record(stats, 'prefillMs', ms, leg.rank);
      } else if (leg.outcome === 'error' && stats !== undefined) {
        stats.errors.add(this.#second, 1);
        stats.errorsTotal += 1;
      }
    }
    if (!leg.isUsageFolded && leg.usage !== undefined) {
      leg.isUsageFolded = true;
      if (leg.kind === 'prefill') this.#countPrompt(leg, stats);
      if (leg.kind === 'prefill' || leg.kind === 'decode') stats?.countCached(leg.kind, this.#second, leg.usage);
    }
  }

  #countPrompt(leg: LegRecord, stats: InstanceStats | undefined): void {
    const { promptTokens, cachedTokens } = leg.usage ?? {};
    if (promptTokens === undefined) return;
    stats?.countPromptTokens(this.#second, promptTokens);
    // Only legs that report both count for the share, so that a silent engine does not look like one without hits.
    if (cachedTokens === undefined) return;
    this.hasCachedTokens = true;
    this.promptTokens.add(this.#second, promptTokens);
    this.cachedTokens.add(this.#second, cachedTokens);
  }

  /** Time pdscope itself took: to the first leg, and from prefill to decode. Known when the decode leg was sent. */
  #foldStart(record: RequestRecord): void {
    if (record.isHandoffFolded || record.init.api === 'forward' || answeringLeg(record) === undefined) return;
    record.isHandoffFolded = true;
    const handoff = handoffMs(record);
    if (handoff !== undefined) {
      this.fleet.handoffMs.record(this.#second, handoff);
      this.handoffLifetime.record(handoff);
    }
    this.fleet.addedMs.record(this.#second, (record.legs[0]?.sentMs ?? 0) + (handoff ?? 0));
  }

  /** Gaps of an instance that left are not counted. */
  #gapSink(leg: LegRecord | undefined): GapSink {
    const stats = leg === undefined ? undefined : this.of(leg.instance);
    if (stats === undefined) return NO_SINK;
    this.#withGaps.add(stats);
    const rank = leg?.rank === undefined ? undefined : stats.rank(leg.rank);
    return rank === undefined ? stats.gaps : bothOf(stats.gaps, rank.gaps);
  }

  #record(stats: InstanceStats | undefined, name: DistributionName, ms: number, rank: number | undefined): void {
    const bucket = bucketOf(ms);
    this.fleet[name].record(this.#second, ms, bucket);
    stats?.record(name, this.#second, ms, bucket, rank);
  }

  #countEdge(from: InstanceId | 'proxy', to: InstanceId): void {
    const key = `${from} ${to}`;
    let edge = this.#edges.get(key);
    if (edge === undefined) {
      if (this.#edges.size >= MAX_EDGES) {
        this.dropped += 1;
        return;
      }
      edge = { from, to, counts: new CounterSeries(RATE_SECONDS + 6) };
      this.#edges.set(key, edge);
    }
    edge.counts.add(this.#second, 1);
  }
}

function bothOf(one: GapSink, other: GapSink): GapSink {
  return {
    record(ms) {
      one.record(ms);
      other.record(ms);
    },
  };
}

/** Whether the gaps of a stream are those of its engine. */
function isOwnPace(record: RequestRecord): boolean {
  return record.init.api !== 'forward' && !isReemitted(record);
}

/** Whom a leg got its work from: the instance of the stage before it, if there was one that did not fail. */
function sourceOf(record: RequestRecord, leg: LegRecord, index: number): InstanceId | 'proxy' {
  const stages = STAGES_BEFORE[leg.kind];
  if (stages === undefined) return 'proxy';
  const earlier = record.legs.slice(0, index).filter(({ outcome }) => outcome !== 'error');
  for (const stage of stages) {
    const before = earlier.findLast(({ kind }) => kind === stage);
    if (before !== undefined) return before.instance.id;
  }
  return 'proxy';
}

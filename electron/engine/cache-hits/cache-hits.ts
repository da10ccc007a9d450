/**
 * Cache hits over time, kept apart by source (`HIT_SOURCES`) and reconciled: per instance and for the fleet as it is now.
 * Sources: the engines' counters as scraped, `cached_tokens` of answers as telemetry folded them, and what pdscope's
 * index said a request would find, as told by whoever asks the index (`IndexHitRecorder`).
 *
 * Rates are shares of tokens, always recomputed from sums. A step in which nothing was asked is absent, never 0. Bounded:
 * 15 minutes of seconds per instance and source, dropped with the instance.
 */
import type { CacheHits as CacheHitsAnswer, Confidence, HitPoint, HitSeries, HitSource } from '#shared/cache.ts';
import { HIT_SOURCES } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { ParsedOperationInput } from '#shared/operations.ts';
import type { ConditionSink } from '../findings/findings.ts';
import type { Instance } from '../fleet/instance.ts';
import { lowestConfidence } from '../kv-index/confidence.ts';
import type { InstanceStats } from '../telemetry/instance-stats.ts';
import { CounterSeries, SERIES_SECONDS } from '../telemetry/windowed.ts';
import { ConfidenceLog } from './confidence-log.ts';
import { DisagreementWatch } from './disagreement-watch.ts';
import { EngineCounters, type ReceivedTokens } from './engine-counters.ts';
import { HitCounter, hitsOf, type HitReader, type HitSum } from './hit-counter.ts';
import { reconcile, type Disagreement, type InstanceHits } from './reconcile.ts';

/** What the index said about one request when its prefill was scheduled. */
export interface IndexHit {
  /** Where the prefill ran. */
  readonly instance: InstanceId;
  /** Tokens of the prompt, and of them those the instance held. */
  readonly queryTokens: number;
  readonly hitTokens: number;
  readonly confidence: Confidence;
}

/** For whoever asks the index: once per request. What is told of an instance that has left is forgotten. */
export interface IndexHitRecorder {
  /** A prompt was computed there, whether or not the index is asked about it. */
  recordAsked(instance: InstanceId): void;
  recordIndex(hit: IndexHit): void;
}

/** For whoever measures the handoff. */
export interface ReceivedReader {
  received(instance: InstanceId, windowS: number): ReceivedTokens | undefined;
}

export interface CacheHitsOptions {
  /** Statistics of the fleet's instances, settled. */
  readonly stats: () => Iterable<InstanceStats>;
  readonly findings: ConditionSink;
  /** Unix ms. Default: the system's clock. */
  readonly now?: () => number;
}

/** Differences of shares from here on are shown and reported, and below this no longer kept open. */
const TOLERANCE = 0.15;
const TOLERANCE_OPEN = 0.1;
/** For findings: seconds looked at, and between two looks. */
const WATCH_WINDOW_S = 60;
const WATCH_EVERY_S = 5;

interface Watched {
  readonly engine: EngineCounters;
  readonly index: HitCounter;
  readonly confidence: ConfidenceLog;
  /** Requests, and those of them that the index was asked about. */
  readonly requests: CounterSeries;
  readonly sampled: CounterSeries;
}

export class CacheHits implements IndexHitRecorder, ReceivedReader {
  readonly #options: CacheHitsOptions;
  readonly #instances = new Map<InstanceId, Watched>();
  readonly #watch: DisagreementWatch;
  #lastLookSecond = 0;

  constructor(options: CacheHitsOptions) {
    this.#options = options;
    this.#watch = new DisagreementWatch(options.findings);
  }

  /** Takes what scrapes have told, and looks for disagreements. The engine calls it about once a second. */
  sample(instances: readonly Instance[]): void {
    const present = new Set<InstanceId>();
    for (const instance of instances) {
      present.add(instance.id);
      this.#watched(instance.id).engine.take(instance);
    }
    for (const id of this.#instances.keys()) if (!present.has(id)) this.#instances.delete(id);
    const second = this.#second();
    if (second - this.#lastLookSecond < WATCH_EVERY_S) return;
    this.#lastLookSecond = second;
    const window = { from: second - WATCH_WINDOW_S + 1, to: second };
    const readers = this.#readers(instances, window);
    this.#watch.look(disagreementsOf(readers, window, TOLERANCE), disagreementsOf(readers, window, TOLERANCE_OPEN));
  }

  recordAsked(instance: InstanceId): void {
    this.#watched(instance).requests.add(this.#second(), 1);
  }

  recordIndex({ instance, queryTokens, hitTokens, confidence }: IndexHit): void {
    const watched = this.#watched(instance);
    const second = this.#second();
    watched.index.add(second, { hitTokens, queryTokens });
    watched.confidence.add(second, confidence);
    watched.sampled.add(second, 1);
  }

  /** What an engine's counters say came to it from elsewhere, over the last `windowS` seconds; undefined when it exposes none. */
  received(instance: InstanceId, windowS: number): ReceivedTokens | undefined {
    const second = this.#second();
    return this.#instances.get(instance)?.engine.received(second - windowS + 1, second);
  }

  /** Answers `cache.hits`. Steps start at multiples of `stepS`, so that charts do not shimmer. */
  query({ windowS, stepS }: ParsedOperationInput<'cache.hits'>, instances: readonly Instance[]): CacheHitsAnswer {
    const to = this.#second();
    const first = Math.max(to - windowS + 1, to - SERIES_SECONDS + 1);
    const window = { from: first - (first % stepS), to };
    const readers = this.#readers(instances, window);
    const series: HitSeries[] = [];
    for (const source of HIT_SOURCES) {
      const ofSource = readers.flatMap(({ instance, bySource, confidence }) => {
        const reader = bySource[source];
        return reader === undefined ? [] : [{ instance, reader, confidence: source === 'index' ? confidence : undefined }];
      });
      const fleet = seriesOf(source, sumOf(ofSource.map(({ reader }) => reader)), { ...window, stepS });
      if (fleet === undefined) continue;
      const lowest = lowestConfidence(ofSource.flatMap(({ confidence }) => confidence ?? []));
      const sampleOf = (ids: readonly InstanceId[]): Pick<HitSeries, 'sample'> => (source === 'index' ? { sample: this.#sample(ids, window) } : {});
      series.push({ ...fleet, ...(lowest !== undefined && { confidence: lowest }), ...sampleOf(ofSource.map(({ instance }) => instance.id)) });
      for (const { instance, reader, confidence } of ofSource) {
        const own = seriesOf(source, reader, { ...window, stepS });
        if (own === undefined) continue;
        series.push({ ...own, instance: instance.id, instanceName: instance.name, ...(confidence !== undefined && { confidence }), ...sampleOf([instance.id]) });
      }
    }
    const disagreements = disagreementsOf(readers, window, TOLERANCE).map(
      ({ instance, instanceName, left, right, leftRate, rightRate, promptTokens, meaning }) => ({ instance, instanceName, left, right, leftRate, rightRate, ...(promptTokens !== undefined && { promptTokens }), meaning }),
    );
    return { nowUnixMs: this.#now(), windowS, stepS, series, disagreements };
  }

  #sample(instances: readonly InstanceId[], { from, to }: Window): NonNullable<HitSeries['sample']> {
    const watched = instances.map((id) => this.#instances.get(id)).filter((one) => one !== undefined);
    const sum = (counter: 'requests' | 'sampled'): number => watched.reduce((all, one) => all + one[counter].sum(from, to), 0);
    // One whose answer began before the window may be asked about in it.
    const requests = sum('sampled');
    return { requests, of: Math.max(requests, sum('requests')) };
  }

  #watched(instance: InstanceId): Watched {
    let watched = this.#instances.get(instance);
    if (watched === undefined) {
      watched = { engine: new EngineCounters(), index: new HitCounter(), confidence: new ConfidenceLog(), requests: new CounterSeries(), sampled: new CounterSeries() };
      this.#instances.set(instance, watched);
    }
    return watched;
  }

  #readers(instances: readonly Instance[], { from, to }: Window): InstanceReaders[] {
    const stats = new Map(Array.from(this.#options.stats(), (one) => [one.id, one]));
    return instances.map((instance) => {
      const watched = this.#instances.get(instance.id);
      const cached = stats.get(instance.id)?.cached;
      return {
        instance,
        bySource: {
          ...watched?.engine.sources,
          ...(cached !== undefined && {
            'prefill-cached-tokens': hitsOf(cached.prefill.promptTokens, cached.prefill.cachedTokens),
            'decode-cached-tokens': hitsOf(cached.decode.promptTokens, cached.decode.cachedTokens),
          }),
          ...(watched !== undefined && { index: watched.index }),
        },
        confidence: watched?.confidence.lowest(from, to),
      };
    });
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now();
  }

  #second(): number {
    return Math.floor(this.#now() / 1000);
  }
}

interface InstanceReaders {
  readonly instance: Instance;
  readonly bySource: Readonly<Partial<Record<HitSource, HitReader>>>;
  /** Of the index, in the window. */
  readonly confidence: Confidence | undefined;
}

/** Seconds, both included. */
interface Window {
  readonly from: number;
  readonly to: number;
}

function disagreementsOf(readers: readonly InstanceReaders[], { from, to }: Window, tolerance: number): Disagreement[] {
  const all = readers.map(({ instance: { id, name, role }, bySource }): InstanceHits => {
    const hits: Partial<Record<HitSource, HitSum>> = {};
    for (const source of HIT_SOURCES) {
      const sum = bySource[source]?.sum(from, to);
      if (sum !== undefined) hits[source] = sum;
    }
    return { instance: id, instanceName: name, role, hits };
  });
  const hasPrefill = all.some(({ role, hits }) => role === 'prefill' && (hits['prefill-cached-tokens'] ?? hits['engine-local']) !== undefined);
  return all.flatMap((one) => reconcile(one, { tolerance, hasPrefill }));
}

interface Steps extends Window {
  readonly stepS: number;
}

/** Undefined when the source said nothing in the window. */
function seriesOf(source: HitSource, reader: HitReader, { from, to, stepS }: Steps): HitSeries | undefined {
  const whole = reader.sum(from, to);
  if (whole === undefined) return undefined;
  const points: HitPoint[] = [];
  for (let start = from; start <= to; start += stepS) {
    const sum = reader.sum(start, Math.min(to, start + stepS - 1));
    if (sum !== undefined) points.push({ atUnixMs: start * 1000, ...sum });
  }
  return { source, points, whole };
}

function sumOf(readers: readonly HitReader[]): HitReader {
  return {
    sum(from, to) {
      let hitTokens = 0;
      let queryTokens = 0;
      for (const reader of readers) {
        const sum = reader.sum(from, to);
        hitTokens += sum?.hitTokens ?? 0;
        queryTokens += sum?.queryTokens ?? 0;
      }
      return queryTokens > 0 ? { hitTokens, queryTokens } : undefined;
    },
  };
}

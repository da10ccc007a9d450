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
import type { VerdictSink } from '../findings/findings.ts';
import type { Instance } from '../fleet/instance.ts';
import type { InstanceStats } from '../telemetry/instance-stats.ts';
import { SERIES_SECONDS } from '../telemetry/windowed.ts';
import { DisagreementWatch } from './disagreement-watch.ts';
import { EngineCounters } from './engine-counters.ts';
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

/** For whoever asks the index: once per request. Ignores instances that are not in the fleet. */
export interface IndexHitRecorder {
  recordIndex(hit: IndexHit): void;
}

export interface CacheHitsOptions {
  /** Statistics of the fleet's instances, settled. */
  readonly stats: () => Iterable<InstanceStats>;
  readonly findings: VerdictSink;
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
  confidence: Confidence | undefined;
}

export class CacheHits implements IndexHitRecorder {
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
      let watched = this.#instances.get(instance.id);
      if (watched === undefined) {
        watched = { engine: new EngineCounters(), index: new HitCounter(), confidence: undefined };
        this.#instances.set(instance.id, watched);
      }
      watched.engine.take(instance);
    }
    for (const id of this.#instances.keys()) if (!present.has(id)) this.#instances.delete(id);
    const second = this.#second();
    if (second - this.#lastLookSecond < WATCH_EVERY_S) return;
    this.#lastLookSecond = second;
    const window = { from: second - WATCH_WINDOW_S + 1, to: second };
    const readers = this.#readers(instances);
    this.#watch.look(disagreementsOf(readers, window, TOLERANCE), disagreementsOf(readers, window, TOLERANCE_OPEN));
  }

  recordIndex({ instance, queryTokens, hitTokens, confidence }: IndexHit): void {
    const watched = this.#instances.get(instance);
    if (watched === undefined) return;
    watched.index.add(this.#second(), { hitTokens, queryTokens });
    watched.confidence = confidence;
  }

  /** Answers `cache.hits`. Steps start at multiples of `stepS`, so that charts do not shimmer. */
  query({ windowS, stepS }: ParsedOperationInput<'cache.hits'>, instances: readonly Instance[]): CacheHitsAnswer {
    const to = this.#second();
    const first = Math.max(to - windowS + 1, to - SERIES_SECONDS + 1);
    const window = { from: first - (first % stepS), to };
    const readers = this.#readers(instances);
    const series: HitSeries[] = [];
    for (const source of HIT_SOURCES) {
      const ofSource = readers.flatMap(({ instance, bySource, confidence }) => {
        const reader = bySource[source];
        return reader === undefined ? [] : [{ instance, reader, confidence: source === 'index' ? confidence : undefined }];
      });
      const fleet = seriesOf(source, sumOf(ofSource.map(({ reader }) => reader)), { ...window, stepS });
      if (fleet === undefined) continue;
      const lowest = lowestOf(ofSource.flatMap(({ confidence }) => confidence ?? []));
      series.push({ ...fleet, ...(lowest !== undefined && { confidence: lowest }) });
      for (const { instance, reader, confidence } of ofSource) {
        const own = seriesOf(source, reader, { ...window, stepS });
        if (own === undefined) continue;
        series.push({ ...own, instance: instance.id, instanceName: instance.name, ...(confidence !== undefined && { confidence }) });
      }
    }
    const disagreements = disagreementsOf(readers, window, TOLERANCE).map(
      ({ instance, instanceName, left, right, leftRate, rightRate, meaning }) => ({ instance, instanceName, left, right, leftRate, rightRate, meaning }),
    );
    return { nowUnixMs: this.#now(), windowS, stepS, series, disagreements };
  }

  #readers(instances: readonly Instance[]): InstanceReaders[] {
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
        confidence: watched?.confidence,
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
  /** Of the index. */
  readonly confidence: Confidence | undefined;
}

function disagreementsOf(readers: readonly InstanceReaders[], { from, to }: { readonly from: number; readonly to: number }, tolerance: number): Disagreement[] {
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

interface Steps {
  readonly from: number;
  readonly to: number;
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

/** A sum is as good as the worst of its parts. */
function lowestOf(all: readonly Confidence[]): Confidence | undefined {
  return all.reduce<Confidence | undefined>((lowest, one) => (lowest === undefined || one.value < lowest.value ? one : lowest), undefined);
}

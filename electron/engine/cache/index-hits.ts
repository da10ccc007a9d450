/**
 * What the index held of prompts, for the hit rates: of every request whose tokens routing had, else of those that are
 * explained, which is a sample. All requests are counted, so that the sample can be told as one.
 */
import type { Confidence, MissReport } from '#shared/cache.ts';
import type { KvStreamView } from '#shared/kv.ts';
import type { CandidateScore } from '#shared/request.ts';
import type { IndexHitRecorder } from '../cache-hits/cache-hits.ts';
import { confidenceOf } from '../kv-index/confidence.ts';
import type { LegRecord } from '../telemetry/request-record.ts';

export interface IndexHitsOptions {
  readonly kvEvents: { streams(): readonly KvStreamView[] };
  readonly to: IndexHitRecorder | undefined;
}

/** As routing takes it (index-lookup.ts). */
const FRESH_MS = 250;

interface Routed {
  readonly promptTokens: number;
  readonly score: CandidateScore & { readonly matchedTokens: number };
}

export class IndexHits {
  readonly #options: IndexHitsOptions;
  #streams: readonly KvStreamView[] = [];
  #takenAtMs = Number.NEGATIVE_INFINITY;
  /** Of that moment, by instance and rank. */
  readonly #confidences = new Map<string, Confidence>();

  constructor(options: IndexHitsOptions) {
    this.#options = options;
  }

  /** The leg that computes a prompt answered; called on the hot path, once per request. */
  answered(leg: LegRecord): void {
    const { to } = this.#options;
    if (to === undefined) return;
    const { id: instance } = leg.instance;
    to.recordAsked(instance);
    const routed = routedOf(leg);
    if (routed === undefined) return;
    const { promptTokens, score: { matchedTokens, matchedBlocks = 0 } } = routed;
    // At least one token is computed: of a prompt held whole the last block is not found.
    const isWhole = matchedBlocks > 0 && matchedTokens >= promptTokens;
    const hitTokens = isWhole ? matchedTokens - matchedTokens / matchedBlocks : matchedTokens;
    to.recordIndex({ instance, queryTokens: promptTokens, hitTokens, confidence: this.#confidenceOf(leg) });
  }

  /** Of the stream of the rank that it was sent to; without one the lowest of the instance's. Requests come faster than it changes. */
  #confidenceOf({ instance: { id }, rank }: LegRecord): Confidence {
    const nowMs = performance.now();
    if (nowMs - this.#takenAtMs >= FRESH_MS) {
      this.#takenAtMs = nowMs;
      this.#streams = this.#options.kvEvents.streams();
      this.#confidences.clear();
    }
    const key = `${id} ${rank ?? ''}`;
    let confidence = this.#confidences.get(key);
    if (confidence === undefined) {
      const own = this.#streams.filter((stream) => stream.instance === id && (rank === undefined || stream.rank === rank));
      confidence = confidenceOf(own.map((stream) => stream.id), new Map(own.map((stream) => [stream.id, stream])));
      this.#confidences.set(key, confidence);
    }
    return confidence;
  }

  explained(leg: LegRecord, { ranges, promptTokens = 0, confidence }: MissReport): void {
    if (routedOf(leg) !== undefined) return;
    const hitTokens = ranges.reduce((sum, { kind, tokens }) => (kind === 'hit' ? sum + tokens : sum), 0);
    this.#options.to?.recordIndex({ instance: leg.instance.id, queryTokens: promptTokens, hitTokens, confidence });
  }
}

/** What the choice of this leg's instance rested on, where it rested on the index. */
function routedOf({ record, kind, instance }: LegRecord): Routed | undefined {
  const decision = record.decisions.findLast((one) => one.kind === kind && one.chosen === instance.id);
  const score = decision?.candidates.find((candidate) => candidate.instance === instance.id);
  if (decision?.promptTokens === undefined || score?.matchedTokens === undefined) return undefined;
  return { promptTokens: decision.promptTokens, score: { ...score, matchedTokens: score.matchedTokens } };
}

/**
 * What the index held of prompts, for the hit rates: of every request whose tokens routing had, else of those that are
 * explained, which is a sample. All requests are counted, so that the sample can be told as one.
 */
import type { Confidence, MissReport } from '#shared/cache.ts';
import type { InstanceId } from '#shared/ids.ts';
import type { CandidateScore } from '#shared/request.ts';
import type { IndexHitRecorder } from '../cache-hits/cache-hits.ts';
import type { KvEvents } from '../kv-events/kv-events.ts';
import type { LegRecord } from '../telemetry/request-record.ts';

export interface IndexHitsOptions {
  readonly kvEvents: Pick<KvEvents, 'confidenceOf'>;
  readonly to: IndexHitRecorder | undefined;
}

/** As routing takes it (index-lookup.ts). */
const FRESH_MS = 250;
const MAX_INSTANCES = 1024;

interface Routed {
  readonly promptTokens: number;
  readonly score: CandidateScore & { readonly matchedTokens: number };
}

export class IndexHits {
  readonly #options: IndexHitsOptions;
  /** Of a moment; instances come and go, so all are let go when there are many. */
  readonly #confidences = new Map<InstanceId, { readonly takenAtMs: number; readonly confidence: Confidence }>();

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
    to.recordIndex({ instance, queryTokens: promptTokens, hitTokens, confidence: this.#confidenceOf(instance) });
  }

  /** Requests come faster than confidence changes. */
  #confidenceOf(instance: InstanceId): Confidence {
    const nowMs = performance.now();
    const known = this.#confidences.get(instance);
    if (known !== undefined && nowMs - known.takenAtMs < FRESH_MS) return known.confidence;
    const { confidence: value, reasons } = this.#options.kvEvents.confidenceOf(instance);
    const confidence = { value, reasons: reasons.map(({ code, text }) => ({ code, text })) };
    if (this.#confidences.size >= MAX_INSTANCES) this.#confidences.clear();
    this.#confidences.set(instance, { takenAtMs: nowMs, confidence });
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

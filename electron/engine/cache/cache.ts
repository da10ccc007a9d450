/**
 * What the engine makes of the KV caches: the block index fed from the event streams, the answers of the Cache view, and why
 * requests missed. Index and observer exist before the streams and the telemetry that feed them; `start` joins the rest.
 */
import type { MissRange, MissReport, MissSummary } from '#shared/cache.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { RecordId } from '#shared/ids.ts';
import type { IndexHitRecorder } from '../cache-hits/cache-hits.ts';
import type { VerdictSink } from '../findings/findings.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { KvEvents } from '../kv-events/kv-events.ts';
import type { KvObserver } from '../kv-events/kv-observer.ts';
import type { CacheHandlers } from '../kv-index/cache-handlers.ts';
import { IndexObserver } from '../kv-index/index-observer.ts';
import { KvIndex } from '../kv-index/kv-index.ts';
import type { Logger } from '../log.ts';
import type { RecordWatcher } from '../telemetry/record-watcher.ts';
import type { RequestRecord } from '../telemetry/request-record.ts';
import { createCacheAnswers } from './cache-answers.ts';
import { divergenceTitle } from './cause-title.ts';
import { EngineCall } from './engine-call.ts';
import { LocalTimeObserver } from './local-time-observer.ts';
import { MissExplainer } from './miss-explainer.ts';
import { gatherMisses, type GatheredCause } from './miss-summary.ts';
import { OFF_REASON } from './prompt-keeper.ts';
import { TokenText } from './token-text.ts';

/** The part that streams feed; made before them. */
export interface CacheIndex {
  readonly index: KvIndex;
  readonly observer: KvObserver;
}

/** `capacity`: blocks held over all streams. `isReporting`: whether requests ask engines to publish blocks that they found, too. */
export function createCacheIndex(capacity: number, isReporting: () => boolean): CacheIndex {
  const index = new KvIndex({ capacity });
  return { index, observer: new LocalTimeObserver(new IndexObserver(index, { isReporting })) };
}

export interface CacheOptions {
  readonly index: KvIndex;
  readonly fleet: Pick<Fleet, 'get' | 'list'>;
  readonly kvEvents: Pick<KvEvents, 'streams' | 'streamsOf'>;
  readonly findings: VerdictSink;
  readonly logger: Logger;
  /** Sent to instances when the client's request had none. */
  readonly openaiApiKey: string | undefined;
  /** Whether requests are explained; prompts are kept until their tokens were had. */
  readonly explainMisses: boolean;
  /** Gets what the index held of every prompt explained. Default: nobody. */
  readonly hits?: IndexHitRecorder;
}

/** Where records are; telemetry is made after the cache, as the cache watches it. */
export interface RecordSource {
  find(id: RecordId): RequestRecord | undefined;
  records(): Iterable<RequestRecord>;
}

/** Titles that are given words of their own. */
const MAX_TITLES = 12;

export class Cache {
  readonly index: KvIndex;
  readonly answers: CacheHandlers;
  readonly watcher: RecordWatcher;
  readonly #text: TokenText;
  readonly #call = new EngineCall();
  readonly #explainer: MissExplainer;

  constructor(options: CacheOptions) {
    const { index, fleet, kvEvents, findings, logger, openaiApiKey, explainMisses, hits } = options;
    const authorization = openaiApiKey === undefined ? undefined : `Bearer ${openaiApiKey}`;
    const call = this.#call;
    this.index = index;
    this.#text = new TokenText({ call, instances: () => fleet.list(), authorization });
    this.answers = createCacheAnswers({ index, fleet, kvEvents, text: this.#text, call, authorization });
    this.#explainer = new MissExplainer({ index, fleet, kvEvents, call, text: this.#text, authorization, findings, logger, isOn: explainMisses, ...(hits !== undefined && { hits }) });
    this.watcher = this.#explainer;
  }

  get isExplaining(): boolean {
    return this.#explainer.isOn;
  }

  /** Requests left out because too many came at once, or too large ones. */
  get unexplained(): number {
    return this.#explainer.dropped;
  }

  /** Applies to requests that begin from now on; switched off, prompts kept so far are let go. */
  setExplaining(isOn: boolean): void {
    this.#explainer.setOn(isOn);
  }

  /** @throws PdscopeError `request_not_found`. */
  async why(id: RecordId, records: RecordSource): Promise<MissReport> {
    const record = records.find(id);
    if (record === undefined) throw new PdscopeError('request_not_found', `Request ${id} is not kept: it was evicted, cleared, or never recorded.`);
    const { why } = record;
    if (why?.state !== 'ready') {
      const reason = why?.reason ?? (this.isExplaining ? 'no instance has computed the prompt yet' : OFF_REASON);
      return { request: id, state: 'unavailable', reason, ranges: [], matches: [], confidence: { value: 0, reasons: [] } };
    }
    const reported = record.legs[why.leg]?.usage?.cachedTokens;
    return {
      ...why.report,
      ranges: await this.#withText(why.report.ranges),
      ...(reported !== undefined && { reportedCachedTokens: reported }),
    };
  }

  /** Over the records of the last `windowS` seconds. */
  async misses(windowS: number, records: RecordSource): Promise<MissSummary> {
    const { causes, ...rest } = gatherMisses(recent(records.records(), windowS), windowS);
    return { ...rest, causes: await this.#titled(causes) };
  }

  async close(): Promise<void> {
    this.#explainer.close();
    await this.#call.close();
  }

  async #withText(ranges: readonly MissRange[]): Promise<MissRange[]> {
    const sides = ranges.flatMap(({ diverges }) => (diverges === undefined ? [] : [{ tokens: diverges.asked.tokens }, { tokens: diverges.held.tokens }]));
    const texts = await this.#text.decode(sides);
    let at = 0;
    return ranges.map((range) => {
      const { diverges } = range;
      if (diverges === undefined) return range;
      const [asked, held] = [texts[at], texts[at + 1]];
      at += 2;
      return {
        ...range,
        diverges: { ...diverges, asked: { ...diverges.asked, ...(asked !== undefined && { text: asked }) }, held: { ...diverges.held, ...(held !== undefined && { text: held }) } },
      };
    });
  }

  async #titled(causes: readonly GatheredCause[]): Promise<MissSummary['causes']> {
    const placed = causes.flatMap(({ place }) => (place === undefined ? [] : [place])).slice(0, MAX_TITLES);
    const texts = await this.#text.decode(placed.flatMap(({ lead, asked, held }) => [{ tokens: lead }, { tokens: asked }, { tokens: held }]));
    return causes.map(({ place, ...cause }) => {
      const at = place === undefined ? -1 : placed.indexOf(place);
      if (place === undefined || at < 0) return cause;
      const [lead, asked, held] = [place.lead.length === 0 ? '' : texts[at * 3], texts[at * 3 + 1], texts[at * 3 + 2]];
      if (lead === undefined || asked === undefined || held === undefined) return cause;
      return { ...cause, title: divergenceTitle(place.token, { lead, asked, held, where: place.where }) };
    });
  }
}

function* recent(records: Iterable<RequestRecord>, windowS: number): Generator<RequestRecord> {
  for (const record of records) if (!record.isOwnProbe && record.elapsedMs() <= windowS * 1000) yield record;
}

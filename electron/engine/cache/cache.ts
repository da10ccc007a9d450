/**
 * What the engine makes of the KV caches: the block index fed from the event streams, the answers of the Cache view, and why
 * requests missed. Index and observer exist before the streams and the telemetry that feed them; `start` joins the rest.
 */
import type { CacheDifference, MissRange, MissReport, MissSummary } from '#shared/cache.ts';
import { PdscopeError } from '#shared/errors.ts';
import type { InstanceId, RecordId } from '#shared/ids.ts';
import type { ParsedOperationInput } from '#shared/operations.ts';
import type { RingCounters } from '#shared/state.ts';
import type { IndexHitRecorder, ReceivedReader } from '../cache-hits/cache-hits.ts';
import type { VerdictSink } from '../findings/findings.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { KvEvents } from '../kv-events/kv-events.ts';
import type { KvObserver } from '../kv-events/kv-observer.ts';
import type { CacheHandlers } from '../kv-index/cache-handlers.ts';
import { confidenceOfInstances } from '../kv-index/confidence.ts';
import { IndexObserver } from '../kv-index/index-observer.ts';
import { KvIndex } from '../kv-index/kv-index.ts';
import type { CopySum } from '../kv-index/second-copies.ts';
import type { Logger } from '../log.ts';
import type { RecordWatcher } from '../telemetry/record-watcher.ts';
import type { ExplainedRecord, KeptRecord } from '../telemetry/kept-record.ts';
import { createCacheAnswers } from './cache-answers.ts';
import { namedCauses } from './cause-names.ts';
import { EngineCall } from './engine-call.ts';
import { measureHandoff } from './handoff-measure.ts';
import { LocalTimeObserver } from './local-time-observer.ts';
import { MissExplainer } from './miss-explainer.ts';
import { gatherMisses } from './miss-summary.ts';
import type { OpenedRecords } from './opened-requests.ts';
import { OFF_REASON } from './prompt-keeper.ts';
import { RecentStores } from './recent-stores.ts';
import type { ReuseAnnouncers } from './reuse-announcers.ts';
import { StoreWitness } from './store-witness.ts';
import { TokenText } from './token-text.ts';

/** The part that streams feed; made before them. */
export interface CacheIndex {
  readonly index: KvIndex;
  readonly stores: RecentStores;
  readonly observer: KvObserver;
}

/** `capacity`: blocks held over all streams. `announcers`: engines asked to publish blocks that requests found, too. */
export function createCacheIndex(capacity: number, announcers: ReuseAnnouncers): CacheIndex {
  const index = new KvIndex({ capacity });
  const stores = new RecentStores(new IndexObserver(index, { isReporting: ({ instance }, atUnixMs) => announcers.isAnnouncing(instance, atUnixMs) }));
  return { index, stores, observer: new LocalTimeObserver(stores) };
}

export interface CacheOptions {
  readonly index: KvIndex;
  readonly stores: RecentStores;
  /** As for `createCacheIndex`. */
  readonly announcers: ReuseAnnouncers;
  readonly fleet: Pick<Fleet, 'get' | 'list'>;
  readonly kvEvents: Pick<KvEvents, 'streams' | 'streamsOf' | 'isQuietSince' | 'computed'>;
  readonly findings: VerdictSink;
  readonly logger: Logger;
  /** Sent to instances when the client's request had none. */
  readonly openaiApiKey: string | undefined;
  /** Whether requests are explained; prompts are kept until their tokens were had. */
  readonly explainMisses: boolean;
  /** See `MissExplainerOptions.calls`. */
  readonly explainCalls?: { readonly perSecond: number; readonly burst: number };
  /** Gets what the index held of prompts. Default: nobody. */
  readonly hits?: IndexHitRecorder & ReceivedReader;
}

/** Where records are; telemetry is made after the cache, as the cache watches it. */
interface RecordReader {
  find(id: RecordId): ExplainedRecord | undefined;
  records(): Iterable<KeptRecord>;
  readonly log: { counters(): Pick<RingCounters, 'evicted'> };
}

export type RecordSource = RecordReader & OpenedRecords;

export class Cache {
  readonly index: KvIndex;
  readonly answers: CacheHandlers;
  readonly watcher: RecordWatcher;
  readonly #fleet: CacheOptions['fleet'];
  readonly #kvEvents: CacheOptions['kvEvents'];
  readonly #received: ReceivedReader | undefined;
  readonly #announcers: ReuseAnnouncers;
  readonly #text: TokenText;
  readonly #call = new EngineCall();
  readonly #explainer: MissExplainer;
  readonly #witness: StoreWitness;

  constructor(options: CacheOptions) {
    const { index, stores, announcers, fleet, kvEvents, findings, logger, openaiApiKey, explainMisses, explainCalls, hits } = options;
    const authorization = openaiApiKey === undefined ? undefined : `Bearer ${openaiApiKey}`;
    const call = this.#call;
    this.index = index;
    this.#fleet = fleet;
    this.#kvEvents = kvEvents;
    this.#received = hits;
    this.#announcers = announcers;
    this.#text = new TokenText({ call, instances: () => fleet.list(), authorization });
    this.answers = createCacheAnswers({ index, fleet, kvEvents, text: this.#text, call, authorization });
    this.#explainer = new MissExplainer({
      index, stores, announcers, fleet, kvEvents, call, text: this.#text, authorization, findings, logger, isOn: explainMisses, ...(explainCalls !== undefined && { calls: explainCalls }), ...(hits !== undefined && { hits }),
    });
    this.#witness = new StoreWitness({ index, fleet, kvEvents });
    this.watcher = this.#watcher();
  }

  get isExplaining(): boolean {
    return this.#explainer.isOn;
  }

  /** Requests that nobody can have explained: their prompts were too large, or had to give way. */
  get unexplained(): number {
    return this.#explainer.dropped;
  }

  /** Applies to requests that begin from now on; switched off, prompts kept so far are let go. */
  setExplaining(isOn: boolean): void {
    this.#explainer.setOn(isOn);
  }

  /** @throws PdscopeError `request_not_found`. */
  async why(id: RecordId, records: RecordSource): Promise<MissReport> {
    let record = records.find(id);
    let why: ExplainedRecord['why'] = record?.why;
    if (record !== undefined && why?.state === 'unavailable' && !why.isPending) {
      why = (await this.#explainer.open(id, why.reason, records)) ?? why;
      record = records.find(id);
    }
    if (record === undefined) throw new PdscopeError('request_not_found', `Request ${id} is not kept: it was evicted, cleared, or never recorded.`);
    if (why?.state !== 'ready') {
      const reason = why?.reason ?? (this.isExplaining ? 'no instance has computed the prompt yet' : OFF_REASON);
      return { request: id, state: 'unavailable', reason, ...(why?.isPending === true && { isPending: true }), ranges: [], matches: [], confidence: { value: 0, reasons: [] } };
    }
    const reported = record.legs[why.leg]?.usage?.cachedTokens;
    return {
      ...why.report,
      ranges: await this.#withText(why.report.ranges),
      ...(reported !== undefined && { reportedCachedTokens: reported }),
    };
  }

  /** What two groups of instances hold, and what the handoff between them moved in the last `windowS` seconds. */
  async difference(input: ParsedOperationInput<'cache.difference'>, records: RecordSource): Promise<CacheDifference> {
    const found = await this.answers['cache.difference'](input);
    const { windowS } = input;
    const second = Math.floor(Date.now() / 1000);
    const measured = measureHandoff({
      windowS,
      left: found.left,
      right: found.right,
      records: recent(records.records(), windowS),
      receivedBy: (instance) => this.#received?.received(instance, windowS),
      storedAgain: (instances) => this.#storedAgain(instances, { from: second - windowS + 1, to: second }),
      confidenceIn: (ids) => confidenceOfInstances(ids, { streams: this.#kvEvents.streams(), nameOf: (id) => this.#fleet.get(id)?.name }),
      kvBytes: found.rightBytes,
    });
    return { ...found, ...measured };
  }

  #storedAgain(instances: readonly InstanceId[], { from, to }: { readonly from: number; readonly to: number }): CopySum | undefined {
    const streams = this.index.streams.filter(({ identity, isClosed }) => instances.includes(identity.instance) && !isClosed);
    if (streams.length === 0) return undefined;
    return streams.map(({ secondCopies }) => secondCopies.sum(from, to))
      .reduce((sum, one) => ({ blocks: sum.blocks + one.blocks, tokens: sum.tokens + one.tokens, announced: sum.announced + one.announced }));
  }

  /** Over the records of the last `windowS` seconds. */
  async misses(windowS: number, records: RecordSource): Promise<MissSummary> {
    const { causes, ...rest } = gatherMisses(recent(records.records(), windowS), { windowS, canOpen: (id) => this.#explainer.canOpen(id) });
    const reachesS = reachOf(records);
    return { ...rest, ...(reachesS !== undefined && reachesS < windowS && { reachesS }), causes: await namedCauses(causes, this.#text) };
  }

  async close(): Promise<void> {
    this.#explainer.close();
    this.#witness.close();
    await this.#call.close();
  }

  #watcher(): RecordWatcher {
    const [explainer, witness] = [this.#explainer, this.#witness];
    return {
      onParsed: (record, body) => explainer.onParsed(record, body),
      onTokens: (record, tokens, from) => explainer.onTokens(record, tokens, from),
      onReportAsked: (leg) => this.#announcers.ask(leg.instance.id, Date.now()),
      onAnswered: (leg) => explainer.onAnswered(leg),
      onEnded: (record) => {
        explainer.onEnded(record);
        witness.ended(record);
      },
    };
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
}

/** Seconds; undefined while every record is kept. */
function reachOf(source: RecordReader): number | undefined {
  if (source.log.counters().evicted === 0) return undefined;
  for (const oldest of source.records()) return Math.floor(oldest.elapsedMs() / 1000);
  return 0;
}

function* recent(records: Iterable<KeptRecord>, windowS: number): Generator<KeptRecord> {
  for (const record of records) if (!record.isOwnProbe && record.elapsedMs() <= windowS * 1000) yield record;
}

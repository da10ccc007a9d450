/** What `pdscope events` knows of the streams it watches: rates, gaps, what is resident, and what was reused. */
import { KvIndex } from '../kv-index/kv-index.ts';
import type { StreamBlocks } from '../kv-index/stream-blocks.ts';
import type { BatchApplier } from './batch-applier.ts';
import { hashCount } from './block-hashes.ts';
import type { Encoding, HashForm, KvEvent } from './kv-event.ts';
import { ReuseEstimate } from './reuse-estimate.ts';

const WATCHED_KINDS = ['stored', 'removed', 'cleared', 'unknown', 'bad'] as const;
export type EventsByKind = Record<(typeof WATCHED_KINDS)[number], number>;

export function noEventsByKind(): EventsByKind {
  return { stored: 0, removed: 0, cleared: 0, unknown: 0, bad: 0 };
}

/** Totals over all ranks since the start of the watch. */
export interface WatchStats {
  readonly seconds: number;
  readonly batches: number;
  /** Of these, by replay. */
  readonly replayedBatches: number;
  readonly events: number;
  readonly eventsByKind: Readonly<EventsByKind>;
  readonly bytes: number;
  readonly blocksStored: number;
  readonly blocksRemoved: number;
  readonly gaps: number;
  readonly gapsFilled: number;
  /** Batches missing, and of these, filled and lost. */
  readonly missed: number;
  readonly missedFilled: number;
  readonly missedLost: number;
  readonly epochs: number;
  readonly duplicates: number;
  /** Messages refused by the own queue. */
  readonly dropped: number;
  /** Messages and events that could not be read. */
  readonly bad: number;
  readonly encoding?: Encoding;
  readonly hashForm?: HashForm;
  /** The worst of the ranks, ms; absent before a live batch told its time. */
  readonly lagMs?: number;
  readonly isReplaying: boolean;
  /** Blocks resident by what was seen; an estimate unless every rank was seen from its start, without loss, and all blocks had room here. */
  readonly residentBlocks: number;
  readonly isResidentExact: boolean;
  /** Input that was not as it should be; see the fields of the same names of `KvStreamView`. */
  readonly odd: OddCounts;
  /**
   * Blocks announced from the root on that were resident already: vLLM announces reused blocks only for requests with
   * `kv_cache_report_mode: "full"`, so 0 says nothing about hits.
   */
  readonly reusedBlocks: number;
  /** Blocks before branches of known chains: a lower bound of what was found in the cache and not announced. */
  readonly branchedBlocks: number;
}

export interface OddCounts {
  readonly badMessages: number;
  readonly badEvents: number;
  readonly unknownEvents: number;
  readonly unknownFields: number;
  readonly badTimestamps: number;
  readonly unknownRemovals: number;
  readonly unknownParents: number;
  readonly duplicateStores: number;
  readonly hashFormChanges: number;
  readonly strayBatches: number;
}

/** As many as the engine follows by default; touched only as it fills. */
const RESIDENT_CAPACITY = 1_000_000;

export class RankStats {
  readonly resident: StreamBlocks;
  readonly eventsByKind = noEventsByKind();
  blocksStored = 0;
  blocksRemoved = 0;
  reusedBlocks = 0;
  readonly #reuse = new ReuseEstimate(RESIDENT_CAPACITY);

  constructor(resident: StreamBlocks) {
    this.resident = resident;
  }

  get branchedBlocks(): number {
    return this.#reuse.branchedBlocks;
  }

  get unknownParents(): number {
    return this.#reuse.unknownParents;
  }

  /** The engine started anew. */
  restart(atUnixMs: number): void {
    this.resident.restart(atUnixMs);
    this.#reuse.reset();
  }

  add(event: KvEvent, atUnixMs: number): void {
    this.eventsByKind[event.kind] += 1;
    this.#reuse.add(event);
    if (event.kind === 'removed') this.blocksRemoved += hashCount(event.hashes);
    const before = this.resident.duplicateStores;
    this.resident.apply(event, { atUnixMs });
    if (event.kind !== 'stored') return;
    const blocks = hashCount(event.hashes);
    this.blocksStored += blocks;
    if (event.parent === undefined && this.resident.duplicateStores - before === blocks) this.reusedBlocks += blocks;
  }
}

/** The index that the ranks of one watch share. It keeps neither content nor history. */
export function watchIndex(): KvIndex {
  return new KvIndex({ capacity: RESIDENT_CAPACITY, historyCapacity: 0, tokenBytes: 0, returnCapacity: 1 });
}

/** One rank, as the sum takes it. */
export interface WatchedRank {
  readonly applier: BatchApplier;
  readonly stats: RankStats;
  readonly dropped: number;
  readonly isReplaying: boolean;
}

export function sumStats(ranks: readonly WatchedRank[], seconds: number): WatchStats {
  const sum = (value: (rank: WatchedRank) => number): number => ranks.reduce((total, rank) => total + value(rank), 0);
  const lags = ranks.flatMap(({ applier: { lastTsUnixMs, lastTsReceivedAtUnixMs } }) => (lastTsUnixMs === undefined || lastTsReceivedAtUnixMs === undefined ? [] : [lastTsReceivedAtUnixMs - lastTsUnixMs]));
  const encoding = mixed(ranks.map(({ applier }) => applier.encoding));
  const hashForm = mixed(ranks.map(({ applier }) => applier.hashForm));
  const kinds = WATCHED_KINDS.map((kind) => [kind, sum(({ stats }) => stats.eventsByKind[kind])] as const);
  return {
    seconds,
    batches: sum(({ applier }) => applier.batches),
    replayedBatches: sum(({ applier }) => applier.replayedBatches),
    events: sum(({ applier }) => applier.events),
    eventsByKind: Object.fromEntries(kinds) as WatchStats['eventsByKind'],
    bytes: sum(({ applier }) => applier.bytes),
    blocksStored: sum(({ stats }) => stats.blocksStored),
    blocksRemoved: sum(({ stats }) => stats.blocksRemoved),
    gaps: sum(({ applier }) => applier.tracker.gaps),
    gapsFilled: sum(({ applier }) => applier.tracker.gapsFilled),
    missed: sum(({ applier }) => applier.tracker.missedBatches),
    missedFilled: sum(({ applier }) => applier.tracker.missedFilled),
    missedLost: sum(({ applier }) => applier.tracker.missedLost),
    epochs: sum(({ applier }) => applier.tracker.epoch),
    duplicates: sum(({ applier }) => applier.tracker.duplicateBatches),
    dropped: sum(({ dropped }) => dropped),
    bad: sum(({ applier }) => applier.badMessages + applier.badEvents),
    ...(encoding !== undefined && { encoding }),
    ...(hashForm !== undefined && { hashForm }),
    ...(lags.length > 0 && { lagMs: Math.max(...lags) }),
    isReplaying: ranks.some(({ isReplaying }) => isReplaying),
    residentBlocks: sum(({ stats }) => stats.resident.counts().reduce((total, { blocks }) => total + blocks, 0)),
    isResidentExact: ranks.every(({ applier: { tracker, badMessages, badEvents, unknownEvents }, stats: { resident } }) => tracker.sawStart && tracker.missedLost + tracker.strayBatches + badMessages + badEvents + unknownEvents + resident.untracked + resident.displaced === 0),
    odd: {
      badMessages: sum(({ applier }) => applier.badMessages),
      badEvents: sum(({ applier }) => applier.badEvents),
      unknownEvents: sum(({ applier }) => applier.unknownEvents),
      unknownFields: sum(({ applier }) => applier.unknownFields),
      badTimestamps: sum(({ applier }) => applier.badTimestamps),
      unknownRemovals: sum(({ stats }) => stats.resident.unknownRemovals),
      unknownParents: sum(({ stats }) => stats.unknownParents),
      duplicateStores: sum(({ stats }) => stats.resident.duplicateStores),
      hashFormChanges: sum(({ applier }) => applier.hashFormChanges),
      strayBatches: sum(({ applier }) => applier.tracker.strayBatches),
    },
    reusedBlocks: sum(({ stats }) => stats.reusedBlocks),
    branchedBlocks: sum(({ stats }) => stats.branchedBlocks),
  };
}

function mixed<Form extends Encoding | HashForm>(forms: readonly (Form | undefined)[]): Form | 'mixed' | undefined {
  const [first, ...others] = new Set(forms.filter((form) => form !== undefined));
  return others.length === 0 ? first : 'mixed';
}

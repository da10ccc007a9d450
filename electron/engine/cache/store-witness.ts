/**
 * Tells streams that say nothing what requests prove: an engine whose answer says that it computed whole blocks of the
 * prompt has stored them (kv-events/untold-stores.ts). Only where usage tells prompt and cached tokens; what was received
 * from elsewhere counts as cached there, and no block more than was surely computed counts.
 *
 * Looked at when a request has ended, and only where its stream received nothing meanwhile: on a stream that is well, the
 * batch of the request itself has come by then.
 */
import type { KvEvents } from '../kv-events/kv-events.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { KvIndex } from '../kv-index/kv-index.ts';
import { blockSizeOf } from '../kv-index/prefix-query.ts';
import type { LegRecord, RequestRecord } from '../telemetry/request-record.ts';
import { isComputing } from './computing-leg.ts';

export interface StoreWitnessOptions {
  readonly index: Pick<KvIndex, 'streams'>;
  readonly fleet: Pick<Fleet, 'get'>;
  readonly kvEvents: Pick<KvEvents, 'isQuietSince' | 'computed'>;
}

/** Usage is read off the answer after its end. */
const SETTLE_MS = 1000;
const MAX_WAITING = 256;

interface Waiting {
  readonly leg: LegRecord;
  readonly sentAtUnixMs: number;
}

export class StoreWitness {
  readonly #options: StoreWitnessOptions;
  #waiting: Waiting[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(options: StoreWitnessOptions) {
    this.#options = options;
  }

  /** Called on the hot path. */
  ended(record: RequestRecord): void {
    for (const leg of record.legs) {
      if (this.#waiting.length >= MAX_WAITING || !isComputing(leg)) continue;
      const sentAtUnixMs = Date.now() - (record.elapsedMs() - leg.sentMs);
      if (!this.#options.kvEvents.isQuietSince(leg.instance.id, leg.rank, sentAtUnixMs)) continue;
      this.#waiting.push({ leg, sentAtUnixMs });
      this.#timer ??= setTimeout(() => this.#look(), SETTLE_MS).unref();
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#waiting = [];
  }

  #look(): void {
    this.#timer = undefined;
    const due = this.#waiting;
    this.#waiting = [];
    for (const { leg, sentAtUnixMs } of due) {
      if (leg.outcome !== 'ok') continue;
      const blocks = computedBlocks(leg, this.#blockSize(leg));
      if (blocks > 0) this.#options.kvEvents.computed(leg.instance.id, leg.rank, { sentAtUnixMs, blocks });
    }
  }

  /** Tokens per block as events said, or the engine where there was none yet; 0 when neither told. */
  #blockSize({ instance, rank }: LegRecord): number {
    const { index, fleet } = this.#options;
    const stream = index.streams.find(({ identity, isClosed }) => identity.instance === instance.id && (rank === undefined || identity.rank === rank) && !isClosed);
    // Groups that skip blocks need not store each.
    if (stream !== undefined && stream.residencies.length > 0) return blockSizeOf(stream);
    const found = fleet.get(instance.id);
    return found?.transfer?.blockSize ?? found?.gauges?.blockSize ?? 0;
  }
}

/** Whole blocks of its prompt that the leg's engine computed, and that were not there before, by its usage; 0 when that does not tell. */
export function computedBlocks({ usage }: Pick<LegRecord, 'usage'>, blockSize: number): number {
  const { promptTokens, cachedTokens } = usage ?? {};
  if (promptTokens === undefined || cachedTokens === undefined || blockSize === 0) return 0;
  // The last token is computed in any case, and its block with it, though it may be there.
  return Math.max(0, Math.floor((promptTokens - 1) / blockSize) - Math.ceil(cachedTokens / blockSize));
}

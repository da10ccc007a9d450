/**
 * Encoder outputs. Each instance remembers those it had; instances of one cluster may share a store, as vLLM's
 * ECExampleConnector shares a directory (protocol facts: vllm/config/ec_transfer.py). Whoever finds an item nowhere
 * encodes it itself and takes the time that takes: the counters tell whether an encode stage helped.
 */
import type { EngineMetrics } from './engine-metrics.ts';
import type { MediaItem } from './sequence.ts';

/** Encoder outputs remembered per instance; the least recently used leave first. */
const CACHE_ITEMS = 512;
const STORE_ITEMS = 8192;

/** Item hashes in order of use, bounded. */
class RecentHashes {
  readonly #hashes = new Set<string>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  has(hash: string): boolean {
    return this.#hashes.has(hash);
  }

  /** Whether it was there before. */
  touch(hash: string): boolean {
    const isKnown = this.#hashes.delete(hash);
    this.#hashes.add(hash);
    for (const oldest of this.#hashes) {
      if (this.#hashes.size <= this.#capacity) break;
      this.#hashes.delete(oldest);
    }
    return isKnown;
  }
}

/** What encode instances leave for others, by content hash. */
export interface EncoderStore {
  put(hash: string): void;
  has(hash: string): boolean;
}

export function createEncoderStore(capacity = STORE_ITEMS): EncoderStore {
  const hashes = new RecentHashes(capacity);
  return { put: (hash) => void hashes.touch(hash), has: (hash) => hashes.has(hash) };
}

/** Items since the start of this life, by where their encoder output came from. */
export interface MediaCounts {
  /** Seen here before (`vllm:mm_cache_hits_total`). */
  readonly cached: number;
  /** Left by an encode instance. */
  readonly loaded: number;
  /** Encoded by this instance itself. */
  readonly encoded: number;
}

export class MediaCache {
  readonly #known = new RecentHashes(CACHE_ITEMS);
  readonly #store: EncoderStore | undefined;
  readonly #metrics: EngineMetrics;
  readonly #counts = { cached: 0, loaded: 0, encoded: 0 };

  constructor(store: EncoderStore | undefined, metrics: EngineMetrics) {
    this.#store = store;
    this.#metrics = metrics;
  }

  get counts(): MediaCounts {
    return this.#counts;
  }

  /** Counts the items, and answers how many must be encoded now. */
  admit(media: readonly MediaItem[]): number {
    let fresh = 0;
    for (const { hash } of media) {
      this.#metrics.mmQueries.inc();
      if (this.#known.touch(hash)) {
        this.#counts.cached += 1;
        this.#metrics.mmHits.inc();
      } else if (this.#store?.has(hash) === true) this.#counts.loaded += 1;
      else {
        this.#counts.encoded += 1;
        fresh += 1;
      }
    }
    return fresh;
  }

  /** Leaves items for other instances. */
  share(media: readonly MediaItem[]): void {
    for (const { hash } of media) this.#store?.put(hash);
  }
}

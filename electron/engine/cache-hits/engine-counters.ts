/**
 * What one engine's own counters say about hits and about what it received, put into the seconds of the scrapes that told
 * it. Growth comes from the scrape (engine-gauges.ts), which sums ranks and survives counter resets; what grew over
 * several missed scrapes is counted where it was learned, so totals are right and no step is invented.
 *
 * A source needs all of its counters: an engine that counts queries but no hits has no hit rate, rather than none of 0.
 */
import type { EngineCacheTokens } from '#shared/instance.ts';
import type { Instance } from '../fleet/instance.ts';
import { CounterSeries } from '../telemetry/windowed.ts';
import { HitCounter } from './hit-counter.ts';

const ENGINE_SOURCES = ['engine-local', 'engine-external', 'by-source'] as const;
type EngineSource = (typeof ENGINE_SOURCES)[number];

/** Tokens whose KV came from elsewhere, of prompts that began in a window. */
export interface ReceivedTokens {
  readonly tokens: number;
  /**
   * Which counter. `prompt_tokens_by_source` (since 2026-02) counts at the first output token, so only what arrived;
   * `external_prefix_cache_hits` counts when the request is scheduled, loads that fail included.
   */
  readonly from: 'prompt_tokens_by_source' | 'external_prefix_cache_hits';
  /** Moved by NIXL transfers that this engine issued; absent when it exposes no such counter. */
  readonly nixlBytes?: number;
}

export class EngineCounters {
  readonly sources: Readonly<Record<EngineSource, HitCounter>> = {
    'engine-local': new HitCounter(),
    'engine-external': new HitCounter(),
    'by-source': new HitCounter(),
  };
  readonly #received = new CounterSeries();
  readonly #nixlBytes = new CounterSeries();
  #receivedFrom: ReceivedTokens['from'] | undefined;
  #hasNixl = false;
  #last: EngineCacheTokens | undefined;
  #lastNixlBytes = 0;

  /** Takes what is new since the scrape before. */
  take({ gauges }: Pick<Instance, 'gauges'>): void {
    const now = gauges?.cacheTokens;
    if (gauges === undefined || now === undefined || now === this.#last) return;
    const before = this.#last;
    this.#last = now;
    const second = Math.floor(gauges.scrapedAtUnixMs / 1000);
    const grown = (key: keyof EngineCacheTokens): number | undefined => {
      const value = now[key];
      return value === undefined ? undefined : growth(value, before?.[key] ?? 0);
    };
    const [queries, hits, asked, offered] = [grown('prefixQueries'), grown('prefixHits'), grown('externalQueries'), grown('externalHits')];
    const [computed, local, transferred] = [grown('localCompute'), grown('localCacheHit'), grown('externalKvTransfer')];
    if (queries !== undefined && hits !== undefined) this.sources['engine-local'].add(second, { hitTokens: hits, queryTokens: queries });
    if (asked !== undefined && offered !== undefined) this.sources['engine-external'].add(second, { hitTokens: offered, queryTokens: asked });
    if (computed !== undefined && local !== undefined && transferred !== undefined) {
      this.sources['by-source'].add(second, { hitTokens: local + transferred, queryTokens: computed + local + transferred });
    }
    const received = transferred ?? offered;
    if (received !== undefined) {
      this.#receivedFrom = transferred === undefined ? 'external_prefix_cache_hits' : 'prompt_tokens_by_source';
      this.#received.add(second, received);
    }
    const { kvTransfers } = gauges;
    if (kvTransfers === undefined) return;
    this.#hasNixl = true;
    this.#nixlBytes.add(second, growth(kvTransfers.bytes, this.#lastNixlBytes));
    this.#lastNixlBytes = kvTransfers.bytes;
  }

  /** In the seconds `from`..`to`, both included; undefined when the engine exposes no such counter. */
  received(from: number, to: number): ReceivedTokens | undefined {
    if (this.#receivedFrom === undefined) return undefined;
    return { tokens: this.#received.sum(from, to), from: this.#receivedFrom, ...(this.#hasNixl && { nixlBytes: this.#nixlBytes.sum(from, to) }) };
  }
}

/** Whoever watches the instance may have begun anew. */
function growth(value: number, before: number): number {
  return value < before ? value : value - before;
}

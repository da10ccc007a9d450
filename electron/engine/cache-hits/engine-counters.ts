/**
 * What one engine's own counters say about hits, put into the seconds of the scrapes that told it. Growth comes from
 * the scrape (engine-gauges.ts), which sums ranks and survives counter resets; what grew over several missed scrapes is
 * counted where it was learned, so totals are right and no step is invented.
 */
import type { EngineCacheTokens } from '#shared/instance.ts';
import type { Instance } from '../fleet/instance.ts';
import { HitCounter } from './hit-counter.ts';

const ENGINE_SOURCES = ['engine-local', 'engine-external', 'by-source'] as const;
type EngineSource = (typeof ENGINE_SOURCES)[number];

export class EngineCounters {
  readonly sources: Readonly<Record<EngineSource, HitCounter>> = {
    'engine-local': new HitCounter(),
    'engine-external': new HitCounter(),
    'by-source': new HitCounter(),
  };
  #last: EngineCacheTokens | undefined;

  /** Takes what is new since the scrape before. */
  take({ gauges }: Pick<Instance, 'gauges'>): void {
    const now = gauges?.cacheTokens;
    if (gauges === undefined || now === undefined || now === this.#last) return;
    const before = this.#last;
    this.#last = now;
    const second = Math.floor(gauges.scrapedAtUnixMs / 1000);
    const grown = (key: keyof EngineCacheTokens): number => {
      const value = now[key] ?? 0;
      const known = before?.[key] ?? 0;
      // Whoever watches the instance began anew.
      return value < known ? value : value - known;
    };
    this.sources['engine-local'].add(second, { hitTokens: grown('prefixHits'), queryTokens: grown('prefixQueries') });
    this.sources['engine-external'].add(second, { hitTokens: grown('externalHits'), queryTokens: grown('externalQueries') });
    const cached = grown('localCacheHit') + grown('externalKvTransfer');
    this.sources['by-source'].add(second, { hitTokens: cached, queryTokens: cached + grown('localCompute') });
  }
}

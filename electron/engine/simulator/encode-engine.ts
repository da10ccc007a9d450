/**
 * An encoder-only instance: it encodes the media of a chat request, remembers what it encoded, and answers with
 * ec_transfer_params instead of text (protocol facts: vllm/config/ec_transfer.py; the field since 2026-07-12).
 */
import type { EngineMetrics } from './engine-metrics.ts';
import type { MediaItem } from './sequence.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

/** Encoder outputs remembered; the least recently used leave first. */
const CACHE_ITEMS = 512;

export interface EncodeEngineOptions {
  readonly options: ResolvedSimOptions;
  readonly metrics: EngineMetrics;
  readonly slowdown: () => number;
}

export class EncodeEngine {
  readonly #input: EncodeEngineOptions;
  readonly #cache = new Set<string>();

  constructor(input: EncodeEngineOptions) {
    this.#input = input;
  }

  /** Starts encoding; `done` gets `ec_transfer_params`. Answers a function that cancels. */
  encode(media: readonly MediaItem[], promptTokens: number, done: (params: object) => void): () => void {
    const { options, metrics, slowdown } = this.#input;
    const startedMs = performance.now();
    const fresh = media.filter((item) => !this.#touch(item.hash));
    metrics.mmQueries.inc(media.length);
    metrics.mmHits.inc(media.length - fresh.length);
    const ms = ((1 + fresh.length * options.timing.encodeMsPerItem) * slowdown()) / options.speed;
    const timer = setTimeout(() => {
      const seconds = (performance.now() - startedMs) / 1000;
      metrics.promptTokens.inc(promptTokens);
      metrics.promptBySource.local_compute.inc(promptTokens);
      metrics.ttftS.observe(seconds);
      metrics.e2eS.observe(seconds);
      metrics.finished.length.inc();
      done({ ec_items: media.map(({ hash }) => ({ mm_hash: hash, image_grid_thw: [[1, 16, 16]] })) });
    }, ms);
    return () => {
      clearTimeout(timer);
      metrics.finished.abort.inc();
    };
  }

  #touch(hash: string): boolean {
    const isKnown = this.#cache.delete(hash);
    this.#cache.add(hash);
    for (const oldest of this.#cache) {
      if (this.#cache.size <= CACHE_ITEMS) break;
      this.#cache.delete(oldest);
    }
    return isKnown;
  }
}

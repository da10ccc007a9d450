/**
 * An encoder-only instance: it encodes the media of a request, remembers and shares what it encoded, and answers with
 * ec_transfer_params instead of text (protocol facts: vllm/config/ec_transfer.py; the field since 2026-07-12).
 */
import type { EngineMetrics } from './engine-metrics.ts';
import type { MediaCache } from './media-cache.ts';
import type { MediaItem } from './sequence.ts';
import type { ResolvedSimOptions } from './sim-options.ts';

export interface EncodeEngineOptions {
  readonly options: ResolvedSimOptions;
  readonly metrics: EngineMetrics;
  readonly media: MediaCache;
  readonly slowdown: () => number;
}

/** Placeholder metadata per modality, as the model's processor would give it. */
const METADATA: Readonly<Record<MediaItem['modality'], object>> = {
  image: { image_grid_thw: [[1, 16, 16]] },
  audio: { audio_feature_lengths: [64] },
  video: { video_grid_thw: [[4, 8, 8]], second_per_grid_ts: [1] },
};

export class EncodeEngine {
  readonly #input: EncodeEngineOptions;

  constructor(input: EncodeEngineOptions) {
    this.#input = input;
  }

  /** Starts encoding; `done` gets `ec_transfer_params`. Answers a function that cancels. */
  encode(media: readonly MediaItem[], promptTokens: number, done: (params: object) => void): () => void {
    const { options, metrics, slowdown } = this.#input;
    const startedMs = performance.now();
    const fresh = this.#input.media.admit(media);
    const ms = ((1 + fresh * options.timing.encodeMsPerItem) * slowdown()) / options.speed;
    const timer = setTimeout(() => {
      const seconds = (performance.now() - startedMs) / 1000;
      metrics.promptTokens.inc(promptTokens);
      metrics.promptBySource.local_compute.inc(promptTokens);
      metrics.ttftS.observe(seconds);
      metrics.e2eS.observe(seconds);
      metrics.finished.length.inc();
      this.#input.media.share(media);
      done({ ec_items: media.map(({ hash, modality }) => ({ mm_hash: hash, ...METADATA[modality] })) });
    }, ms);
    return () => {
      clearTimeout(timer);
      metrics.finished.abort.inc();
    };
  }
}

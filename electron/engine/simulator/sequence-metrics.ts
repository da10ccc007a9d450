/** What a sequence's life adds to the engine's metrics. Times are milliseconds inside, seconds in Prometheus. */
import type { EngineFinishReason, EngineMetrics } from './engine-metrics.ts';
import type { Sequence } from './sequence.ts';

export function recordAdmission(sequence: Sequence, metrics: EngineMetrics): void {
  metrics.prefixQueries.inc(sequence.promptLength);
  metrics.prefixHits.inc(sequence.localHitTokens);
  if (metrics.hasConnector) metrics.externalQueries.inc(sequence.promptLength - sequence.localHitTokens);
}

/** One more output token, just appended. */
export function recordToken(sequence: Sequence, metrics: EngineMetrics): void {
  const nowMs = performance.now();
  metrics.generationTokens.inc();
  if (sequence.firstTokenMs === undefined) {
    sequence.firstTokenMs = nowMs;
    const computed = sequence.promptLength - sequence.cachedTokens;
    metrics.ttftS.observe((nowMs - sequence.arrivedMs) / 1000);
    metrics.promptTokens.inc(sequence.promptLength);
    metrics.promptBySource.local_compute.inc(computed);
    metrics.promptBySource.local_cache_hit.inc(sequence.localHitTokens);
    metrics.promptBySource.external_kv_transfer.inc(sequence.externalTokens);
    metrics.promptCached.inc(sequence.cachedTokens);
    metrics.prefillComputed.observe(computed);
  } else if (sequence.lastTokenMs !== undefined) {
    metrics.itlS.observe((nowMs - sequence.lastTokenMs) / 1000);
  }
  sequence.lastTokenMs = nowMs;
}

export function recordFinish(sequence: Sequence, reason: EngineFinishReason, metrics: EngineMetrics): void {
  const nowMs = performance.now();
  metrics.finished[reason].inc();
  metrics.e2eS.observe((nowMs - sequence.arrivedMs) / 1000);
  metrics.requestPromptTokens.observe(sequence.promptLength);
  metrics.requestGenerationTokens.observe(sequence.outputLength);
  metrics.maxGenerationTokens.observe(sequence.outputLength);
  metrics.paramsN.observe(sequence.spec.n);
  metrics.paramsMaxTokens.observe(sequence.spec.maxTokens);
  if (sequence.scheduledMs === undefined) return;
  metrics.queueS.observe((sequence.scheduledMs - sequence.arrivedMs) / 1000);
  if (sequence.firstTokenMs === undefined || sequence.lastTokenMs === undefined) return;
  const decodeS = (sequence.lastTokenMs - sequence.firstTokenMs) / 1000;
  metrics.prefillS.observe((sequence.firstTokenMs - sequence.scheduledMs) / 1000);
  metrics.decodeS.observe(decodeS);
  metrics.inferenceS.observe((sequence.lastTokenMs - sequence.scheduledMs) / 1000);
  if (sequence.outputLength > 1) metrics.tpotS.observe(decodeS / (sequence.outputLength - 1));
}

/** Events per second of each stream over the last two minutes, as this page saw them: the engine sends gauges, not history. */
import type { KvStreamView } from '#shared/kv.ts';

/** Between two samples, ms. */
export const SAMPLE_MS = 2000;
/** Samples kept: two minutes. */
export const MOST_SAMPLES = 60;

export interface RateHistory {
  /** Engine time of the newest sample. */
  readonly atUnixMs: number;
  /** Oldest first, at most MOST_SAMPLES; undefined where the stream was not there. */
  readonly byStream: ReadonlyMap<string, readonly (number | undefined)[]>;
}

export const NO_HISTORY: RateHistory = { atUnixMs: 0, byStream: new Map() };

/**
 * Adds a sample when its time has come, else answers the same object. Time that went by unseen (a hidden page, a lost
 * connection) becomes undefined samples, so that a line breaks there instead of lying. Streams that left are forgotten.
 */
export function sampleRates(history: RateHistory, streams: readonly Pick<KvStreamView, 'id' | 'eventsPerSecond'>[], nowUnixMs: number): RateHistory {
  const elapsed = nowUnixMs - history.atUnixMs;
  const isFirst = history.atUnixMs === 0 || elapsed < 0;
  if (!isFirst && elapsed < SAMPLE_MS) return history;
  const skipped = isFirst ? 0 : Math.min(MOST_SAMPLES, Math.round(elapsed / SAMPLE_MS) - 1);
  const byStream = new Map<string, readonly (number | undefined)[]>();
  for (const { id, eventsPerSecond } of streams) {
    const before = isFirst ? [] : (history.byStream.get(id) ?? []);
    byStream.set(id, [...before, ...Array.from<undefined>({ length: skipped }), eventsPerSecond].slice(-MOST_SAMPLES));
  }
  return { atUnixMs: nowUnixMs, byStream };
}

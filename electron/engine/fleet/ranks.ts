/**
 * Data-parallel ranks of an instance. Which one takes a leg: the one with the fewest legs under way, and among equals the one
 * that waited longest. The search begins after the last choice of that same instance, so every slot (instance, rank) is
 * reached whatever the order in which instances are chosen.
 */
import type { Instance } from './instance.ts';

/** undefined: the instance has one rank, and nothing is pinned. */
export function chooseRank(instance: Instance): number | undefined {
  const { dpSize, rankInFlight } = instance;
  if (dpSize < 2) return undefined;
  let best = instance.nextRank % dpSize;
  for (let step = 1; step < dpSize; step++) {
    const rank = (instance.nextRank + step) % dpSize;
    if ((rankInFlight[rank] ?? 0) < (rankInFlight[best] ?? 0)) best = rank;
  }
  instance.nextRank = (best + 1) % dpSize;
  return best;
}

/** Counts a leg of a rank in (+1) or out (-1). A rank that vanished when the size changed is left alone. */
export function countRank(instance: Instance, rank: number | undefined, change: 1 | -1): void {
  if (rank === undefined || rank >= instance.rankInFlight.length) return;
  instance.rankInFlight[rank] = Math.max(0, (instance.rankInFlight[rank] ?? 0) + change);
}

/** Sets the size; counts of ranks that stay are kept. */
export function setDpSize(instance: Instance, size: number, source: Instance['dpSizeSource']): void {
  instance.dpSizeSource = source;
  if (size === instance.dpSize) return;
  instance.dpSize = size;
  instance.rankInFlight = Array.from({ length: size }, (_, rank) => instance.rankInFlight[rank] ?? 0);
}

const RANK_SUFFIX = /_dp(\d{1,5})$/;

/** Engine processes of data-parallel ranks append `_dp<rank>` to the engine id (vllm/v1/engine/core.py). */
export function rankOfEngine(engineId: string): number | undefined {
  const found = RANK_SUFFIX.exec(engineId);
  return found === null ? undefined : Number(found[1]);
}

/** The id as it was configured, and as the API server knows it. */
export function withoutRank(engineId: string): string {
  return engineId.replace(RANK_SUFFIX, '');
}
